"""A batch is augmented on its device in one go, with parameters drawn for every image (appendix A).

Each operator computes what torchvision's operator of that name does to one image, on floats instead of bytes.
`draw` makes every random choice and `apply` none; `augment` does both. `shift_and_flip` is the baselines'.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from co2l.errors import Co2lError

RATIO = (3 / 4, 4 / 3)  # width : height of a crop, log-uniform
TRIES = 10  # boxes drawn before the centre of the image is taken instead
KERNEL = 7
SIGMA = (0.1, 2.0)
PADDING = 4
LUMA = (((0.2989,),), ((0.587,),), ((0.114,),))  # of red, green and blue, as torchvision weighs them


@dataclass(frozen=True)
class Augmentation:
    """Which operators a benchmark uses: flip, jitter, gray and blur are probabilities per image."""

    crop_scale: tuple[float, float]  # area of the crop, relative to the image
    flip: float = 0.0
    jitter: float = 0.0
    jitter_strength: tuple[float, float, float, float] = (0.4, 0.4, 0.4, 0.1)
    gray: float = 0.0
    blur: float = 0.0

    def __post_init__(self) -> None:
        smallest, largest = self.crop_scale
        if not 0 < smallest <= largest <= 1:
            raise _invalid("crop_scale", self.crop_scale, "give (smallest, largest) with 0 < both <= 1")
        for name in ("flip", "jitter", "gray", "blur"):
            if not 0 <= (probability := getattr(self, name)) <= 1:
                raise _invalid(name, probability, "give a probability between 0 and 1")
        if min(self.jitter_strength) < 0 or self.jitter_strength[3] > 0.5:
            raise _invalid("jitter_strength", self.jitter_strength, "give four numbers >= 0, the last <= 0.5")


def _invalid(field: str, value: object, fix: str) -> Co2lError:
    return Co2lError(f"{field} cannot be {value}", where="augmentation", fix=fix)


@dataclass(frozen=True)
class Parameters:
    """The random choices for n images. An operator whose probability is 0 has none and is left out."""

    corner: Tensor  # [2, n]: top and left of the crop, in whole pixels
    size: Tensor  # [2, n]: its height and width
    flip: Tensor | None  # bool [n], as jitter, gray and blur: is the operator applied to this image?
    jitter: Tensor | None
    factors: Tensor  # [n, 4]: of brightness, contrast, saturation and hue
    order: Tensor  # [n, 4]: which of the four comes first, second, third and last
    gray: Tensor | None
    blur: Tensor | None
    sigma: Tensor  # [n]

    def __len__(self) -> int:
        return self.corner.shape[1]


def augment(images: Tensor, augmentation: Augmentation, generator: torch.Generator) -> Tensor:
    """One random view of every image [n, C, H, W], uint8 or float in [0, 1], as float32 in [0, 1]."""
    n, _, height, width = images.shape
    return apply(images, draw(augmentation, n, height, width, generator))


def draw(augmentation: Augmentation, n: int, height: int, width: int, generator: torch.Generator) -> Parameters:
    """Parameters for n images; numbers are drawn for all operators, so that switching one off moves no other's.

    One call draws all of them: on an accelerator every call is a launch.
    """
    low, span = _bounds(augmentation, generator.device)
    drawn = low + span * torch.rand(sum(PER_IMAGE), n, generator=generator, device=generator.device)
    area, ratio, offset, flip, jitter, factors, order, gray, blur, sigma = drawn.split(PER_IMAGE)
    corner, size = _box(height * width * area, ratio.exp(), offset, height, width)
    return Parameters(
        corner=corner,
        size=size,
        flip=flip[0] < augmentation.flip if augmentation.flip else None,
        jitter=jitter[0] < augmentation.jitter if augmentation.jitter else None,
        factors=factors.T,
        order=order.reshape(n, 4).argsort(1) if augmentation.jitter else order.reshape(n, 4).long(),
        gray=gray[0] < augmentation.gray if augmentation.gray else None,
        blur=blur[0] < augmentation.blur if augmentation.blur else None,
        sigma=sigma[0],
    )


# how many numbers decide about area, ratio, offset, flip, jitter, factors, order, gray, blur and sigma of one image
PER_IMAGE = [TRIES, TRIES, 2, 1, 1, 4, 4, 1, 1, 1]


@functools.cache
def _bounds(augmentation: Augmentation, device: torch.device) -> tuple[Tensor, Tensor]:
    """The least of every number of an image and how far it goes up from there, one row each."""
    *light, hue = augmentation.jitter_strength
    bounds = [
        *[augmentation.crop_scale] * TRIES,
        *[(math.log(RATIO[0]), math.log(RATIO[1]))] * TRIES,
        *[(0.0, 1.0)] * 4,
        *((max(0.0, 1 - strength), 1 + strength) for strength in light),
        (-hue, hue),
        *[(0.0, 1.0)] * 6,
        SIGMA,
    ]
    return constant(tuple((low,) for low, _ in bounds), device), constant(tuple((b - a,) for a, b in bounds), device)


def _box(area: Tensor, ratio: Tensor, offset: Tensor, height: int, width: int) -> tuple[Tensor, Tensor]:
    """Corners and sizes of the first boxes that fit, or else the largest one in the middle of the image."""
    limit = constant(((height,), (width,)), area.device)
    largest = constant(((min(height, round(width / RATIO[0])),), (min(width, round(height * RATIO[1])),)), area.device)
    sizes = torch.stack([area / ratio, area * ratio]).sqrt_().round_()
    fits = ((sizes > 0) & (sizes <= limit[:, None])).all(0)
    first = fits.byte().argmax(0, keepdim=True)  # argmax gives the first of equals
    fitting = fits.any(0)
    size = torch.where(fitting, sizes.gather(1, first.expand(2, 1, -1))[:, 0], largest)
    free = limit - size
    return torch.where(fitting, offset * (free + 1), free / 2).long(), size.long()


def apply(images: Tensor, parameters: Parameters) -> Tensor:
    """The views of `images` that `parameters` describe, in the order crop, flip, jitter, gray, blur."""
    if len(parameters) != len(images) or images.shape[1] not in (1, 3):
        raise ValueError(f"{len(parameters)} parameters cannot augment images of shape {[*images.shape]}")
    p, coloured = parameters, images.shape[1] == 3
    views = resized_crop(_unit(images), p.corner, p.size)
    if p.flip is not None:
        views = _change(views, p.flip, horizontal_flip)
    if p.jitter is not None:
        views = _jittered(views, p.jitter, p.order, p.factors)
    if p.gray is not None and coloured:
        views = _change(views, p.gray, to_grayscale)
    if p.blur is not None:
        views = _change(views, p.blur, gaussian_blur, p.sigma)
    return views.clamp_(0, 1)


def _jittered(views: Tensor, which: Tensor, order: Tensor, factors: Tensor) -> Tensor:
    coloured = views.shape[1] == 3
    if views.device.type != "cpu":
        return _jittered_at_once(views, which, order, factors)
    if which.any():
        for position in order.unbind(1):
            for number, adjust in enumerate(ADJUST[: 4 if coloured else 2]):
                views = _change(views, which & (position == number), adjust, factors[:, number])
    return views


def _jittered_at_once(views: Tensor, which: Tensor, order: Tensor, factors: Tensor) -> Tensor:
    """The same to the bit without asking which images are meant; three of the four adjustments are one blend."""
    coloured, black = views.shape[1] == 3, constant((0.0,), views.device)
    applied = which[:, None, None] & (order[:, :, None] == constant((0, 1, 2, 3), views.device))
    mine, factor = _each(applied), _each(factors.gather(1, order))  # both by image and position
    blended = _each(applied[:, :, : 3 if coloured else 2].any(2))
    for position in range(4):
        brightness, contrast, _, hue = mine[:, position].unbind(1)
        other = _luma(views.mean((2, 3), keepdim=True))
        if coloured:
            other = torch.where(contrast, other, _luma(views))
        other = torch.where(brightness, black, other)
        blend = torch.lerp(other, views, factor[:, position]).clamp_(0, 1)
        changed = torch.where(blended[:, position], blend, views)
        views = torch.where(hue, adjust_hue(views, factors[:, 3]), changed) if coloured else changed
    return views


def shift_and_flip(images: Tensor, generator: torch.Generator) -> Tensor:
    """Every image moved by at most 4 pixels, black coming in, and half of them flipped, as float32 in [0, 1].

    torchvision's RandomCrop with padding and RandomHorizontalFlip: what the baselines' authors train classifiers on.
    """
    n, _, height, width = images.shape
    device = generator.device
    top, left = torch.randint(2 * PADDING + 1, (2, n, 1), generator=generator, device=device)
    rows, columns = top + torch.arange(height, device=device), left + torch.arange(width, device=device)
    padded = functional.pad(_unit(images), [PADDING] * 4)
    views = padded[torch.arange(n, device=device)[:, None, None], :, rows[:, :, None], columns[:, None, :]]
    views = views.permute(0, 3, 1, 2)
    return _change(views, torch.rand(n, generator=generator, device=device) < 0.5, horizontal_flip)


def resized_crop(images: Tensor, corner: Tensor, size: Tensor) -> Tensor:
    """Each image's own box, [2, n] each of (top, left) and (height, width), stretched bilinearly to its whole size."""
    n, _, rows, columns = images.shape
    if rows == columns:
        y, x = _coordinates(corner, size, rows)
    else:
        y, x = _coordinates(corner[0], size[0], rows), _coordinates(corner[1], size[1], columns)
    grid = torch.stack([x[:, None, :].expand(n, rows, columns), y[:, :, None].expand(n, rows, columns)], 3)
    return functional.grid_sample(images, grid, padding_mode="border", align_corners=False)


def _coordinates(start: Tensor, length: Tensor, size: int) -> Tensor:
    """Where the output's pixels lie in the input along one axis, from -1 to 1; never outside their box."""
    start, length = start[..., None], length[..., None]
    centre = constant(tuple(i + 0.5 for i in range(size)), start.device) * (length / size) - 0.5
    pixel = start + centre.clamp_min(0).minimum(length - 1)
    return (2 * pixel + 1) / size - 1


def horizontal_flip(images: Tensor) -> Tensor:
    return images.flip(3)


def adjust_brightness(images: Tensor, factor: Tensor) -> Tensor:
    return _blend(images, torch.zeros_like(images), factor)


def adjust_contrast(images: Tensor, factor: Tensor) -> Tensor:
    return _blend(images, _luma(images.mean((2, 3), keepdim=True)), factor)


def adjust_saturation(images: Tensor, factor: Tensor) -> Tensor:
    return _blend(images, _luma(images), factor)


def adjust_hue(images: Tensor, factor: Tensor) -> Tensor:
    """Turn each image's colours by `factor` of the full circle of hues."""
    if images.shape[1] == 1:
        return images
    red, green, blue = images.unbind(1)
    value, least = images.amax(1), images.amin(1)
    chroma = value - least
    some = chroma.clamp_min(torch.finfo(chroma.dtype).tiny)  # where it is 0, so are the numerators
    hue = torch.where(value == green, 2 + (blue - red) / some, 4 + (red - green) / some)
    hue = torch.where(value == red, (green - blue) / some, hue)  # in sixths of the circle
    # A channel is at `value` for two sixths around its own hue, at `least` for the two sixths opposite.
    angle = (hue[:, None] + _each(6 * factor) + constant((((5.0,),), ((3.0,),), ((1.0,),)), images.device)) % 6
    return value[:, None] - chroma[:, None] * torch.minimum(angle, 4 - angle).clamp_(0, 1)


ADJUST: tuple[Callable[[Tensor, Tensor], Tensor], ...] = (
    adjust_brightness,
    adjust_contrast,
    adjust_saturation,
    adjust_hue,
)


def to_grayscale(images: Tensor) -> Tensor:
    return _luma(images).expand_as(images)


def gaussian_blur(images: Tensor, sigma: Tensor) -> Tensor:
    """Each image convolved with its own 7 × 7 Gaussian, beyond the border with its reflection."""
    n, channels = images.shape[:2]
    offset = constant(tuple(i - KERNEL // 2 for i in range(KERNEL)), images.device)
    line = torch.softmax(-0.5 * (offset / sigma[:, None]) ** 2, 1)
    kernels = (line[:, :, None] * line[:, None, :]).repeat_interleave(channels, 0)
    padded = functional.pad(images, [KERNEL // 2] * 4, mode="reflect")
    # A group per image and channel is what gives each its own kernel within one convolution.
    return functional.conv2d(padded.flatten(0, 1)[None], kernels[:, None], groups=n * channels).view(images.shape)


def _unit(images: Tensor) -> Tensor:
    if images.dtype == torch.uint8:
        return images.float().div_(255)
    if not images.is_floating_point():
        raise TypeError(f"images are uint8 or float in [0, 1], not {images.dtype}")
    return images.float()


def _change(images: Tensor, which: Tensor, operator: Callable[..., Tensor], *parameters: Tensor) -> Tensor:
    """The images with those that `which` marks replaced by what `operator` makes of them; may write into `images`.

    A CPU computes the marked ones alone. An accelerator computes all: asking how many there are would wait for it.
    """
    if images.device.type != "cpu":
        return torch.where(_each(which), operator(images, *parameters), images)
    rows = which.nonzero()[:, 0]
    if len(rows):
        images[rows] = operator(images[rows], *(parameter[rows] for parameter in parameters))
    return images


@functools.cache
def constant(values: tuple[Any, ...], device: torch.device) -> Tensor:
    """Numbers on a device, copied there once: every copy from memory that is not pinned waits for the device."""
    return torch.tensor(values, device=device)


def _each(factor: Tensor) -> Tensor:
    return factor[..., None, None, None]


def _blend(images: Tensor, other: Tensor, factor: Tensor) -> Tensor:
    """From `other` (factor 0) over `images` (factor 1) and beyond, within [0, 1]."""
    return torch.lerp(other, images, _each(factor)).clamp_(0, 1)


def _luma(images: Tensor) -> Tensor:
    if images.shape[1] == 1:
        return images
    red, green, blue = (images * constant(LUMA, images.device)).unbind(1)
    return (red + green + blue)[:, None]
