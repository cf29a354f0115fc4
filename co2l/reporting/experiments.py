"""Which tested configuration stands in which row of the paper: told by its settings, not by the name of its study."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from co2l.reporting.paper import Exhibit, paper
from co2l.reporting.tested import Tested

STAND_INS = {"seq_digits": "seq_cifar10", "r_digits": "r_mnist"}  # small twins of the paper's benchmarks
BOUNDS = {"joint": "Joint (upper bound)", "finetune": "Finetune (lower bound)"}  # not in the paper's tables


@dataclass(frozen=True)
class Experiment:
    """A table or figure of the paper, as something that can be run."""

    exhibit: str  # in paper.yaml
    row: Callable[[Tested], str | None]  # the row that a configuration stands in, if it belongs here
    space: str  # the file below search_spaces/paper whose evaluation fills it
    alone: bool = False  # whether one row by itself is worth showing

    @property
    def printed(self) -> Exhibit:
        return paper().exhibits[self.exhibit]


def distillation(tested: Tested) -> str:
    """With a power of zero nothing is distilled, whatever is named."""
    return "none" if tested.settings.get("distill_power") == 0 else str(tested.settings.get("distillation"))


def replays(tested: Tested) -> bool:
    """Whether buffered samples train the representation, and not the linear classifier alone."""
    return bool(tested.settings.get("replay")) and tested.buffer != 0


def _finite_co2l(tested: Tested) -> bool:
    return tested.method == "co2l" and tested.buffer != "unlimited"


def _asymmetric(tested: Tested) -> bool:
    return replays(tested) and tested.settings["supcon"] == "asymmetric"


def _method(tested: Tested) -> str | None:
    if tested.method != "co2l":
        return tested.method
    return "co2l" if _finite_co2l(tested) and _asymmetric(tested) and distillation(tested) == "ird" else None


def _ablation(tested: Tested) -> str | None:
    """Without replay every sample is of the current task, so that both contrastive losses are the same."""
    if not _finite_co2l(tested) or (replays(tested) and not _asymmetric(tested)):
        return None
    rows = {(False, "none"): "a", (False, "ird"): "b", (True, "none"): "c", (True, "ird"): "d"}
    return rows.get((replays(tested), distillation(tested)))


def _supcon(tested: Tested) -> str | None:
    if not _finite_co2l(tested) or not replays(tested) or distillation(tested) != "ird":
        return None
    return str(tested.settings["supcon"])


def _alternative(tested: Tested) -> str | None:
    if not _finite_co2l(tested) or not _asymmetric(tested) or distillation(tested) == "none":
        return None
    return distillation(tested)


def _power(tested: Tested) -> str | None:
    if tested.method != "co2l" or tested.buffer != "unlimited" or not replays(tested):
        return None
    return str(tested.settings["supcon"]) if distillation(tested) in ("ird", "none") else None


TABLE_1 = Experiment("table_1", _method, "table1", alone=True)
TABLE_2 = Experiment("table_2", _ablation, "ird_ablation")
TABLE_3 = Experiment("table_3", _supcon, "supcon")
TABLE_6 = Experiment("table_6", _alternative, "ird_alternatives")
FIGURE_4 = Experiment("figure_4", _power, "ird_power")


@dataclass(frozen=True)
class Filled:
    """The runs of one experiment that can be compared: one benchmark, and settings that differ only where they must."""

    experiment: Experiment
    benchmark: str
    rows: Mapping[str, tuple[Tested, ...]]  # by the paper's row, in its order
    studies: tuple[str, ...]

    def buffers(self) -> tuple[int | str, ...]:
        """The buffer sizes that were run; upper and lower bound have no buffer."""
        found = {each.buffer for row, several in self.rows.items() if row not in BOUNDS for each in several}
        return tuple(sorted(found, key=lambda size: (isinstance(size, str), size)))

    def of(self, row: str, buffer: int | str) -> tuple[Tested, ...]:
        return tuple(each for each in self.rows.get(row, ()) if each.buffer == buffer)

    @property
    def scenarios(self) -> tuple[str, ...]:
        return next(each for several in self.rows.values() for each in several).scenarios


def fill(experiment: Experiment, everything: Sequence[Tested]) -> list[Filled]:
    """What can stand in an experiment: per benchmark and evaluation, as one evaluation compares like with like.

    Table 1 compares methods, each with settings of its own, so there all evaluations of a benchmark come together.
    """
    groups: dict[tuple[str, str], list[tuple[str, Tested]]] = defaultdict(list)
    for each in everything:
        if (row := experiment.row(each)) is not None:
            for study in ("",) if experiment.alone else each.studies:
                groups[each.benchmark, study].append((row, each))
    filled = [
        Filled(experiment, benchmark, _by_row(rows), (study,) if study else _studies(each for _, each in rows))
        for (benchmark, study), rows in groups.items()
    ]
    least = 1 if experiment.alone else 2
    return sorted((each for each in filled if len(each.rows) >= least), key=lambda each: (each.benchmark, each.studies))


def _by_row(found: Sequence[tuple[str, Tested]]) -> dict[str, tuple[Tested, ...]]:
    rows: dict[str, list[Tested]] = defaultdict(list)
    for row, each in found:
        rows[row].append(each)
    return {row: tuple(several) for row, several in rows.items()}


def _studies(several: Iterable[Tested]) -> tuple[str, ...]:
    return tuple(sorted({study for each in several for study in each.studies}))


def counterpart(benchmark: str, buffer: int | str, buffers: Sequence[int | str]) -> tuple[str, int | str]:
    """The paper's benchmark and buffer size to look at beside these: for a small twin, the same place in the order."""
    if benchmark not in STAND_INS:
        return benchmark, buffer
    finite = sorted(size for size in buffers if isinstance(size, int) and size > 0)
    sizes = TABLE_1.printed.buffers
    place = finite.index(buffer) if buffer in finite else 0
    return STAND_INS[benchmark], sizes[min(place, len(sizes) - 1)]
