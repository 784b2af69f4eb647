"""What is chosen: recipes, the task, and the model they describe."""
