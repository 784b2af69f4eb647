"""A search for better settings."""
