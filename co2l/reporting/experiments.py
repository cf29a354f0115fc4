"""Which row of the paper a configuration belongs to, decided by its settings, not by its study's name."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from co2l.data.benchmarks import benchmark
from co2l.learning.methods import METHODS
from co2l.reporting.evaluated import Evaluated
from co2l.reporting.paper import TableOrFigure, paper

PROXIES = {"seq_digits": "seq_cifar10", "r_digits": "r_mnist"}  # proxy -> the paper's benchmark
BOUNDS = {"joint": "Joint (upper bound)", "finetune": "Finetune (lower bound)"}  # not in the paper's tables


@dataclass(frozen=True)
class Experiment:
    """A table or figure of the paper as an experiment to run."""

    item: str  # its name in paper.yaml
    row: Callable[[Evaluated], str | None]  # the row that a configuration belongs to, if any
    space: str  # evaluating this space, below search_spaces/paper, fills it
    per_benchmark: bool = False  # whether each benchmark of the paper has its own space
    alone: bool = False  # whether a single row is worth showing

    @property
    def printed(self) -> TableOrFigure:
        return paper().items[self.item]

    def file(self, benchmark: str) -> str:
        """The space that fills it on a benchmark; if the paper has no numbers there, its space for Seq-CIFAR-10."""
        small = benchmark in PROXIES
        where = benchmark if small or self.printed.is_about(benchmark) else "seq_cifar10"
        named = f"_{where}" if self.per_benchmark and (not small or self.alone) else ""
        return f"search_spaces/paper/{'digits/' if small else ''}{self.space}{named}.yaml"


def distillation(each: Evaluated) -> str:
    """What is distilled: nothing if the power is zero, whatever the setting says."""
    return "none" if each.settings.get("distill_power") == 0 else str(each.settings.get("distillation"))


def replays(each: Evaluated) -> bool:
    """Whether buffered examples train the representation, not just the linear classifier."""
    return bool(each.settings.get("replay")) and each.buffer != 0


def _co2l(each: Evaluated) -> bool:
    """Contrastive, with a linear classifier trained on the last task and the buffer (unlike Figure 3)."""
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
    """Without replay every example is from the current task, so both contrastive losses are the same."""
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
    """Without replay or distillation, a classifier trained from scratch on all examples seen, or on all there are."""
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
    """Comparable runs of one experiment: one benchmark, and settings that differ only where they must."""

    experiment: Experiment
    benchmark: str
    rows: Mapping[str, tuple[Evaluated, ...]]  # by the paper's row, in its order
    studies: tuple[str, ...]

    def buffers(self) -> tuple[int | str, ...]:
        """The buffer sizes that were run; the bounds have no buffer."""
        found = {each.buffer for row, several in self.rows.items() if row not in BOUNDS for each in several}
        return tuple(sorted(found, key=lambda size: (isinstance(size, str), size)))

    def unprinted(self) -> dict[str, str]:
        """Rows that the paper lacks, and how they are called: other methods, then the bounds."""
        others = [row for row in self.rows if row not in self.experiment.printed.rows and row not in BOUNDS]
        return {row: f"{row} (not in the paper)" for row in others} | BOUNDS

    def label(self, row: str) -> str:
        return self.experiment.printed.rows.get(row) or self.unprinted()[row]

    def of(self, row: str, buffer: int | str) -> tuple[Evaluated, ...]:
        return tuple(each for each in self.rows.get(row, ()) if each.buffer == buffer)

    def can_have(self, row: str) -> bool:
        """Whether the row's method, if rows are methods, supports the benchmark: iCaRL does not support Domain-IL."""
        return row not in METHODS or benchmark(self.benchmark).scenario in METHODS[row].scenarios

    def is_part_of(self, other: Filled) -> bool:
        """Whether the other one shows all of this and more; of two equal ones, the first does."""
        mine, theirs = ({id(each) for several in one.rows.values() for each in several} for one in (self, other))
        return mine < theirs or (mine == theirs and other.studies < self.studies)

    def file_name(self, item: str) -> str:
        """The name of a figure's files: the table or figure, the benchmark and the study."""
        return f"{item}-{self.benchmark}-{self.studies[0]}".replace(".", "-")

    @property
    def scenarios(self) -> tuple[str, ...]:
        return next(each for several in self.rows.values() for each in several).scenarios


def fill(experiment: Experiment, everything: Sequence[Evaluated]) -> list[Filled]:
    """The runs that fill an experiment, per benchmark and evaluation: one evaluation compares like with like.

    Table 1 compares methods, each with its own settings, so it combines all evaluations on a benchmark. Another
    number or order of tasks is another problem than the paper's.
    """
    groups: dict[tuple[str, str], list[tuple[str, Evaluated]]] = defaultdict(list)
    for each in everything:
        if each.own_stream and (row := experiment.row(each)) is not None:
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
    """The paper's benchmark and buffer size to show beside these: for a proxy, the buffer size of the same rank."""
    if benchmark not in PROXIES:
        return benchmark, buffer
    finite = sorted(size for size in buffers if isinstance(size, int) and size > 0)
    sizes = TABLE_1.printed.buffers
    rank = finite.index(buffer) if buffer in finite else 0
    return PROXIES[benchmark], sizes[min(rank, len(sizes) - 1)]


def off_diagonal(filled: Filled, scheme: str, probe: str) -> dict[int, float]:
    """The number that the paper's text gives for Figure 3, by seed: a mean accuracy off the diagonal.

    With a classifier on seen objects it is over the tasks before the one just learned, otherwise over future tasks.
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
