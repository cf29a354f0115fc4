"""Which trial comes next, and which one stops early."""
