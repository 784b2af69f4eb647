"""What RDKit answers slowly, worked out for many molecules at once; tests compare with RDKit."""
