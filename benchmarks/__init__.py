"""Speed and memory, measured on the machine at hand and recorded with it."""
