"""TPE's points: better ones with time, the same ones again from the same record."""

from __future__ import annotations

from typing import Any

from co2l.search.reports import Report
from co2l.search.space import Space, parse
from co2l.search.study import Record
from co2l.search.tpe import suggest


def space_of(axes: dict[str, Any], **keys: Any) -> Space:
    settings = {"E_0": 20, **({} if "E_t" in axes else {"E_t": 10})}
    document = {"benchmark": "seq_digits", "settings": settings, "axes": axes, "algorithm": "tpe", **keys}
    return parse(document, "space.yaml")


def result(score: float) -> dict[str, Any]:
    return {"score": score, "average": {"class_il": score, "task_il": score}, "matrix": {"class_il": [[score]]}}


def hilly_space() -> Space:
    axes = {"eta": [0.001 * 2**i for i in range(8)], "kappa": [0.1 * i for i in range(1, 9)], "buffer_size": [50, 100]}
    return space_of(axes, samples=30, selection={"per": ["buffer_size"]})


def tell(record: Record, space: Space, point: dict[str, Any], score: float) -> None:
    for cell in space.cells_of(point):
        record.begin(cell)
        record.finish(cell, result(score), 0, 0, 0.0)


def hill(point: dict[str, Any]) -> float:
    """Best at the sixth eta and the third kappa; a larger buffer adds more than both."""
    eta = [0.001 * 2**i for i in range(8)].index(point["eta"])
    return 50 - 3 * abs(eta - 5) - 30 * abs(point["kappa"] - 0.3) + point["buffer_size"]


def test_tpe_climbs_for_every_group() -> None:
    space = hilly_space()
    record = Record.open(None, "s", space)
    drawn: list[dict[str, Any]] = []
    while len(drawn) < 30:
        point = next(p for p in suggest(space, record, seed=1) if p not in drawn)
        drawn.append(point)
        tell(record, space, point, hill(point))
    assert sum(point["buffer_size"] == 50 for point in drawn) == 15  # or the larger buffer would take all
    for size in (50, 100):
        scores = [hill(point) - size for point in drawn if point["buffer_size"] == size]
        assert max(scores) >= 47  # chance reaches this at 5 of 64 points
        assert sum(scores[8:]) / len(scores[8:]) > sum(scores[:4]) / 4


def test_tpe_depends_on_the_record_and_the_seed_alone() -> None:
    space = hilly_space()
    suggested = []
    for seed in (3, 3, 4):
        record = Record.open(None, "s", space)
        for i in range(14):
            point = {"eta": 0.001 * 2 ** (i % 8), "kappa": 0.1 * (1 + i % 7), "buffer_size": 50}
            tell(record, space, point, hill(point))
        suggested.append([next(suggest(space, record, seed)) for _ in range(2)])
    assert suggested[0][0] == suggested[0][1] == suggested[1][0]
    assert suggested[0] != suggested[2]


def test_tpe_draws_ranges_and_words_and_learns_from_what_was_stopped() -> None:
    axes = {"eta": {"low": 0.001, "high": 0.1, "log": True}, "E_t": {"low": 2, "high": 9}, "supcon": ["asymmetric"]}
    space = space_of(axes, samples=20, early_stop={"rungs": [1]})
    record = Record.open(None, "s", space)
    for i in range(20):
        point = next(suggest(space, record, seed=0))
        assert 0.001 <= point["eta"] <= 0.1
        assert point["E_t"] in range(2, 10)
        (cell,) = space.cells_of(point)
        record.begin(cell)
        if i % 3 == 0:
            record.prune(cell, Report("task", 0, 5, 20, {"val/score": 100 * point["eta"]}))
        elif i % 3 == 1:
            record.finish(cell, result(100 * point["eta"]), 0, 0, 0.0)
        elif i == 2:
            record.interrupt(cell)
    assert len({entry.values["eta"] for entry in record.entries.values()}) == 20
