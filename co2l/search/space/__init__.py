"""What is searched: YAML to a validated space, and what searching it will cost."""
