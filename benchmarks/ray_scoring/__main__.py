"""``python -m benchmarks.ray_scoring``."""

from benchmarks.ray_scoring import main

main()
