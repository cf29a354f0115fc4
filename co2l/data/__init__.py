"""What is learned: datasets, task streams, the validation split, batched augmentation, the replay buffer."""
