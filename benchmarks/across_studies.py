"""What a group's usual studies of one method train below one root: epochs naive, planned, and really trained.

    python benchmarks/across_studies.py
    python benchmarks/across_studies.py --train [--root runs/across] [--seeds 3]

The set is the grid (one seed, on validation data), and, on all training data with three seeds each, Table 1, the
ablation of IRD, the asymmetric loss, the alternatives to IRD, its power, and the two figures about representations.
The first command counts those of Seq-CIFAR-10 and their proxies on digits; naive is every trial of every study trained
alone. The second trains those on digits, one study after the other, in this process on one thread, as the commands
would: they share a store, and each study retains the states that the commands retain. Run it again to continue; epochs
that earlier runs trained are counted from the notes in its root.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from co2l.search.service import Options, assignments
from co2l.search.space.evaluation import of_space
from co2l.search.space.plan import order, plan, together
from co2l.search.space.space import Space, load

SETS = {
    "seq_cifar10": (
        "seq_cifar10",
        *(f"paper/{name}" for name in ("table1_seq_cifar10", "ird_ablation", "asymmetric_seq_cifar10")),
        *(f"paper/{name}" for name in ("distillation_seq_cifar10", "ird_power", "joint_contrastive", "features")),
    ),
    "seq_digits": (
        "seq_digits",
        *(f"paper/digits/{name}" for name in ("table1_seq_digits", "ird_ablation", "asymmetric", "distillation")),
        *(f"paper/digits/{name}" for name in ("ird_power", "joint_contrastive", "features")),
    ),
}
ONE_SEED = "features"  # whose command says so


@dataclass(frozen=True)
class Row:
    study: str
    trials: int
    naive: int
    alone: int  # with the stages that its own trials share
    below: int  # with those of the studies above it too
    trained: int | None = None


def spaces_of(name: str, seeds: int) -> dict[str, Space]:
    """The grid as a search, all others as evaluations."""
    grid, *others = SETS[name]
    tested = {each: of_space(load(each), 1 if each.endswith(ONE_SEED) else seeds) for each in others}
    return {grid: load(grid), **tested}


def planned(spaces: dict[str, Space]) -> Iterator[Row]:
    before, known = 0, list[Space]()
    for name, space in spaces.items():
        known.append(space)
        counted, after = plan(space), together(known).epochs_planned
        yield Row(name, counted.trials, counted.epochs_naive, counted.epochs_planned, after - before)
        before = after


def train(space: Space, root: Path, notes: dict[str, int]) -> int:
    """Train what is missing of a study; the epochs that it took, in this run and earlier ones."""
    import torch

    from co2l.data.root import data_root
    from co2l.learning.events import TaskDone
    from co2l.learning.run import run
    from co2l.learning.store import Store

    torch.set_num_threads(1)
    url = f"sqlite:///{root}/study.db"
    options = Options(root, "across", data_root(), str(root / "store"), url, f"sqlite:///{root}/mlflow.db")
    store, assign, name = Store(options.store), assignments(space, options), space.source
    for trial in order(space.trials()):
        tasks, retained = trial.config.open_stream(data_root()), assign(trial).retained
        for event in run(trial.config, tasks, store, device=torch.device("cpu"), retain=retained.__contains__):
            if isinstance(event, TaskDone):
                notes[name] = notes.get(name, 0) + event.epochs_trained
                (root / "notes.json").write_text(json.dumps(notes), encoding="utf-8")
    return notes[name]


def table(name: str, rows: list[Row]) -> str:
    """In Markdown, with a line for all together."""
    lines = ["", f"{name}, in epochs", ""]
    lines += ["| study | trials | naive | alone | below those above | really trained |", "|---" * 6 + "|"]
    trained = [row.trained for row in rows if row.trained is not None]
    sums = [sum(getattr(row, each) for row in rows) for each in ("trials", "naive", "alone", "below")]
    rows = [*rows, Row("together", *sums, trained=sum(trained) if len(trained) == len(rows) else None)]
    for row in rows:
        last = "–" if row.trained is None else f"{row.trained:,}"
        lines.append(f"| {row.study} | {row.trials:,} | {row.naive:,} | {row.alone:,} | {row.below:,} | {last} |")
    whole = rows[-1]
    lines += [
        "",
        f"naive / alone {whole.naive / whole.alone:.2f}, naive / below one root {whole.naive / whole.below:.2f}",
    ]
    lines += [f"naive / really trained {whole.naive / whole.trained:.2f}"] if whole.trained else []
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", action="store_true", help="train the set on digits")
    parser.add_argument("--root", type=Path, default=Path("runs/across"), help="where to store its stages")
    parser.add_argument("--seeds", type=int, default=3, help="of each evaluation (default: 3)")
    args = parser.parse_args()
    if not args.train:
        for name in SETS:
            print(table(name, list(planned(spaces_of(name, args.seeds)))), flush=True)
        return
    root = args.root.absolute()
    root.mkdir(parents=True, exist_ok=True)
    kept = root / "notes.json"
    notes: dict[str, int] = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {}
    spaces, rows = spaces_of("seq_digits", args.seeds), list[Row]()
    for row in planned(spaces):
        trained = train(spaces[row.study], root, notes)
        rows.append(Row(row.study, row.trials, row.naive, row.alone, row.below, trained))
        print(rows[-1], flush=True)
    print(table("seq_digits", rows))


if __name__ == "__main__":
    main()
