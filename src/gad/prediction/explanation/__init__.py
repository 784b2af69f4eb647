"""Why a prediction is what it is: contributions of atoms, and the diffusion seen from one of them."""
