"""How a run learns: configuration, the chain of stages, the store, methods, losses, encoders, probe, metrics."""
