"""Encoders that ship with the package, for models to start from: one file each."""
