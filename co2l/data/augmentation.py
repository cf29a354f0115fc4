"""A batch is augmented on its device in one go, with parameters drawn anew for every image (appendix A).

Each operator computes what torchvision's operator of that name does to one image, on floats instead of bytes.
`draw` makes every random choice and `apply` none; `augment` does both. `shift_and_flip` is the baselines'.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from co2l.errors import Co2lError

RATIO = (3 / 4, 4 / 3)  # width : height of a crop, log-uniform
TRIES = 10  # boxes drawn before the centre of the image is taken instead
KERNEL = 7
SIGMA = (0.1, 2.0)
PADDING = 4


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
    """The random choices for n images, each a tensor whose first dimension is n."""

    top: Tensor  # the box of the crop, in whole pixels
    left: Tensor
    height: Tensor
    width: Tensor
    flip: Tensor  # bool, as are jitter, gray and blur: is the operator applied to this image?
    jitter: Tensor
    factors: Tensor  # [n, 4]: of brightness, contrast, saturation and hue
    order: Tensor  # [n, 4]: which of the four comes first, second, third and last
    gray: Tensor
    blur: Tensor
    sigma: Tensor

    def __len__(self) -> int:
        return len(self.top)


def augment(images: Tensor, augmentation: Augmentation, generator: torch.Generator) -> Tensor:
    """One random view of every image [n, C, H, W], uint8 or float in [0, 1], as float32 in [0, 1]."""
    n, _, height, width = images.shape
    return apply(images, draw(augmentation, n, height, width, generator))


def draw(augmentation: Augmentation, n: int, height: int, width: int, generator: torch.Generator) -> Parameters:
    """Parameters for n images; all are drawn, so that switching an operator off leaves the others' alone."""

    def uniform(low: float, high: float, *shape: int) -> Tensor:
        return low + (high - low) * torch.rand(shape, generator=generator, device=generator.device)

    area = height * width * uniform(*augmentation.crop_scale, TRIES, n)
    ratio = uniform(math.log(RATIO[0]), math.log(RATIO[1]), TRIES, n).exp()
    heights, widths = (area / ratio).sqrt().round(), (area * ratio).sqrt().round()
    fits = (heights > 0) & (heights <= height) & (widths > 0) & (widths <= width)
    first = fits.byte().argmax(0, keepdim=True)  # argmax gives the first of equals
    fitting = fits.any(0)
    h = torch.where(fitting, heights.gather(0, first)[0], min(height, round(width / RATIO[0])))
    w = torch.where(fitting, widths.gather(0, first)[0], min(width, round(height * RATIO[1])))
    top, left = uniform(0, 1, 2, n)

    *light, hue = augmentation.jitter_strength
    bounds = [*((max(0, 1 - strength), 1 + strength) for strength in light), (-hue, hue)]
    return Parameters(
        top=torch.where(fitting, top * (height - h + 1), (height - h) / 2).long(),
        left=torch.where(fitting, left * (width - w + 1), (width - w) / 2).long(),
        height=h.long(),
        width=w.long(),
        flip=uniform(0, 1, n) < augmentation.flip,
        jitter=uniform(0, 1, n) < augmentation.jitter,
        factors=torch.stack([uniform(low, high, n) for low, high in bounds], 1),
        order=uniform(0, 1, n, 4).argsort(1),
        gray=uniform(0, 1, n) < augmentation.gray,
        blur=uniform(0, 1, n) < augmentation.blur,
        sigma=uniform(*SIGMA, n),
    )


def apply(images: Tensor, parameters: Parameters) -> Tensor:
    """The views of `images` that `parameters` describe, in the order crop, flip, jitter, gray, blur."""
    if len(parameters) != len(images) or images.shape[1] not in (1, 3):
        raise ValueError(f"{len(parameters)} parameters cannot augment images of shape {[*images.shape]}")
    p, views = parameters, _unit(images)
    views = resized_crop(views, p.top, p.left, p.height, p.width)
    _change(views, p.flip, horizontal_flip)
    if p.jitter.any():
        for position in p.order.unbind(1):
            for number, adjust in enumerate(ADJUST[: 4 if views.shape[1] == 3 else 2]):
                _change(views, p.jitter & (position == number), adjust, p.factors[:, number])
    if views.shape[1] == 3:
        _change(views, p.gray, to_grayscale)
    _change(views, p.blur, gaussian_blur, p.sigma)
    return views.clamp_(0, 1)


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
    _change(views, torch.rand(n, generator=generator, device=device) < 0.5, horizontal_flip)
    return views


def resized_crop(images: Tensor, top: Tensor, left: Tensor, height: Tensor, width: Tensor) -> Tensor:
    """Each image's own box, stretched bilinearly to the size of the whole image."""
    n, _, rows, columns = images.shape
    y, x = _sampled(top, height, rows)[:, :, None], _sampled(left, width, columns)[:, None, :]
    grid = torch.stack([x.expand(n, rows, columns), y.expand(n, rows, columns)], 3)
    return functional.grid_sample(images, grid, padding_mode="border", align_corners=False)


def _sampled(start: Tensor, length: Tensor, size: int) -> Tensor:
    """Where the output's pixels lie in the input along one axis, from -1 to 1; never outside their box."""
    start, length = start[:, None], length[:, None]
    centre = (torch.arange(size, device=start.device) + 0.5) * (length / size) - 0.5
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
    offset = torch.tensor([5.0, 3.0, 1.0], device=images.device)
    angle = (hue[:, None] + _each(6 * factor) + offset[:, None, None]) % 6
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
    offset = torch.arange(KERNEL, device=images.device) - KERNEL // 2
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


def _change(images: Tensor, which: Tensor, operator: Callable[..., Tensor], *parameters: Tensor) -> None:
    """Replace the images that `which` marks by what `operator` makes of them, and touch no other."""
    rows = which.nonzero()[:, 0]
    if len(rows):
        images[rows] = operator(images[rows], *(parameter[rows] for parameter in parameters))


def _each(factor: Tensor) -> Tensor:
    return factor[:, None, None, None]


def _blend(images: Tensor, other: Tensor, factor: Tensor) -> Tensor:
    """From `other` (factor 0) over `images` (factor 1) and beyond, within [0, 1]."""
    return torch.lerp(other, images, _each(factor)).clamp_(0, 1)


def _luma(images: Tensor) -> Tensor:
    if images.shape[1] == 1:
        return images
    red, green, blue = images.unbind(1)
    return (0.2989 * red + 0.587 * green + 0.114 * blue)[:, None]
