"""One page on a training run."""
