"""Learning from molecules without labels, for models that start from what was learned."""
