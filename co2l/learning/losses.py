"""The losses of Co²L: contrast current-task views with all others, and keep the relations a past model saw.

SupCon and relation distillation see a batch only through z zᵀ; both take that matrix, so it is computed once:

    relations = similarity(z)
    loss = supcon(relations, labels, tau, anchors=current) + lambda_ * relation_distillation(
        relations, similarity(z_past), kappa, kappa_star)

`reduction="sum"` is the paper, `"mean"` the released code, on whose scale η and λ were tuned.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, mse_loss, softmax

Reduction = Literal["mean", "sum"]


def similarity(z: Tensor) -> Tensor:
    """z zᵀ of a batch [2N, d], which should be on the unit sphere; in float32 at least."""
    # Half precision errs by about 4e-3 in a cosine, which κ = 0.01 turns into 0.4 in a logit.
    with torch.autocast(z.device.type, enabled=False):
        z = z.to(torch.promote_types(z.dtype, torch.float32))
        return z @ z.T


def supcon(
    relations: Tensor,
    labels: Tensor,
    tau: float,
    *,
    anchors: Tensor | None = None,
    base_temperature: float = 0.07,
    reduction: Reduction = "mean",
) -> Tensor:
    """Supervised contrastive loss: eq. (supcon_asym) over `anchors` (bool [2N]), eq. (supcon) without.

    Positives of a view are the other views of its label; an anchor that has none adds 0. "sum" adds up the
    anchors; "mean" is τ / `base_temperature` times that sum, divided by all 2N views, anchors or not.
    """
    positives = labels.unsqueeze(1) == labels
    positives.fill_diagonal_(False)
    weight = positives.sum(1).clamp(min=1).to(relations.dtype).reciprocal()
    if anchors is not None:
        weight = weight * anchors
    loss = cross_entropy(_logits(relations, tau), positives * weight.unsqueeze(1), reduction=reduction)
    return loss if reduction == "sum" else loss * (tau / base_temperature)


def relation_distillation(
    relations: Tensor, past: Tensor, kappa: float, kappa_star: float, *, reduction: Reduction = "mean"
) -> Tensor:
    """IRD, eq. (IRD), on the similarities of projections; SEED, eq. (SEED), on those of encoder outputs.

    Cross-entropy of the current relations at κ with the past model's at κ*, which receive no gradient.
    """
    target = softmax(_logits(past.detach(), kappa_star), dim=1)
    return cross_entropy(_logits(relations, kappa), target, reduction=reduction)


def matching(current: Tensor, past: Tensor) -> Tensor:
    """The MSE alternatives to IRD: squared distance to past embeddings or projections, mean over views."""
    return mse_loss(current, past.detach(), reduction="sum") / len(current)


def _logits(relations: Tensor, temperature: float) -> Tensor:
    """Relations over temperature, where a view itself has probability 0 among the others."""
    if relations.shape[0] != relations.shape[1]:
        raise ValueError(f"expected the [2N, 2N] matrix similarity(z), got shape {tuple(relations.shape)}")
    logits = relations / temperature
    # The lowest finite number and not -inf: a target of 0 times a log-probability of -inf would be NaN.
    return logits.fill_diagonal_(torch.finfo(logits.dtype).min)
