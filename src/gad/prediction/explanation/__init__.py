"""Why a prediction is what it is: contributions of atoms, and the diffusion from one of them."""
