"""What is learned: task streams, the validation split, batched augmentation, the replay buffer."""
