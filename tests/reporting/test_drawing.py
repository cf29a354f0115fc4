"""Colours that everybody can distinguish, by a published simulation of colour blindness."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray

from co2l.reporting.drawing import CLASSES, COLOURS
from co2l.reporting.figures import BUFFERED, OTHERS, Features, thinned

# Machado, Oliveira and Fernandes (2009), "A Physiologically-based Model for Simulation of Color Vision Deficiency",
# severity 1.0, for linear RGB.
SEEN = {
    "normal": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
}
XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)
WHITE = np.array([0.95047, 1.0, 1.08883])
APART = 15.0  # in CIELAB, where 2.3 is a just noticeable difference


def lab(colour: str, seen: NDArray[np.float64]) -> NDArray[np.float64]:
    coded = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.where(coded <= 0.04045, coded / 12.92, ((coded + 0.055) / 1.055) ** 2.4)
    x, y, z = XYZ @ np.clip(seen @ linear, 0, 1) / WHITE
    f = [np.cbrt(v) if v > 216 / 24389 else (24389 / 27 * v + 16) / 116 for v in (x, y, z)]
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def test_the_simulation_is_right() -> None:
    assert lab("#ffffff", SEEN["normal"]) == pytest.approx([100, 0, 0], abs=0.01)
    red = lab("#ff0000", SEEN["normal"])
    assert red == pytest.approx([53.24, 80.09, 67.20], abs=0.05)
    for kind in ("protanopia", "deuteranopia"):  # grey stays grey; red and green come close
        assert lab("#808080", SEEN[kind]) == pytest.approx(lab("#808080", SEEN["normal"]), abs=0.5)
        far = np.linalg.norm(red - lab("#00a000", SEEN["normal"]))
        assert np.linalg.norm(lab("#ff0000", SEEN[kind]) - lab("#00a000", SEEN[kind])) < far / 2


@pytest.mark.parametrize("kind", SEEN)
@pytest.mark.parametrize("colours", [COLOURS, CLASSES], ids=["lines", "classes"])
def test_no_two_colours_of_a_figure_look_alike(kind: str, colours: tuple[str, ...]) -> None:
    distances = {
        (a, b): float(np.linalg.norm(lab(a, SEEN[kind]) - lab(b, SEEN[kind])))
        for a, b in itertools.combinations(colours, 2)
    }
    assert min(distances.values()) >= APART, min(distances.items(), key=lambda item: item[1])


def test_t_sne_sees_an_even_choice_of_examples() -> None:
    n = 3000
    features = np.arange(n, dtype=np.float32)[:, None]
    encoder = Features("a", features, np.repeat(np.arange(10), n // 10), np.arange(n) >= n - 500)
    few = thinned(encoder)
    assert (len(few.features), int(few.buffered.sum())) == (BUFFERED + OTHERS, BUFFERED)
    assert set(few.labels[~few.buffered].tolist()) == set(range(9)), "every class that is not only in the buffer"
    rows = few.features[:, 0].astype(int)
    assert len(set(rows.tolist())) == len(rows)
    assert (encoder.labels[rows] == few.labels).all()
    assert len(thinned(Features("a", features[:50], encoder.labels[:50], encoder.buffered[:50])).features) == 50
