"""The service under load; see ``benchmarks/README.md``."""
