"""``python -m benchmarks.large_graphs``."""

from benchmarks.large_graphs import main

main()
