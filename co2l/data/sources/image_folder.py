"""A folder of anybody's images: train/CLASS/… and test/CLASS/…, in any format that Pillow reads, made one size.

The layout is that of torchvision's `ImageFolder`, where classes are numbered in the alphabetical order of their names.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from PIL import Image

from co2l.data.cache import Arrays, Images, Labels, stamp
from co2l.data.sources.reading import Part, decoded, reading
from co2l.errors import Co2lError

ENDINGS = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".ppm", ".pgm", ".tif", ".tiff", ".webp"}


@dataclass(frozen=True)
class ImageFolder:
    """Loads a part of the images below `folder`; the decoded ones are kept below the data root."""

    name: str
    folder: Path
    classes: int | tuple[str, ...]  # how many, or their names in order
    shape: tuple[int, int, int]
    opened: frozenset[int] | None = None  # the classes to load; None for all

    def of_classes(self, classes: frozenset[int]) -> ImageFolder:
        """The same without the images of other classes. Where classes have names, not even their folders are needed."""
        return replace(self, opened=classes)

    def __call__(self, root: Path, part: Part) -> Arrays:
        classes = self._classes(part)
        wanted = {i: name for i, name in enumerate(classes) if self.opened is None or i in self.opened}
        listed = [(file, i) for i, name in wanted.items() for file in _images(self.folder / part / name)]
        files, labels = [file for file, _ in listed], [label for _, label in listed]
        some = () if self.opened is None else (sorted(self.opened),)
        state = stamp(files, repr((str(self.folder), self.shape, classes, *some)).encode())
        return decoded(root, f"{self.name}-folder", part, state, lambda: self._decode(files, labels))

    def _classes(self, part: Part) -> Sequence[str]:
        """The names of the classes in their order; each has a folder with images."""
        folder = self.folder / part
        if not folder.is_dir():
            fix = f"put a folder with images for each class there, as {part}/dog/1.png"
            raise Co2lError(f"{self.name} has no folder '{part}'", where=str(self.folder), fix=fix)
        found = sorted(path.name for path in folder.iterdir() if path.is_dir())
        named = isinstance(self.classes, tuple)
        classes = self.classes if isinstance(self.classes, tuple) else tuple(found)
        opened = range(len(classes)) if self.opened is None else sorted(self.opened)
        needed = [classes[i] for i in opened if i < len(classes)]
        missing = [name for name in sorted(needed) if name not in found]
        if missing or (len(found) != self.classes if not named else self.opened is None and len(found) != len(classes)):
            what = f"no folder for the class '{missing[0]}'" if missing else f"has {len(found)} folders of classes"
            count = self.classes if isinstance(self.classes, int) else len(classes)
            raise Co2lError(what, where=str(folder), fix=f"{self.name} says classes: {count}; correct one of the two")
        for name in sorted(needed):
            if not _images(folder / name):
                raise Co2lError("there is no image", where=str(folder / name), fix="put some there: .png, .jpg, …")
        return classes

    def _decode(self, files: Sequence[Path], labels: Sequence[int]) -> tuple[Images, Labels]:
        channels, height, width = self.shape
        images = np.empty((len(files), *self.shape), np.uint8)

        def decode(i: int) -> None:
            with reading(files[i], "an image"), Image.open(files[i]) as opened:
                image = opened.convert("L" if channels == 1 else "RGB")
                if image.size != (width, height):
                    image = image.resize((width, height), Image.Resampling.BILINEAR)
                images[i] = np.asarray(image).reshape(height, width, channels).transpose(2, 0, 1)

        with ThreadPoolExecutor() as pool:
            list(pool.map(decode, range(len(files))))
        return images, np.array(labels, dtype=np.int64)


def _images(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.suffix.lower() in ENDINGS)
