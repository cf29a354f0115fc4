"""The settings that somebody published or searched for a method on a benchmark; all others follow from the two alone.

Co²L: the values chosen in the paper (appendix, Table 4) with batches of 512; digits were searched here, see
docs/reproduction.md. Baselines on r_mnist: the table "Hyperparameters chosen in our experiments" of the Co²L paper,
buffer 200. Baselines on seq_cifar10, seq_tiny_imagenet and p_mnist: the Dark Experience Replay release
(aimagelab/mammoth, utils/best_args.py), buffer 200. GEM, GSS and HAL were not run on Tiny-ImageNet by anybody (Table
1): their values there are *derived* from those on CIFAR-10. Joint is *derived* from the release's SGD.
"""

from __future__ import annotations

from typing import Any

PUBLISHED: dict[str, dict[str, dict[str, Any]]] = {
    "co2l": {
        "seq_cifar10": dict(eta=0.5, tau=0.5, kappa=0.2, kappa_star=0.01, E_0=500, E_t=100, warmup_epochs=10),
        "seq_tiny_imagenet": dict(
            eta=0.1, tau=0.5, kappa=0.1, kappa_star=0.1, E_0=500, E_t=50, warmup_epochs=10, probe_lr=0.1
        ),
        "r_mnist": dict(eta=0.01, tau=0.1, kappa=0.2, kappa_star=0.01, E_0=100, E_t=20, batch_size=512),
        "seq_digits": dict(eta=0.01, tau=0.1, kappa=0.1, kappa_star=0.01, batch_size=64),
        "r_digits": dict(eta=0.01, tau=0.1, kappa=0.1, kappa_star=0.01, batch_size=128),
    },
    "er": {
        "seq_cifar10": dict(eta=0.1),
        "seq_tiny_imagenet": dict(eta=0.1),
        "r_mnist": dict(eta=0.1),
        "p_mnist": dict(eta=0.2),
    },
    "gem": {
        "seq_cifar10": dict(eta=0.03, gamma=0.5),
        "seq_tiny_imagenet": dict(eta=0.03, gamma=0.5),
        "r_mnist": dict(eta=0.1, gamma=0.5),
        "p_mnist": dict(eta=0.1, gamma=0.5),
    },
    "agem": {
        "seq_cifar10": dict(eta=0.03),
        "seq_tiny_imagenet": dict(eta=0.01),
        "r_mnist": dict(eta=0.1),
        "p_mnist": dict(eta=0.1),
    },
    "icarl": {
        "seq_cifar10": dict(eta=0.1, weight_decay=1e-5),
        "seq_tiny_imagenet": dict(eta=0.03, weight_decay=1e-5),
    },
    "fdr": {
        "seq_cifar10": dict(eta=0.03, alpha=0.3),
        "seq_tiny_imagenet": dict(eta=0.03, alpha=0.3),
        "r_mnist": dict(eta=0.1, alpha=1.0),
        "p_mnist": dict(eta=0.1, alpha=1.0),
    },
    "gss": {
        "seq_cifar10": dict(eta=0.03, gmbs=32, nb=1),
        "seq_tiny_imagenet": dict(eta=0.03, gmbs=32, nb=1),
        "r_mnist": dict(eta=0.2, gmbs=128, nb=1, minibatch_size=10),
        "p_mnist": dict(eta=0.2, gmbs=128, nb=1, minibatch_size=10),
    },
    "hal": {
        "seq_cifar10": dict(eta=0.03, hal_lambda=0.2, beta=0.5, gamma=0.1),
        "seq_tiny_imagenet": dict(eta=0.03, hal_lambda=0.2, beta=0.5, gamma=0.1),
        "r_mnist": dict(eta=0.03, hal_lambda=0.1, beta=0.3, gamma=0.1),
        "p_mnist": dict(eta=0.1, hal_lambda=0.1, beta=0.5, gamma=0.1),
    },
    "der": {
        "seq_cifar10": dict(eta=0.03, alpha=0.3),
        "seq_tiny_imagenet": dict(eta=0.03, alpha=0.1),
        "r_mnist": dict(eta=0.1, alpha=0.5),
        "p_mnist": dict(eta=0.2, alpha=1.0),
    },
    "derpp": {
        "seq_cifar10": dict(eta=0.03, alpha=0.1, beta=0.5),
        "seq_tiny_imagenet": dict(eta=0.03, alpha=0.1, beta=1.0),
        "r_mnist": dict(eta=0.1, alpha=1.0, beta=0.5),
        "p_mnist": dict(eta=0.1, alpha=1.0, beta=1.0),
    },
    "finetune": {
        "seq_cifar10": dict(eta=0.1),
        "seq_tiny_imagenet": dict(eta=0.03),
        "r_mnist": dict(eta=0.2),
        "p_mnist": dict(eta=0.2),
    },
    "joint": {
        "seq_cifar10": dict(eta=0.1),
        "seq_tiny_imagenet": dict(eta=0.03),
        "r_mnist": dict(eta=0.2),
        "p_mnist": dict(eta=0.2),
    },
}
