"""The baselines' settings on each benchmark, and where they come from.

r_mnist: the table "Hyperparameters chosen in our experiments" of the Co²L paper, buffer 200; one epoch, batch 128, no
augmentation, minibatches of the Dark Experience Replay release (DER release: aimagelab/mammoth, utils/best_args.py).
seq_cifar10, seq_tiny_imagenet: the DER release, buffer 200. GEM, GSS and HAL were not run on Tiny-ImageNet by anybody
(Table 1): their values there are *derived* from those on CIFAR-10. Joint is *derived* from the release's SGD.
seq_digits, r_digits: not tuned; a common rate and the weights of R-MNIST, to be searched.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any

Values = dict[str, Any]

# What all baselines have in common on a benchmark, as far as they have the setting.
COMMON: dict[str, Values] = {
    "seq_cifar10": dict(
        encoder="resnet18", batch_size=32, minibatch_size=32, epochs=50, buffer_size=200, augment="shift_flip"
    ),
    "seq_tiny_imagenet": dict(
        encoder="resnet18", batch_size=32, minibatch_size=32, epochs=100, buffer_size=200, augment="shift_flip"
    ),
    "r_mnist": dict(
        encoder="mnist_conv", batch_size=128, minibatch_size=128, epochs=1, buffer_size=200, augment="none"
    ),
    "seq_digits": dict(encoder="digits_conv", batch_size=32, minibatch_size=32, epochs=10, buffer_size=100),
    "r_digits": dict(encoder="digits_conv", batch_size=32, minibatch_size=32, epochs=10, buffer_size=100),
}  # fmt: skip

OWN: dict[str, dict[str, Values]] = {
    "er": {
        "seq_cifar10": dict(eta=0.1),
        "seq_tiny_imagenet": dict(eta=0.1),
        "r_mnist": dict(eta=0.1),
        "seq_digits": dict(eta=0.1),
        "r_digits": dict(eta=0.1),
    },
    "gem": {
        "seq_cifar10": dict(eta=0.03, gamma=0.5),
        "seq_tiny_imagenet": dict(eta=0.03, gamma=0.5),
        "r_mnist": dict(eta=0.1, gamma=0.5),
        "seq_digits": dict(eta=0.03, gamma=0.5),
        "r_digits": dict(eta=0.03, gamma=0.5),
    },
    "agem": {
        "seq_cifar10": dict(eta=0.03),
        "seq_tiny_imagenet": dict(eta=0.01),
        "r_mnist": dict(eta=0.1),
        "seq_digits": dict(eta=0.1),
        "r_digits": dict(eta=0.1),
    },
    "icarl": {
        "seq_cifar10": dict(eta=0.1, weight_decay=1e-5),
        "seq_tiny_imagenet": dict(eta=0.03, weight_decay=1e-5),
        "seq_digits": dict(eta=0.1, weight_decay=1e-5),
    },
    "fdr": {
        "seq_cifar10": dict(eta=0.03, alpha=0.3),
        "seq_tiny_imagenet": dict(eta=0.03, alpha=0.3),
        "r_mnist": dict(eta=0.1, alpha=1.0),
        "seq_digits": dict(eta=0.1, alpha=1.0),
        "r_digits": dict(eta=0.1, alpha=1.0),
    },
    "gss": {
        "seq_cifar10": dict(eta=0.03, gmbs=32, nb=1),
        "seq_tiny_imagenet": dict(eta=0.03, gmbs=32, nb=1),
        "r_mnist": dict(eta=0.2, gmbs=128, nb=1, minibatch_size=10),
        "seq_digits": dict(eta=0.1, gmbs=32, nb=1),
        "r_digits": dict(eta=0.1, gmbs=32, nb=1),
    },
    "hal": {
        "seq_cifar10": dict(eta=0.03, hal_lambda=0.2, beta=0.5, gamma=0.1),
        "seq_tiny_imagenet": dict(eta=0.03, hal_lambda=0.2, beta=0.5, gamma=0.1),
        "r_mnist": dict(eta=0.03, hal_lambda=0.1, beta=0.3, gamma=0.1),
        "seq_digits": dict(eta=0.1, hal_lambda=0.1, beta=0.5, gamma=0.1),
        "r_digits": dict(eta=0.1, hal_lambda=0.1, beta=0.5, gamma=0.1),
    },
    "der": {
        "seq_cifar10": dict(eta=0.03, alpha=0.3),
        "seq_tiny_imagenet": dict(eta=0.03, alpha=0.1),
        "r_mnist": dict(eta=0.1, alpha=0.5),
        "seq_digits": dict(eta=0.1, alpha=0.5),
        "r_digits": dict(eta=0.1, alpha=0.5),
    },
    "derpp": {
        "seq_cifar10": dict(eta=0.03, alpha=0.1, beta=0.5),
        "seq_tiny_imagenet": dict(eta=0.03, alpha=0.1, beta=1.0),
        "r_mnist": dict(eta=0.1, alpha=1.0, beta=0.5),
        "seq_digits": dict(eta=0.1, alpha=0.5, beta=0.5),
        "r_digits": dict(eta=0.1, alpha=0.5, beta=0.5),
    },
    "finetune": {
        "seq_cifar10": dict(eta=0.1),
        "seq_tiny_imagenet": dict(eta=0.03),
        "r_mnist": dict(eta=0.2),
        "seq_digits": dict(eta=0.1),
        "r_digits": dict(eta=0.1),
    },
    "joint": {
        "seq_cifar10": dict(eta=0.1),
        "seq_tiny_imagenet": dict(eta=0.03),
        "r_mnist": dict(eta=0.2),
        "seq_digits": dict(eta=0.1),
        "r_digits": dict(eta=0.1),
    },
}


def defaults_of(method: str, benchmark: str, settings: Container[str]) -> Values:
    """What of the tables is among the method's `settings`."""
    common = {name: value for name, value in COMMON[benchmark].items() if name in settings}
    return {**common, **OWN[method][benchmark]}
