"""The losses agree with the paper's sums written as loops, in value and gradient, on any batch."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from formulas import distillation_loops, matching_loops, supcon_loops
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import normalize

from co2l.learning.losses import Reduction, matching, relation_distillation, similarity, supcon


@dataclass(frozen=True)
class Batch:
    """2N views of N examples, their past counterpart, and which are anchors; float64."""

    z: Tensor
    past: Tensor
    labels: Tensor
    anchors: Tensor


def features(kind: str, views: int, dim: int, generator: torch.Generator) -> Tensor:
    noise = torch.randn(views, dim, dtype=torch.float64, generator=generator)
    if kind == "random":
        return normalize(noise)
    one = normalize(torch.randn(1, dim, dtype=torch.float64, generator=generator))
    sign = 1.0 if kind == "equal" else torch.tensor([1.0, -1.0], dtype=torch.float64).repeat(views // 2)[:, None]
    return normalize(sign * one + 1e-3 * noise)


@st.composite
def batches(draw: st.DrawFn) -> Batch:
    examples = draw(st.integers(1, 5))
    dim = draw(st.integers(2, 6))
    kinds = st.sampled_from(["random", "equal", "opposite"])
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**32)))
    z = features(draw(kinds), 2 * examples, dim, generator)
    past = features(draw(kinds), 2 * examples, dim, generator)
    # Labels per view, not per example: an anchor may then have no positive at all.
    labels = torch.tensor(draw(st.lists(st.integers(0, 3), min_size=2 * examples, max_size=2 * examples)))
    anchors = torch.tensor(draw(st.lists(st.booleans(), min_size=2 * examples, max_size=2 * examples)))
    return Batch(z, past, labels, anchors)


temperatures = st.sampled_from([0.01, 0.07, 0.1, 0.5, 1.0])


def value_and_gradient(loss: Callable[[Tensor], Tensor], z: Tensor) -> tuple[Tensor, Tensor]:
    z = z.clone().requires_grad_()
    value = loss(z)
    value.backward()
    assert z.grad is not None
    assert value.shape == ()
    return value.detach(), z.grad


def assert_agree(
    loss: Callable[[Tensor], Tensor], reference: Callable[[Tensor], Tensor], z: Tensor, temperature: float
) -> None:
    """Within 1e-9 in float64. In float32 a cosine errs by about 1e-7, a logit by that over the temperature.

    The gradient multiplies once more by 1/T, and each of the 2N views takes part in all 2N rows.
    """
    value, gradient = value_and_gradient(reference, z)
    value64, gradient64 = value_and_gradient(loss, z)
    assert value64.dtype == gradient64.dtype == torch.float64
    torch.testing.assert_close(value64, value, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(gradient64, gradient, rtol=1e-9, atol=1e-9)
    value32, gradient32 = value_and_gradient(loss, z.float())
    assert value32.dtype == gradient32.dtype == torch.float32
    logit_error = 1e-6 / temperature
    atol = len(z) * logit_error
    torch.testing.assert_close(value32.double(), value, rtol=1e-5, atol=atol)
    torch.testing.assert_close(gradient32.double(), gradient, rtol=1e-5, atol=2 * atol / temperature)


@given(batches(), temperatures, st.sampled_from(["some", "all", "none", "symmetric"]))
def test_supcon_is_the_papers_sum_over_anchors(batch: Batch, tau: float, kind: str) -> None:
    everyone = torch.ones_like(batch.anchors)
    anchors = {"some": batch.anchors, "none": ~everyone}.get(kind, everyone)
    given_anchors = None if kind == "symmetric" else anchors

    assert_agree(
        lambda z: supcon(similarity(z), batch.labels, tau, anchors=given_anchors, reduction="sum"),
        lambda z: supcon_loops(z, batch.labels, anchors, tau),
        batch.z,
        tau,
    )


@given(batches(), temperatures, st.sampled_from([0.05, 0.07, 0.3]))
def test_supcon_mean_is_the_released_scale(batch: Batch, tau: float, base_temperature: float) -> None:
    relations = similarity(batch.z)
    total = supcon(relations, batch.labels, tau, anchors=batch.anchors, reduction="sum")
    mean = supcon(relations, batch.labels, tau, anchors=batch.anchors, base_temperature=base_temperature)
    torch.testing.assert_close(mean, tau / base_temperature * total / len(batch.z))


def test_supcon_defaults_to_the_released_scale_and_base_temperature() -> None:
    relations = similarity(features("random", 6, 4, torch.Generator().manual_seed(0)))
    labels = torch.tensor([0, 0, 0, 1, 1, 1])
    total = supcon(relations, labels, 0.5, reduction="sum")
    torch.testing.assert_close(supcon(relations, labels, 0.5), 0.5 / 0.07 * total / 6)


@given(batches(), temperatures, temperatures)
def test_relation_distillation_is_the_papers_sum(batch: Batch, kappa: float, kappa_star: float) -> None:
    assert_agree(
        lambda z: relation_distillation(
            similarity(z), similarity(batch.past.to(z.dtype)), kappa, kappa_star, reduction="sum"
        ),
        lambda z: distillation_loops(z, batch.past, kappa, kappa_star),
        batch.z,
        # The past relations err too, and their error meets differences of current logits up to 2 / κ.
        kappa * min(1.0, kappa_star),
    )


@given(batches(), temperatures, temperatures)
def test_relation_distillation_mean_is_over_all_views(batch: Batch, kappa: float, kappa_star: float) -> None:
    current, past = similarity(batch.z), similarity(batch.past)
    total = relation_distillation(current, past, kappa, kappa_star, reduction="sum")
    torch.testing.assert_close(relation_distillation(current, past, kappa, kappa_star), total / len(batch.z))


@given(batches())
def test_matching_is_the_mean_squared_distance(batch: Batch) -> None:
    assert_agree(
        lambda z: matching(z, batch.past.to(z.dtype)),
        lambda z: matching_loops(z, batch.past),
        3 * batch.z,
        1.0,
    )


@given(batches(), temperatures)
def test_the_past_receives_no_gradient(batch: Batch, kappa: float) -> None:
    z, past = batch.z.clone().requires_grad_(), batch.past.clone().requires_grad_()
    (relation_distillation(similarity(z), similarity(past), kappa, kappa) + matching(z, past)).backward()
    assert past.grad is None


@given(batches(), st.sampled_from(["as drawn", "identical", "alternating"]))
def test_float32_at_kappa_001_is_always_finite(batch: Batch, kind: str) -> None:
    z = batch.z.float()
    if kind in ("identical", "alternating"):  # cosines of exactly 1, and of exactly 1 and -1
        z = z[:1].repeat(len(z), 1)
        z[1::2] *= -1 if kind == "alternating" else 1
    z.requires_grad_()
    relations = similarity(z)
    for reduction in ("mean", "sum"):
        loss = supcon(relations, batch.labels, 0.01, anchors=batch.anchors, reduction=reduction)
        loss = loss + relation_distillation(relations, similarity(batch.past.float()), 0.01, 0.01, reduction=reduction)
        (gradient,) = torch.autograd.grad(loss, z, retain_graph=True)
        assert math.isfinite(loss.item())
        assert gradient.isfinite().all()


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize(
    ("labels", "anchors"),
    [
        pytest.param([0, 0, 1, 1], [False] * 4, id="no anchor"),
        pytest.param([0, 1, 2, 3], [True] * 4, id="no positives"),
        pytest.param([0, 1, 1, 1], [True, False, False, False], id="the one anchor has no positives"),
        pytest.param([5, 6], [True, True], id="two views without positives"),
        pytest.param([5, 5], [True, True], id="two views, the only other one is the positive"),
    ],
)
def test_supcon_is_zero_where_nothing_is_to_be_learned(
    reduction: Reduction, labels: list[int], anchors: list[bool]
) -> None:
    z = features("random", len(labels), 4, torch.Generator().manual_seed(1)).float()
    value, gradient = value_and_gradient(
        lambda z: supcon(similarity(z), torch.tensor(labels), 0.1, anchors=torch.tensor(anchors), reduction=reduction),
        z,
    )
    assert value == 0
    assert torch.equal(gradient, torch.zeros_like(z))


def test_two_views_have_only_one_relation_to_distil() -> None:
    generator = torch.Generator().manual_seed(2)
    past = similarity(features("random", 2, 4, generator))
    value, gradient = value_and_gradient(
        lambda z: relation_distillation(similarity(z), past, 0.01, 0.01), features("random", 2, 4, generator)
    )
    assert value == 0
    assert torch.equal(gradient, torch.zeros(2, 4, dtype=torch.float64))


def test_similarity_stays_in_float32_under_autocast() -> None:
    z = normalize(torch.randn(8, 16, generator=torch.Generator().manual_seed(3)))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = similarity(z)
    assert inside.dtype == torch.float32
    assert torch.equal(inside, similarity(z))
    assert similarity(z.bfloat16()).dtype == torch.float32


def test_features_in_place_of_their_similarity_are_refused() -> None:
    z = torch.ones(4, 3)
    with pytest.raises(ValueError, match=r"similarity\(z\)"):
        supcon(z, torch.zeros(4), 0.1)
    with pytest.raises(ValueError, match=r"similarity\(z\)"):
        relation_distillation(similarity(z), z, 0.1, 0.1)
