"""What every encoder promises: an embedding of each image by itself, learned in every part, from the seed alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from co2l.learning.encoders import ENCODERS, Encoder, Shape, build_encoder, initialised

SHAPES: tuple[Shape, ...] = ((1, 8, 8), (1, 28, 28), (3, 32, 32), (3, 64, 64))
WIDTH = 16  # the narrowest, which is the fastest


def _built(name: str, seed: int = 0) -> Iterator[tuple[Shape, Encoder]]:
    """For every usual shape that it takes; small ones are too small for some."""
    ENCODERS.find(name)
    served = 0
    for shape in SHAPES:
        try:
            encoder = initialised(lambda shape=shape: build_encoder(name, shape, WIDTH), seed, "init")  # type: ignore[misc]
            encoder(_images(shape))
        except Exception as error:
            last = error
            continue
        served += 1
        yield shape, encoder
    if not served:
        raise AssertionError(f"it takes images of none of {', '.join(map(str, SHAPES))}") from last


def _images(shape: Shape, n: int = 6) -> Tensor:
    return torch.rand(n, *shape, generator=torch.Generator().manual_seed(0))


def embeds_every_image_in_dim_numbers(name: str, folder: Path) -> None:
    del folder
    for shape, encoder in _built(name):
        assert isinstance(encoder, Encoder), "it is not an Encoder"
        h = encoder(_images(shape))
        assert h.shape == (6, encoder.dim), f"{tuple(h.shape)} for 6 images, with dim={encoder.dim}"
        assert h.dtype == torch.float32
        assert bool(h.isfinite().all()), "an embedding is not finite"
        assert len(encoder.projection) == 2, "projection is the projector's hidden and output width"


def learns_in_every_part(name: str, folder: Path) -> None:
    del folder
    for shape, encoder in _built(name):
        encoder(_images(shape)).square().sum().backward()
        idle = [path for path, weights in encoder.named_parameters() if weights.grad is None]
        assert not idle, f"no gradient comes to {', '.join(idle)}"


def sees_each_image_by_itself_once_learned(name: str, folder: Path) -> None:
    """In evaluation, what else is in a batch does not matter."""
    del folder
    for shape, encoder in _built(name):
        encoder.eval()
        images = _images(shape)
        with torch.no_grad():
            together, alone = encoder(images), torch.cat([encoder(image[None]) for image in images])
        assert torch.allclose(together, alone, atol=1e-4), "an image's embedding depends on the rest of its batch"


def takes_its_weights_from_the_seed_alone(name: str, folder: Path) -> None:
    del folder
    before = torch.get_rng_state()
    for (_, one), (_, same), (_, other) in zip(_built(name), _built(name), _built(name, 1), strict=True):
        pairs = list(zip(one.parameters(), same.parameters(), strict=True))
        assert all(torch.equal(a, b) for a, b in pairs), "the same seed gives other weights"
        changed = zip(one.parameters(), other.parameters(), strict=True)
        assert not all(torch.equal(a, b) for a, b in changed), "another seed gives the same weights"
    assert torch.equal(before, torch.get_rng_state()), "it draws from the global generator"


def answers_in_float32_when_it_computes_in_bf16(name: str, folder: Path) -> None:
    del folder
    for shape, _ in _built(name):
        h = build_encoder(name, shape, WIDTH, precision="bf16")(_images(shape))
        assert h.dtype == torch.float32, f"it answers in {h.dtype}: define compute, not forward"


PROMISES = (
    embeds_every_image_in_dim_numbers,
    learns_in_every_part,
    sees_each_image_by_itself_once_learned,
    takes_its_weights_from_the_seed_alone,
    answers_in_float32_when_it_computes_in_bf16,
)
