"""Names come from co2l, imported files or installed packages; one that fails says why, and breaks nothing else."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from co2l import plugins
from co2l.errors import Co2lError
from co2l.plugins import Registry


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Path]]:
    """Puts a package where Python finds installed ones: source files, and entry points of the group `co2l.toys`."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))

    def put(name: str, files: dict[str, str], points: str, version: str = "1.0") -> Path:
        for path, text in files.items():
            (site / path).parent.mkdir(parents=True, exist_ok=True)
            (site / path).write_text(text, encoding="utf-8")
        info = site / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", encoding="utf-8")
        (info / "entry_points.txt").write_text(f"[co2l.toys]\n{points}\n", encoding="utf-8")
        _forget()
        return site

    before, registries = set(sys.modules), list(Registry.every)
    yield put
    Registry.every[:] = registries
    for module in set(sys.modules) - before:
        del sys.modules[module]
    _forget()


def _forget() -> None:
    plugins.installed.cache_clear()
    plugins._installed_plugin.cache_clear()


def toys() -> Registry[int]:
    """Toys are numbers."""
    return Registry("toy", {"ball": 1, "kite": 2}, lambda _, thing: "" if isinstance(thing, int) else "is no number")


def refusal(registry: Registry[int], name: str) -> str:
    with pytest.raises(Co2lError) as caught:
        registry.find(name, where="space.yaml")
    assert len(f"co2l: {caught.value.short()}") <= 300
    return str(caught.value)


def test_a_packages_names_are_found_and_imported_when_asked_for(install: Callable[..., Path]) -> None:
    install("toy-box", {"toy_box/__init__.py": "drum = 3\n"}, "drum = toy_box:drum")
    registry = toys()
    assert registry.find("ball") == 1
    assert "toy_box" not in sys.modules
    assert registry["drum"] == registry.find("drum") == 3
    assert "toy_box" in sys.modules
    assert list(registry) == ["ball", "kite", "drum"]
    assert registry.own() == ["ball", "kite"]
    assert registry.origin("ball") is None


def test_the_digest_is_of_all_source_and_of_nothing_else(install: Callable[..., Path]) -> None:
    def origin() -> plugins.Plugin:
        _forget()
        found = toys().origin("drum")
        assert found is not None
        return found

    site = install("toy-box", {"toy_box/__init__.py": "drum = 3\n", "toy_box/deep/x.py": ""}, "drum = toy_box:drum")
    first = origin()
    assert (first.name, first.version) == ("toy-box", "1.0")
    (site / "toy_box" / "__pycache__").mkdir(exist_ok=True)
    (site / "toy_box" / "__pycache__" / "x.pyc").write_text("compiled")
    assert origin() == first
    (site / "toy_box" / "deep" / "x.py").write_text("# changed")
    assert origin().digest != first.digest
    (site / "toy_box" / "deep" / "x.py").write_text("")
    assert origin() == first


def test_the_source_of_base_classes_counts(install: Callable[..., Path]) -> None:
    site = install("one", {"one.py": "class A: pass\n"}, "")
    install("two", {"two.py": "from one import A\nclass B(A): pass\n"}, "b = two:B")

    def digest() -> str:
        _forget()
        found = Registry[type]("toy", {}, lambda *_: "").origin("b")
        assert found is not None
        return found.digest

    first = digest()
    (site / "one.py").write_text("class A: x = 1\n")
    assert digest() != first


def test_a_plug_in_that_fails_says_why_and_the_others_work(install: Callable[..., Path]) -> None:
    broken = {"toy_box/__init__.py": "drum = 3\nword = 'x'\n", "toy_box/bad.py": "import no_such_package\n"}
    install(
        "toy-box", broken, "drum = toy_box:drum\ntrain = toy_box.bad:train\nword = toy_box:word\nball = toy_box:drum"
    )
    registry = toys()
    assert list(registry) == ["ball", "kite", "drum"]
    assert registry["ball"] == 1
    assert registry.failed().keys() == {"train", "word"}
    why = "its plug-in toy-box 1.0 cannot be used (ModuleNotFoundError: No module named 'no_such_package')"
    assert refusal(registry, "train") == f"space.yaml: toy 'train': {why}; mend or remove that plug-in"
    assert refusal(registry, "trian") == (
        f"space.yaml: unknown toy 'trian'; 'train' is near, but {why}; mend or remove that plug-in"
    )
    assert "(it is no number)" in refusal(registry, "word")
    assert refusal(registry, "bal").startswith("space.yaml: unknown toy 'bal'; train failed: ")
    assert refusal(registry, "bal").endswith("did you mean 'ball'?")


def test_a_name_in_two_packages_belongs_to_neither(install: Callable[..., Path]) -> None:
    install("one", {"one.py": "drum = 3\n"}, "drum = one:drum")
    install("two", {"two.py": "drum = 4\n"}, "drum = two:drum")
    assert "one 1.0 and two 1.0 cannot be used (is in more than one package)" in refusal(toys(), "drum")


def test_names_are_registered_by_imports_only() -> None:
    with pytest.raises(Co2lError, match=r"registered outside of an import; give the file with --import"):
        toys().register("drum", 3)
