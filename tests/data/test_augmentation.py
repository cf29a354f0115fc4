"""Each batched operator does to every image what torchvision's does to that image alone."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from fake_device import fake_device, values
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from torch import Tensor

from co2l.data import augmentation
from co2l.data.augmentation import Augmentation, Parameters, apply, augment, draw, shift_and_flip
from co2l.data.torchvision_import import torchvision
from co2l.errors import Co2lError

transforms: Any = torchvision.transforms
reference: Any = torchvision.transforms.functional

BYTE = 1 / 255
EVERYTHING = Augmentation((0.2, 1.0), flip=0.5, jitter=0.8, gray=0.2, blur=0.5)
RARELY_BY_CHANCE = 1e-6  # the seeds are fixed: a test that passes once passes always


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def pictures(n: int, channels: int, height: int = 32, width: int = 32, seed: int = 0) -> Tensor:
    """uint8 images: noise, smooth colour gradients, hard shapes on black, and one colour all over, in turn."""
    generator = seeded(seed)
    noise = torch.rand(n, channels, height, width, generator=generator)
    coarse = torch.rand(n, channels, 4, 4, generator=generator)
    smooth = torch.nn.functional.interpolate(coarse, (height, width), mode="bicubic").clamp(0, 1)
    shapes = (smooth > 0.6).float()
    plain = coarse[:, :, :1, :1].expand_as(noise)
    kind = (torch.arange(n) % 4)[:, None, None, None]
    mixed = torch.where(kind == 0, noise, torch.where(kind == 1, smooth, torch.where(kind == 2, shapes, plain)))
    return (mixed * 255).round().byte()


def unit(images: Tensor) -> Tensor:
    return images.float() / 255


def each_as_pil(images: Tensor, operator: Callable[..., Any], *parameters: Sequence[Any]) -> Tensor:
    """`operator` on every image as an 8-bit PIL image, with that image's parameters, back as floats."""
    done = [
        reference.pil_to_tensor(operator(reference.to_pil_image(image), *own))
        for image, *own in zip(images, *parameters, strict=True)
    ]
    return unit(torch.stack(done))


def each(images: Tensor, operator: Callable[..., Any], *parameters: Sequence[Any]) -> Tensor:
    """`operator` on every image as a float tensor, with that image's parameters."""
    return torch.stack([operator(image, *own) for image, *own in zip(images, *parameters, strict=True)])


def assert_near(actual: Tensor, expected: Tensor, tolerance: float) -> None:
    assert actual.shape == expected.shape
    assert actual.dtype == torch.float32
    assert (actual - expected).abs().max().item() <= tolerance


# The crop


def resized(image: Any, top: int, left: int, height: int, width: int) -> Any:
    _, rows, columns = reference.get_dimensions(image)
    return reference.resized_crop(image, top, left, height, width, [rows, columns], antialias=True)


@pytest.mark.parametrize(("channels", "height", "width"), [(1, 28, 28), (3, 32, 32), (3, 64, 64), (3, 24, 40)])
@pytest.mark.parametrize("scale", [(0.7, 1.0), (0.02, 0.3)])
def test_crop_is_that_of_torchvision(channels: int, height: int, width: int, scale: tuple[float, float]) -> None:
    images = pictures(96, channels, height, width)
    p = draw(Augmentation(scale), 96, height, width, seeded())
    boxes = [*p.corner.tolist(), *p.size.tolist()]
    actual = augmentation.resized_crop(unit(images), p.corner, p.size)
    assert_near(actual, each_as_pil(images, resized, *boxes), 2 * BYTE)
    assert_near(actual, each(unit(images), resized, *boxes), 1e-5)


@given(data=st.data())
def test_any_box_of_any_image_is_stretched_as_torchvision_does(data: st.DataObject) -> None:
    # From 2 columns on: of a single one, torch's antialiased kernel (2.13, CPU) repeats the first pixel.
    rows, columns = data.draw(st.integers(1, 20)), data.draw(st.integers(2, 20))
    height, width = data.draw(st.integers(1, rows)), data.draw(st.integers(1, columns))
    box = [
        data.draw(st.integers(0, rows - height)),
        data.draw(st.integers(0, columns - width)),
        height,
        width,
    ]
    images = unit(pictures(4, 1, rows, columns))
    actual = augmentation.resized_crop(images, *torch.tensor(box).reshape(2, 2, 1).expand(2, 2, 4))
    assert_near(actual, each(images, resized, *([side] * 4 for side in box)), 1e-5)


def test_crop_sees_nothing_outside_its_box() -> None:
    image = torch.ones(1, 1, 28, 28)
    image[:, :, 5:20, 7:25] = 0.25
    corner, size = torch.tensor([[5], [7]]), torch.tensor([[15], [18]])
    assert_near(augmentation.resized_crop(image, corner, size), torch.full((1, 1, 28, 28), 0.25), 1e-5)


@pytest.mark.parametrize(("channels", "height", "width"), [(3, 32, 32), (1, 24, 40)])
def test_shift_and_flip_is_a_padded_crop_and_a_flip_of_torchvision(channels: int, height: int, width: int) -> None:
    """Each view is one of the 9 × 9 × 2 that torchvision can make of its image, all of them equally often."""
    image = pictures(1, channels, height, width)[0]  # noise: no two of its views are equal
    padded = reference.pad(image, [4])
    crops = [reference.crop(padded, top, left, height, width) for top in range(9) for left in range(9)]
    possible = [unit(view) for crop in crops for view in (crop, reference.hflip(crop))]
    number = {view.numpy().tobytes(): i for i, view in enumerate(possible)}
    assert len(number) == 162
    views = shift_and_flip(image.expand(8100, -1, -1, -1), seeded())
    assert views.dtype == torch.float32
    found = [number[view.contiguous().numpy().tobytes()] for view in views]
    assert stats.chisquare(torch.tensor(found).bincount(minlength=162)).pvalue > RARELY_BY_CHANCE


# The other operators


@pytest.mark.parametrize("channels", [1, 3])
def test_flip_is_that_of_torchvision(channels: int) -> None:
    images = pictures(8, channels, 24, 40)
    actual = augmentation.horizontal_flip(unit(images))
    assert torch.equal(actual, each_as_pil(images, reference.hflip))


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("name", ["adjust_brightness", "adjust_contrast", "adjust_saturation"])
def test_light_is_adjusted_as_torchvision_does(name: str, channels: int) -> None:
    images = pictures(128, channels)
    factor = 2 * torch.rand(128, generator=seeded(1))
    actual = getattr(augmentation, name)(unit(images), factor)
    assert_near(actual, each_as_pil(images, getattr(reference, name), factor.tolist()), 2 * BYTE)
    assert_near(actual, each(unit(images), getattr(reference, name), factor.tolist()), 1e-5)


@pytest.mark.parametrize("channels", [1, 3])
def test_hue_is_adjusted_as_torchvision_does(channels: int) -> None:
    """On float tensors only: PIL stores the hue in a byte, which alone moves colours by 6 / 255."""
    images = unit(pictures(128, channels))
    factor = torch.rand(128, generator=seeded(1)) - 0.5
    actual = augmentation.adjust_hue(images, factor)
    assert_near(actual, each(images, reference.adjust_hue, factor.tolist()), 1e-5)


def test_hue_of_every_corner_of_the_colour_cube_turns_as_torchvision_does() -> None:
    """Where two or all channels are equal, which is where the sixths of the circle of hues meet."""
    levels = torch.tensor([0.0, 0.3, 0.7, 1.0])
    cube = torch.cartesian_prod(levels, levels, levels).T.reshape(1, 3, 8, 8)
    for factor in (-0.5, -1 / 3, -0.1, 0.0, 0.1, 1 / 6, 0.5):
        actual = augmentation.adjust_hue(cube, torch.tensor([factor]))
        assert_near(actual, reference.adjust_hue(cube, factor), 1e-5)


@pytest.mark.parametrize("channels", [1, 3])
def test_grayscale_is_that_of_torchvision(channels: int) -> None:
    images = pictures(64, channels)
    actual = augmentation.to_grayscale(unit(images))
    expected = each_as_pil(images, lambda image: reference.to_grayscale(image, channels))
    assert_near(actual, expected, 2 * BYTE)


@pytest.mark.parametrize(("channels", "height", "width"), [(1, 28, 28), (3, 64, 64), (3, 16, 24)])
def test_blur_is_that_of_torchvision(channels: int, height: int, width: int) -> None:
    images = pictures(64, channels, height, width)
    sigma = torch.linspace(0.1, 2.0, 64)
    widths = sigma.tolist()
    actual = augmentation.gaussian_blur(unit(images), sigma)
    blurred = each_as_pil(images, lambda image, own: reference.gaussian_blur(image, [7, 7], [own, own]), widths)
    assert_near(actual, blurred, 2 * BYTE)
    exact = each(unit(images), lambda image, own: reference.gaussian_blur(image, [7, 7], [own, own]), widths)
    assert_near(actual, exact, 1e-5)


# All of them together


def one_by_one(images: Tensor, p: Parameters) -> Tensor:
    """torchvision's operators on float tensors, image after image, each in its own order of the jitter."""
    adjust = [
        reference.adjust_brightness,
        reference.adjust_contrast,
        reference.adjust_saturation,
        reference.adjust_hue,
    ]
    views = []
    for i, image in enumerate(unit(images)):
        view = resized(image, *torch.cat([p.corner, p.size])[:, i].tolist())
        if p.flip is not None and p.flip[i]:
            view = reference.hflip(view)
        if p.jitter is not None and p.jitter[i]:
            for which in p.order[i].tolist():
                view = adjust[which](view, p.factors[i, which].item())
        if p.gray is not None and p.gray[i]:
            view = reference.rgb_to_grayscale(view, image.shape[0])
        if p.blur is not None and p.blur[i]:
            view = reference.gaussian_blur(view, [7, 7], [p.sigma[i].item()] * 2)
        views.append(view)
    return torch.stack(views)


@pytest.mark.parametrize(("channels", "height", "width"), [(1, 28, 28), (3, 32, 32), (3, 64, 64), (3, 24, 40)])
def test_views_are_those_of_torchvision(channels: int, height: int, width: int) -> None:
    images = pictures(256, channels, height, width)
    p = draw(EVERYTHING, 256, height, width, seeded(2))
    before = images.clone()
    views = apply(images, p)
    assert_near(views, one_by_one(images, p), 1e-4)
    assert views.min() >= 0
    assert views.max() <= 1
    assert torch.equal(images, before)


def test_every_order_of_the_jitter_is_kept() -> None:
    orders = torch.tensor(list(itertools.permutations(range(4))))
    p = draw(Augmentation((1.0, 1.0), jitter=1.0, jitter_strength=(0.8, 0.8, 0.8, 0.4)), 24, 32, 32, seeded())
    alike = p.factors[:1].expand(24, 4)
    p = dataclasses.replace(p, order=orders, factors=alike)
    images = pictures(2, 3)[1:].expand(24, 3, 32, 32)
    views = apply(images, p)
    assert_near(views, one_by_one(images, p), 1e-4)
    assert len({view.numpy().tobytes() for view in views}) > 8  # the order is seen in the result


def test_floats_and_bytes_give_the_same_views_and_are_left_alone() -> None:
    images = pictures(64, 3)
    p = draw(EVERYTHING, 64, 32, 32, seeded())
    floats = unit(images)
    assert torch.equal(apply(images, p), apply(floats, p))
    assert torch.equal(floats, unit(images))
    assert apply(floats.double(), p).dtype == torch.float32


def test_whole_image_without_operators_comes_back_as_it_was() -> None:
    images = pictures(8, 3, 24, 24)
    p = draw(Augmentation((1.0, 1.0)), 8, 24, 24, seeded())
    p = dataclasses.replace(p, corner=torch.zeros(2, 8), size=torch.full((2, 8), 24))
    assert_near(apply(images, p), unit(images), 1e-5)


@pytest.mark.parametrize("n", [0, 1])
def test_batches_of_one_and_none(n: int) -> None:
    assert augment(pictures(4, 3)[:n], EVERYTHING, seeded()).shape == (n, 3, 32, 32)


@pytest.mark.parametrize(("channels", "height", "width"), [(1, 28, 28), (3, 32, 32), (3, 24, 40)])
def test_an_accelerator_makes_the_same_views_without_waiting(channels: int, height: int, width: int) -> None:
    """It computes all images where a CPU computes those that are meant: to the same bits."""
    images = pictures(64, channels, height, width)
    here, plain = augment(images, EVERYTHING, seeded(4)), shift_and_flip(images, seeded(4))
    with fake_device() as seen:
        there, generator = images.to("fake"), torch.Generator(device="fake")
        augment(there, EVERYTHING, generator)  # copies its constants
        seen.clear()
        assert torch.equal(values(augment(there, EVERYTHING, generator.manual_seed(4))), here)
        assert torch.equal(values(shift_and_flip(there, generator.manual_seed(4))), plain)
        assert seen.waits == []


# The draws


def test_same_seed_same_bits() -> None:
    images = pictures(128, 3)
    first, again = (augment(images, EVERYTHING, seeded(5)) for _ in range(2))
    assert torch.equal(first, again)
    assert not torch.equal(first, augment(images, EVERYTHING, seeded(6)))


def test_one_generator_gives_two_different_views() -> None:
    generator = seeded()
    images = pictures(128, 3)
    first, second = (augment(images, EVERYTHING, generator) for _ in range(2))
    alike = (first - second).flatten(1).abs().amax(1) == 0
    assert alike.sum() <= 128 // 4 + 3  # one picture in four is plain, some of them go through unjittered


def test_augment_applies_what_draw_draws() -> None:
    images = pictures(32, 3, 24, 40)
    p = draw(EVERYTHING, 32, 24, 40, seeded(3))
    assert torch.equal(augment(images, EVERYTHING, seeded(3)), apply(images, p))


def test_every_image_has_its_own_parameters() -> None:
    p = draw(EVERYTHING, 512, 64, 64, seeded())
    for own in (p.factors[:, 0], p.factors[:, 3], p.sigma):
        assert own.unique().numel() > 500
    boxes = torch.cat([p.corner, p.size]).T
    assert boxes.unique(dim=0).shape[0] > 480
    assert p.order.unique(dim=0).shape[0] == 24


def test_switching_operators_off_leaves_the_other_draws_alone() -> None:
    p, cropped = draw(EVERYTHING, 64, 32, 32, seeded()), draw(Augmentation((0.2, 1.0)), 64, 32, 32, seeded())
    assert torch.equal(p.corner, cropped.corner)
    assert torch.equal(p.size, cropped.size)
    assert cropped.flip is cropped.jitter is cropped.gray is cropped.blur is None  # left out altogether
    blurred = draw(Augmentation((0.2, 1.0), blur=0.5), 64, 32, 32, seeded())
    assert p.blur is not None
    assert blurred.blur is not None
    assert torch.equal(p.blur, blurred.blur)
    assert torch.equal(p.sigma, blurred.sigma)


SHAPES = [(28, 28, (0.7, 1.0)), (32, 32, (0.2, 1.0)), (64, 64, (0.1, 1.0)), (20, 60, (0.6, 1.0)), (60, 20, (0.6, 1.0))]


@pytest.mark.parametrize(("height", "width", "scale"), SHAPES)
def test_boxes_follow_those_of_torchvision(height: int, width: int, scale: tuple[float, float]) -> None:
    """A chi-square test of homogeneity on each side of the box, on its area and on its shape."""
    n = 4000
    p = draw(Augmentation(scale), n, height, width, seeded())
    ours = torch.cat([p.corner, p.size]).T
    torch.manual_seed(0)
    image = torch.empty(1, height, width)
    theirs = torch.tensor(
        [transforms.RandomResizedCrop.get_params(image, list(scale), [3 / 4, 4 / 3]) for _ in range(n)]
    )
    assert (ours[:, 0] + ours[:, 2]).max() <= height
    assert (ours[:, 1] + ours[:, 3]).max() <= width
    for side in range(4):
        assert alike(ours[:, side], theirs[:, side]) > RARELY_BY_CHANCE
    for summary in (lambda box: box[:, 2] * box[:, 3], lambda box: box[:, 3] / box[:, 2]):
        assert stats.ks_2samp(summary(ours), summary(theirs)).pvalue > RARELY_BY_CHANCE


def alike(ours: Tensor, theirs: Tensor) -> float:
    """p-value of both being drawn from one distribution; rare values are counted together."""
    values, counts = torch.cat([ours, theirs]).unique(return_counts=True)
    common = values[counts >= 40]
    table = torch.stack([(example[:, None] == common).sum(0) for example in (ours, theirs)])
    rest = torch.tensor([[len(ours)], [len(theirs)]]) - table.sum(1, keepdim=True)
    table = torch.cat([table, rest], 1)
    table = table[:, table.sum(0) > 0]
    return 1.0 if table.shape[1] == 1 else float(stats.chi2_contingency(table.numpy()).pvalue)


def test_area_is_uniform_and_shape_log_uniform() -> None:
    """Scales small enough for every try to fit, on an image large enough for whole pixels not to matter."""
    n, side = 20_000, 4096
    p = draw(Augmentation((0.1, 0.5)), n, side, side, seeded())
    area = p.size.prod(0).double() / side**2
    ratio = (p.size[1] / p.size[0]).double().log()
    low, high = math.log(3 / 4), math.log(4 / 3)
    assert stats.kstest(area, stats.uniform(0.1, 0.4).cdf).pvalue > RARELY_BY_CHANCE
    assert stats.kstest(ratio, stats.uniform(low, high - low).cdf).pvalue > RARELY_BY_CHANCE
    assert abs(stats.spearmanr(area, ratio).statistic) < 0.04
    for start, free in zip(p.corner, side - p.size, strict=True):
        assert stats.kstest((start / free).double(), "uniform").pvalue > RARELY_BY_CHANCE


@pytest.mark.parametrize(("height", "width", "box"), [(20, 60, (0, 16, 20, 27)), (60, 20, (16, 0, 27, 20))])
def test_centre_is_taken_when_no_box_fits(height: int, width: int, box: tuple[int, ...]) -> None:
    p = draw(Augmentation((0.95, 1.0)), 50, height, width, seeded())
    assert {tuple(own) for own in torch.cat([p.corner, p.size]).T.tolist()} == {box}


@pytest.mark.parametrize("operator", ["flip", "jitter", "gray", "blur"])
@pytest.mark.parametrize("probability", [0.2, 0.5, 0.8, 1.0])
def test_operators_are_applied_with_their_probability(operator: str, probability: float) -> None:
    n = 20_000
    p = draw(Augmentation((0.2, 1.0), **{operator: probability}), n, 32, 32, seeded())
    applied = int(getattr(p, operator).sum())
    assert stats.binomtest(applied, n, probability).pvalue > RARELY_BY_CHANCE


def test_operators_are_applied_independently() -> None:
    p = draw(Augmentation((0.2, 1.0), 0.5, 0.5, gray=0.5, blur=0.5), 20_000, 32, 32, seeded())
    masks = [mask for mask in (p.flip, p.jitter, p.gray, p.blur) if mask is not None]
    assert len(masks) == 4
    for one, other in itertools.combinations(masks, 2):
        assert stats.binomtest(int((one & other).sum()), 20_000, 0.25).pvalue > RARELY_BY_CHANCE


@pytest.mark.parametrize(
    ("strength", "bounds"),
    [
        ((0.4, 0.4, 0.4, 0.1), [(0.6, 1.4), (0.6, 1.4), (0.6, 1.4), (-0.1, 0.1)]),
        ((0.2, 0.5, 1.5, 0.5), [(0.8, 1.2), (0.5, 1.5), (0.0, 2.5), (-0.5, 0.5)]),
    ],
)
def test_factors_are_uniform(strength: Any, bounds: list[tuple[float, float]]) -> None:
    theirs = transforms.ColorJitter(*strength)
    for pair, bound in zip((theirs.brightness, theirs.contrast, theirs.saturation, theirs.hue), bounds, strict=True):
        assert pair == pytest.approx(bound)
    p = draw(Augmentation((0.2, 1.0), jitter=0.8, jitter_strength=strength), 20_000, 32, 32, seeded())
    for factor, (low, high) in zip(p.factors.unbind(1), bounds, strict=True):
        assert stats.kstest(factor.double(), stats.uniform(low, high - low).cdf).pvalue > RARELY_BY_CHANCE


def test_orders_and_sigma_are_uniform() -> None:
    p = draw(EVERYTHING, 24_000, 32, 32, seeded())
    orders, counts = p.order.unique(dim=0, return_counts=True)
    assert orders.tolist() == [list(order) for order in itertools.permutations(range(4))]
    assert stats.chisquare(counts.numpy()).pvalue > RARELY_BY_CHANCE
    assert stats.kstest(p.sigma.double(), stats.uniform(0.1, 1.9).cdf).pvalue > RARELY_BY_CHANCE


# What is refused


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("crop_scale", (0.0, 1.0)),
        ("crop_scale", (0.8, 0.2)),
        ("crop_scale", (0.5, 1.5)),
        ("flip", -0.1),
        ("gray", 1.1),
        ("jitter_strength", (0.4, -0.4, 0.4, 0.1)),
        ("jitter_strength", (0.4, 0.4, 0.4, 0.6)),
    ],
)
def test_impossible_settings_are_named(field: str, value: Any) -> None:
    with pytest.raises(Co2lError, match=f"augmentation: {field} cannot be"):
        Augmentation(**{"crop_scale": (0.2, 1.0), field: value})


def test_other_images_are_refused() -> None:
    p = draw(EVERYTHING, 4, 32, 32, seeded())
    with pytest.raises(ValueError, match="4 parameters"):
        apply(pictures(3, 3), p)
    with pytest.raises(ValueError, match="shape"):
        apply(torch.rand(4, 2, 32, 32), p)
    with pytest.raises(TypeError, match="int64"):
        apply(pictures(4, 3).long(), p)
