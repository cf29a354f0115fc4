"""Which configuration stands in which row of the paper: told by its settings, not by the name of its study."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from co2l.data.benchmarks import BENCHMARKS
from co2l.learning.methods import METHODS
from co2l.reporting.evaluated import Evaluated
from co2l.reporting.paper import Exhibit, paper

STAND_INS = {"seq_digits": "seq_cifar10", "r_digits": "r_mnist"}  # small twins of the paper's benchmarks
BOUNDS = {"joint": "Joint (upper bound)", "finetune": "Finetune (lower bound)"}  # not in the paper's tables


@dataclass(frozen=True)
class Experiment:
    """A table or figure of the paper, as something that can be run."""

    exhibit: str  # in paper.yaml
    row: Callable[[Evaluated], str | None]  # the row that a configuration stands in, if it belongs here
    space: str  # the evaluation of this space, below search_spaces/paper, fills it
    per_benchmark: bool = False  # whether there is one for every benchmark of the paper
    alone: bool = False  # whether one row by itself is worth showing

    @property
    def printed(self) -> Exhibit:
        return paper().exhibits[self.exhibit]

    def file(self, benchmark: str) -> str:
        """The space that fills it on a benchmark; if the paper did so elsewhere alone, its space there."""
        small = benchmark in STAND_INS
        where = benchmark if small or self.printed.is_about(benchmark) else "seq_cifar10"
        named = f"_{where}" if self.per_benchmark and (not small or self.alone) else ""
        return f"search_spaces/paper/{'digits/' if small else ''}{self.space}{named}.yaml"


def distillation(each: Evaluated) -> str:
    """With a power of zero nothing is distilled, whatever is named."""
    return "none" if each.settings.get("distill_power") == 0 else str(each.settings.get("distillation"))


def replays(each: Evaluated) -> bool:
    """Whether buffered samples train the representation, and not the linear classifier alone."""
    return bool(each.settings.get("replay")) and each.buffer != 0


def _co2l(each: Evaluated) -> bool:
    """Contrastive, with a linear classifier that sees the last task and the buffer: not so in Figure 3."""
    usual = each.settings.get("objective") == "supcon" and each.settings.get("probe_data") == "buffer"
    return each.method == "co2l" and usual


def _finite_co2l(each: Evaluated) -> bool:
    return _co2l(each) and each.buffer != "unlimited"


def _asymmetric(each: Evaluated) -> bool:
    return replays(each) and each.settings["supcon"] == "asymmetric"


def _method(each: Evaluated) -> str | None:
    if each.method != "co2l":
        return each.method
    return "co2l" if _finite_co2l(each) and _asymmetric(each) and distillation(each) == "ird" else None


def _ablation(each: Evaluated) -> str | None:
    """Without replay every sample is of the current task, so that both contrastive losses are the same."""
    if not _finite_co2l(each) or (replays(each) and not _asymmetric(each)):
        return None
    rows = {(False, "none"): "a", (False, "ird"): "b", (True, "none"): "c", (True, "ird"): "d"}
    return rows.get((replays(each), distillation(each)))


def _supcon(each: Evaluated) -> str | None:
    if not _finite_co2l(each) or not replays(each) or distillation(each) != "ird":
        return None
    return str(each.settings["supcon"])


def _alternative(each: Evaluated) -> str | None:
    if not _finite_co2l(each) or not _asymmetric(each) or distillation(each) == "none":
        return None
    return distillation(each)


def _power(each: Evaluated) -> str | None:
    if not _co2l(each) or each.buffer != "unlimited" or not replays(each):
        return None
    return str(each.settings["supcon"]) if distillation(each) in ("ird", "none") else None


def _scheme(each: Evaluated) -> str | None:
    """Without replay and distillation, a classifier trained afresh on all samples seen, or on all there are."""
    probe = each.settings.get("probe_data")
    if each.method != "co2l" or replays(each) or distillation(each) != "none" or probe not in ("seen", "all"):
        return None
    return f"{'contrastive' if each.settings['objective'] == 'supcon' else 'joint'}, {probe}"


TABLE_1 = Experiment("table_1", _method, "table1", per_benchmark=True, alone=True)
TABLE_2 = Experiment("table_2", _ablation, "ird_ablation")
TABLE_3 = Experiment("table_3", _supcon, "asymmetric", per_benchmark=True)
TABLE_6 = Experiment("table_6", _alternative, "distillation", per_benchmark=True)
FIGURE_3 = Experiment("figure_3", _scheme, "joint_contrastive")
FIGURE_4 = Experiment("figure_4", _power, "ird_power")
EXPERIMENTS = (TABLE_1, TABLE_2, TABLE_3, TABLE_6, FIGURE_3, FIGURE_4)


@dataclass(frozen=True)
class Filled:
    """The runs of one experiment that can be compared: one benchmark, and settings that differ only where they must."""

    experiment: Experiment
    benchmark: str
    rows: Mapping[str, tuple[Evaluated, ...]]  # by the paper's row, in its order
    studies: tuple[str, ...]

    def buffers(self) -> tuple[int | str, ...]:
        """The buffer sizes that were run; upper and lower bound have no buffer."""
        found = {each.buffer for row, several in self.rows.items() if row not in BOUNDS for each in several}
        return tuple(sorted(found, key=lambda size: (isinstance(size, str), size)))

    def of(self, row: str, buffer: int | str) -> tuple[Evaluated, ...]:
        return tuple(each for each in self.rows.get(row, ()) if each.buffer == buffer)

    def can_have(self, row: str) -> bool:
        """Whether the row's method, if the rows are methods, serves the benchmark: iCaRL does not on Domain-IL."""
        return row not in METHODS or BENCHMARKS[self.benchmark].scenario in METHODS[row].scenarios

    def is_part_of(self, other: Filled) -> bool:
        """Whether the other one shows all of this and more; of two that are the same, the first one does."""
        mine, theirs = ({id(each) for several in one.rows.values() for each in several} for one in (self, other))
        return mine < theirs or (mine == theirs and other.studies < self.studies)

    @property
    def scenarios(self) -> tuple[str, ...]:
        return next(each for several in self.rows.values() for each in several).scenarios


def fill(experiment: Experiment, everything: Sequence[Evaluated]) -> list[Filled]:
    """What can stand in an experiment: per benchmark and evaluation, as one evaluation compares like with like.

    Table 1 compares methods, each with settings of its own, so there all evaluations of a benchmark come together.
    """
    groups: dict[tuple[str, str], list[tuple[str, Evaluated]]] = defaultdict(list)
    for each in everything:
        if (row := experiment.row(each)) is not None:
            for study in ("",) if experiment.alone else each.studies:
                groups[each.benchmark, study].append((row, each))
    filled = [
        Filled(experiment, benchmark, _by_row(rows), (study,) if study else _studies(each for _, each in rows))
        for (benchmark, study), rows in groups.items()
    ]
    least = 1 if experiment.alone else 2
    kept = [each for each in filled if len(each.rows) >= least and not any(each.is_part_of(other) for other in filled)]
    return sorted(kept, key=lambda each: (each.benchmark, each.studies))


def _by_row(found: Sequence[tuple[str, Evaluated]]) -> dict[str, tuple[Evaluated, ...]]:
    rows: dict[str, list[Evaluated]] = defaultdict(list)
    for row, each in found:
        rows[row].append(each)
    return {row: tuple(several) for row, several in rows.items()}


def _studies(several: Iterable[Evaluated]) -> tuple[str, ...]:
    return tuple(sorted({study for each in several for study in each.studies}))


def counterpart(benchmark: str, buffer: int | str, buffers: Sequence[int | str]) -> tuple[str, int | str]:
    """The paper's benchmark and buffer size to look at beside these: for a small twin, the same place in the order."""
    if benchmark not in STAND_INS:
        return benchmark, buffer
    finite = sorted(size for size in buffers if isinstance(size, int) and size > 0)
    sizes = TABLE_1.printed.buffers
    place = finite.index(buffer) if buffer in finite else 0
    return STAND_INS[benchmark], sizes[min(place, len(sizes) - 1)]


def off_diagonal(filled: Filled, scheme: str, probe: str) -> dict[int, float]:
    """The number that the paper's text gives of Figure 3, by seed: a mean accuracy off the diagonal.

    With a classifier on seen objects it is that of the tasks before the one just learned, else of those to come.
    """
    means = {}
    for each in filled.rows.get(f"{scheme}, {probe}", ())[:1]:
        for seed, result in each.results.items():
            rows = result["matrix"].get(filled.scenarios[0], ())
            off = [
                accuracy
                for i, row in enumerate(rows)
                for j, accuracy in enumerate(row)
                if (j < i if probe == "seen" else j > i)
            ]
            if off:
                means[seed] = sum(off) / len(off)
    return means
