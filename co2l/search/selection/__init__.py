"""Which configuration is chosen, and what its seeds came to."""
