"""What was tried and how it ended, in Optuna's storage; one driver at a time writes it."""
