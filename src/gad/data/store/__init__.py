"""Packed molecules and graphs, in memory and on disk."""
