"""Hyperparameter search for contrastive continual learning (Co²L)."""

__version__ = "0.1.0"
