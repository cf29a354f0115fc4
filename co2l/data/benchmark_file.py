"""A benchmark without code: a folder of images, and a YAML file that says how they are cut into tasks.

    classes: 20          # folders below train/ and test/, in alphabetical order, or a list of their names
    tasks: 5
    size: 32             # images are made 32 × 32

The file's path is the benchmark's name, as seen from the current folder or from the data root.
"""

from __future__ import annotations

import functools
import hashlib
import json
import reprlib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from co2l.data.augmentation import Augmentation
from co2l.data.benchmarks import Benchmark
from co2l.data.root import data_root
from co2l.data.sources.image_folder import ImageFolder
from co2l.errors import Co2lError, unknown
from co2l.files import read_text
from co2l.names import check_name
from co2l.plain_yaml import read_yaml

Fraction = Annotated[float, Field(ge=0, le=1)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class _Views(_Part):
    crop_scale: tuple[Fraction, Fraction] = Field((0.2, 1.0), strict=False)
    flip: Fraction = 0.5
    jitter: Fraction = 0.8
    gray: Fraction = 0.2
    blur: Fraction = 0.0


class _Document(_Part):
    classes: Annotated[int, Field(ge=2)] | Annotated[list[str], Field(min_length=2)] = Field(
        description="how many folders of classes there are, or their names in order"
    )
    tasks: int = Field(ge=2, description="how many tasks the stream has")
    size: Annotated[int, Field(ge=4, le=1024)] = Field(description="height and width that images are made, in pixels")
    images: str = Field("", description="the folder that holds train and test, as seen from this file")
    channels: Literal[1, 3] = Field(3, description="1 for gray images, 3 for colour")
    scenario: Literal["class", "domain"] = Field("class", description="class or domain: what is new in a task")
    domain: Literal["rotation", "permutation"] = Field("rotation", description="rotation or permutation")
    mean: list[float] = Field([], description="of the pixels between 0 and 1, a number for each channel")
    std: list[Annotated[float, Field(gt=0)]] = Field([], description="their deviation, a number for each channel")
    augmentation: _Views = Field(_Views(), description="{crop_scale: [0.2, 1], flip: 0.5, jitter: 0.8, gray: 0.2}")
    defaults: dict[str, bool | int | float | str] = Field({}, description="settings that suit it, as {epochs: 50}")
    examples: int = Field(0, ge=0, description="training images, for plans on machines without them")


def found(name: str, *, where: str = "") -> Path:
    """The file, looked for from the current folder and from the data root."""
    for root in (Path.cwd(), data_root()):
        if (root / name).is_file():
            return root / name
    fix = "give its path as seen from here, from --data or from $CO2L_DATA"
    raise Co2lError(f"there is no file '{name}' that describes a benchmark", where=where, fix=fix)


def read_benchmark(name: str, *, where: str = "") -> Benchmark:
    """The benchmark that a file describes."""
    path = found(name, where=where)
    state = path.stat()
    return _read(path, state.st_mtime_ns, state.st_size)


@functools.lru_cache  # a search asks for every trial
def _read(path: Path, _time: int, _size: int) -> Benchmark:
    try:
        content = read_yaml(read_text(path), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise Co2lError(f"cannot be read ({error})", where=str(path), fix="give a YAML file in UTF-8") from None
    if not isinstance(content, dict):
        raise Co2lError("holds no keys", where=str(path), fix="it needs classes, tasks and size")
    try:
        document = _Document.model_validate(content)
    except ValidationError as error:
        raise _wrong(error, str(path)) from None
    return _benchmark(document, path, hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16])


def _benchmark(document: _Document, path: Path, digest: str) -> Benchmark:
    name = check_name(path.stem, f"the name of {path}")
    names = None if isinstance(document.classes, int) else tuple(document.classes)
    count = document.classes if isinstance(document.classes, int) else len(set(document.classes))
    shape = (document.channels, document.size, document.size)
    mean, std = tuple(document.mean) or (0.5,) * shape[0], tuple(document.std) or (0.25,) * shape[0]
    for key, values in (("mean", mean), ("std", std)):
        if len(values) != document.channels:
            fix = f"give {document.channels} numbers"
            raise Co2lError(f"{len(values)} numbers for {document.channels} channels", where=f"{path}: {key}", fix=fix)
    if names and count < len(names):
        raise Co2lError("a class is there twice", where=f"{path}: classes", fix="name each once")
    views = document.augmentation
    spec = Benchmark(
        name=name,
        source=ImageFolder(name, path.parent / document.images, names or count, shape),
        scenario=document.scenario,
        tasks=document.tasks,
        classes_per_task=count if document.scenario == "domain" else count // document.tasks,
        num_classes=count,
        image_shape=shape,
        mean=mean,
        std=std,
        augmentation=Augmentation(views.crop_scale, views.flip, views.jitter, gray=views.gray, blur=views.blur),
        examples=document.examples,
        domain=document.domain,
        defaults=document.defaults,
        digest=digest,
    )
    if document.scenario == "class" and count % document.tasks:
        what = f"{count} classes cannot be cut into {document.tasks} equal tasks"
        raise Co2lError(what, where=f"{path}: tasks", fix="use a number that divides them")
    return spec


def _wrong(error: ValidationError, path: str) -> Co2lError:
    """The first thing that is wrong; a misspelled key before the one that is missing because of it."""
    first = min(error.errors(), key=lambda each: each["type"] != "extra_forbidden")
    keys = [str(part) for part in first["loc"] if not str(part).startswith(("int", "list", "function"))]
    fields: Any = _Views.model_fields if len(keys) > 1 and keys[0] == "augmentation" else _Document.model_fields
    if first["type"] == "extra_forbidden":
        return unknown("key", keys[-1], fields, where=path)
    about = _Document.model_fields[keys[0]].description
    if first["type"] == "missing":
        return Co2lError(f"the key '{keys[0]}' is missing", where=path, fix=f"{keys[0]} is: {about}")
    message = f"{first['msg'][0].lower()}{first['msg'][1:]}, got {reprlib.repr(first['input'])}"
    return Co2lError(message, where=f"{path}: {'.'.join(keys)}", fix=f"{keys[0]} is: {about}")
