"""What the plan says of a protocol, and which searches and evaluations `co2l.protocols` begins."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest

from co2l import evaluate, protocols, report, tune
from co2l.errors import Co2lError
from co2l.search.space.space import load
from co2l.shipped import spaces

ROOT = Path(__file__).resolve().parents[2]
SPACE = """\
benchmark: seq_digits
axes: {eta: [0.1, 0.2], kappa: [0.1, 0.2], kappa_star: [0.01, 0.05], buffer_size: [50, 100]}
"""


@pytest.fixture
def space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text(SPACE)
    return "mine.yaml"


@pytest.mark.parametrize(
    ("protocol", "line"),
    [
        ("first_k=1", "task 1 reads neither kappa, kappa_star nor buffer_size: first_k: 1 cannot choose between their"),
        ("first_k=2", "protocol      first_k 2"),
        ("greedy", "protocol      greedy 1"),
        ("greedy=3", "protocol      greedy 3"),
    ],
)
def test_the_plan_says_what_a_protocol_cannot_choose(
    space: str, protocol: str, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tune.main(["--space", space, "--protocol", protocol, "--plan"]) == 0
    out = capsys.readouterr().out
    assert line in out
    assert ("cannot choose" in out) is (protocol == "first_k=1")
    assert tune.main(["--space", space, "--protocol", protocol, "--plan", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["unseen"] == (["kappa", "kappa_star", "buffer_size"] if protocol == "first_k=1" else [])
    if protocol == "greedy":
        assert found["stages"] == 2 + 4 * 2 * 2 * 2 * 2


@pytest.mark.parametrize("given", ["first_k", "first_k=two", "greedy=", "transfer", "last"])
def test_no_protocol(space: str, given: str) -> None:
    with pytest.raises(Co2lError, match=rf"--protocol: '{given}' is no protocol; use end, first_k=2, greedy"):
        tune.main(["--space", space, "--protocol", given, "--plan"])


def test_every_protocol_is_searched_and_tested(space: str, monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[Any] = []
    monkeypatch.setattr(tune, "main", lambda given: called.append(("tune", given)) or 0)
    monkeypatch.setattr(evaluate, "main", lambda given: called.append(("evaluate", given)) or 0)
    monkeypatch.setattr(report, "main", lambda given: called.append(("report", given)) or 0)
    monkeypatch.setattr("co2l.search.running.engine.connected", contextlib.nullcontext)
    transfer = "selection: {protocol: {transfer: {to: r_digits, map: {buffer_size: same}}}}\n"
    Path("other.yaml").write_text(SPACE + transfer)
    arguments = ["--space", space, "--space", "other.yaml", "--first-k", "3", "--orders", "2", "--root", "here"]
    assert protocols.main(arguments) == 0
    shared = ["--root", "here"]
    expected: list[Any] = []
    for name, file in (("mine", space), ("other", "other.yaml")):
        for said in ("first_k=3", "greedy=1", "end"):
            study = f"{name}-{said.partition('=')[0]}"
            expected.append(("tune", ["--space", file, "--protocol", said, *shared]))
            expected.append(("evaluate", ["--study", study, "--seeds", "5", "--orders", "2", *shared]))
    expected.append(("tune", ["--space", "other.yaml", "--study", "other-transfer", *shared]))
    expected.append(("evaluate", ["--study", "other-transfer", "--seeds", "5", *shared]))
    names = [
        *(f"{name}-{each}" for name in ("mine", "other") for each in ("first_k", "greedy", "end")),
        "other-transfer",
    ]
    studies = [word for name in names for word in ("--study", name)]
    expected.append(("report", ["--protocols", *studies, *shared]))
    assert called == expected
    called.clear()
    monkeypatch.setattr(tune, "main", lambda given: called.append(given) or 130)
    assert protocols.main(["--space", space]) == 130
    assert len(called) == 1  # no report of what was interrupted


def test_what_it_refuses(space: str) -> None:
    with pytest.raises(Co2lError, match="no space is given"):
        protocols.main([])
    Path(space).write_text(SPACE + "selection: {protocol: greedy}\n")
    with pytest.raises(Co2lError, match=r"mine.yaml: selection.protocol: says greedy 1 itself"):
        protocols.main(["--space", space])
    with pytest.raises(Co2lError, match="--orders: orders of a space are one of its axes"):
        evaluate.main(["--space", space, "--orders", "2"])


def test_shipped_spaces_are_comparable() -> None:
    """Their validation examples are drawn by class, so that all protocols have the same and share stages."""
    found = [load(path) for name, path in spaces().items() if name.startswith("protocols/")]
    assert {space.method for space in found} == {"co2l", "er", "derpp", "fdr"}
    for space in found:
        assert space.validation.by == "class"
        assert space.selection.protocol.name == "transfer"
        assert load(ROOT / space.source, protocol="end").split == load(ROOT / space.source, protocol="greedy").split
