"""What the report does not have, and the command that fills each gap."""

from __future__ import annotations

from collections.abc import Sequence

from co2l.reporting.document import Block, Gap
from co2l.reporting.experiments import PROXIES, TABLE_1, Experiment, Filled
from co2l.reporting.formatting import benchmark_name


def command(experiment: Experiment, root: str, benchmark: str = "seq_cifar10") -> str:
    return f"python -m co2l.evaluate --space {experiment.file(benchmark)} --root {root}"


def nothing_run(experiment: Experiment, what: str, root: str) -> Gap:
    """The gap where nothing was run: the command of the paper's own experiment, and its proxy."""
    proxy = experiment.file("seq_digits")
    return Gap(f"{what} The proxy `{proxy}` takes minutes; the paper's own experiment:", command(experiment, root))


def missing_rows(filled: Filled, buffers: Sequence[int | str], root: str) -> list[Block]:
    experiment = filled.experiment
    rows = experiment.printed.rows
    absent = {
        buffer: [label for row, label in rows.items() if not filled.of(row, buffer) and filled.can_have(row)]
        for buffer in buffers
    }
    names = sorted({name for several in absent.values() for name in several}, key=list(rows.values()).index)
    if not names:
        return []
    lines = "; ".join(f"buffer {buffer}: {', '.join(several)}" for buffer, several in absent.items() if several)
    what, benchmark = f"Not run on {benchmark_name(filled.benchmark)}: {lines}.", filled.benchmark
    if experiment is not TABLE_1 or names == [rows["co2l"]]:
        return [Gap(what, command(experiment, root, benchmark))]
    method = next(row for row, label in rows.items() if label == names[0])
    return [Gap(f"{what} For {names[0]}, for example:", _baseline_command(benchmark, method, root))]


def _baseline_command(benchmark: str, method: str, root: str) -> str:
    if benchmark == "seq_digits":  # nobody has published values for it: search first
        search = f"python -m co2l.tune --space search_spaces/seq_digits/{method}.yaml --root {root}"
        return f"{search} && python -m co2l.evaluate --study seq_digits-{method} --root {root}"
    folder = f"digits/{benchmark}" if benchmark in PROXIES else benchmark
    return f"python -m co2l.evaluate --space search_spaces/paper/{folder}/{method}.yaml --root {root}"
