"""Training: recipes, fitting, the model file, prediction."""
