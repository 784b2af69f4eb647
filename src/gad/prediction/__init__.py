"""A trained model in use: files in, values with their intervals out."""
