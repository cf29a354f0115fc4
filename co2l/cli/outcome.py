"""What a search or an evaluation ends with: its numbers, how sure they are, and the commands for the next step."""

from __future__ import annotations

import json
import sys
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from co2l.cli.arguments import Flags
from co2l.cli.browse import browse, command, from_here
from co2l.errors import headline
from co2l.learning.metrics import scenario_title
from co2l.search.record.importance import described
from co2l.search.selection.rule import Selected, told_apart
from co2l.search.service import EvaluationResult, Options, SearchResult, Summary
from co2l.search.space.evaluation import Evaluation
from co2l.search.space.naming import short
from co2l.search.space.space import Space


def print_search(space: Space, options: Options, result: SearchResult, *, flags: Flags, as_json: bool) -> None:
    """The selected configurations, a row for each, and what to do next."""
    choice = result.choice
    if as_json:
        document = {
            "study": options.study,
            "selected": [each.as_dict(space) for each in choice.selected],
            "missing": choice.missing,
            "importance": result.importance,
            **_plain(result.summary),
        }
        print(json.dumps(document))
        return
    if choice.selected:
        _print_table(_selected(space, options, choice.selected), width=120)
        print(_how_sure(space, choice.selected))
        for line in told_apart(choice.selected):
            print(line)
    if result.importance:
        shares = ", ".join(f"{name} {share:.2f}" for name, share in result.importance.items())
        print(f"what mattered: {shares}: {described(space)}")
    for line in choice.missing:
        print(f"nothing selected for {line}")
    print(f"selected configurations: {from_here(result.selected_file)}")
    _print_summary(options, result.summary)
    if choice.selected and not choice.missing and not result.summary.left:
        print(f"next: {command('evaluate')} --study {options.study}{flags.to_run}")
        print(f"report: {command('report')} --study {options.study}{flags.to_read}")


def _selected(space: Space, options: Options, selected: tuple[Selected, ...]) -> Table:
    title = f"selected on validation data: {options.study} by {space.objective} (%, {selected[0].probe})"
    table = _table(title)
    measured = list(selected[0].accuracies)
    heads = [*space.axes, *map(scenario_title, measured), "score", "lead", "seeds"]
    for name in heads:
        table.add_column(name, justify="right", overflow="fold")
    for each in selected:
        lead = "–" if each.margin.lead is None else f"+{each.margin.lead:.2f}"
        accuracies = [f"{each.accuracies[name]:.2f}" for name in measured]
        spread = "" if each.margin.std is None else f" ± {each.margin.std:.2f}"
        if race := each.margin.race:
            spread = f" [{race.low:.2f}, {race.high:.2f}]"
        axes = [short(each.values[name]) for name in space.axes]
        table.add_row(*axes, *accuracies, f"{each.score:.2f}{spread}", lead, str(len(each.trials)))
    return table


def _how_sure(space: Space, selected: tuple[Selected, ...]) -> str:
    """From how many, and whether their distance can be told from noise."""
    sizes = sorted({each.margin.candidates for each in selected})
    count = str(sizes[0]) if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
    line = f"how sure: best of {count} configuration{'s' if sizes[-1] > 1 else ''}, by the lead over the second"
    if any(each.margin.race for each in selected):
        return f"{line} in the last heat; [] is the 95% confidence interval of the mean over seeds"
    if len(space.seeds) == 1:
        return f"{line}; one seed, so the noise between seeds is unknown"
    return f"{line}; ± is the standard deviation over {len(space.seeds)} seeds"


def print_evaluation(
    evaluation: Evaluation, options: Options, result: EvaluationResult, *, report: str, flags: Flags, as_json: bool
) -> None:
    """Test accuracy as mean ± standard deviation over seeds, and what to do next; `report` names the study for that."""
    if as_json:
        document = {
            "study": options.study,
            "benchmark": evaluation.benchmark,
            "method": evaluation.method_title,
            "tested": [
                {"values": dict(row.values), "seeds": list(row.seeds), "accuracies": dict(row.accuracies)}
                for row in result.tested
            ],
            "model": {"name": options.model, "aliases": result.aliases} if result.aliases else None,
            **_plain(result.summary),
        }
        print(json.dumps(document))
        return
    if result.tested:
        scenarios = list(result.tested[0].accuracies)
        probe = result.tested[0].probe
        table = _table(f"{evaluation.method_title} on {evaluation.benchmark}: test accuracy (%, {probe}), mean ± std")
        for heading in ("configuration", "seeds", *map(scenario_title, scenarios)):
            table.add_column(heading, justify="left" if heading == "configuration" else "right")
        for row in result.tested:
            table.add_row(row.name, str(len(row.seeds)), *map(row.shown, scenarios))
        _print_table(table, width=160)
    if result.aliases:
        print(f"registered model: {options.model} {' '.join(f'@{alias}' for alias in result.aliases)}")
        print(f'  load: mlflow.pytorch.load_model("models:/{options.model}@{result.aliases[0]}")')
    _print_summary(options, result.summary)
    if result.tested:
        print(f"report: {command('report')} --study {report}{flags.to_read}")


def _table(title: str) -> Table:
    """Without lines between columns: nine of them fit a narrow terminal."""
    return Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)


def _print_table(table: Table, *, width: int) -> None:
    console = Console(width=None if sys.stdout.isatty() else width, highlight=False)
    console.print(table.title)  # by itself: a table breaks a title that is longer than its rows
    table.title = None
    console.print(table)


def _plain(summary: Summary) -> dict[str, Any]:
    return {**summary.cost.as_dict(), "trials_left": summary.left, "failed": summary.failed}


def _print_summary(options: Options, summary: Summary) -> None:
    """What failed, what it cost, what is left, and where to look."""
    cost = summary.cost
    for key, reason in summary.failed.items():
        print(f"failed: {key[:8]}: {headline(reason)} (log: {from_here(options.failures.path(key))})")
    epochs = cost.epochs_trained + cost.epochs_reused
    saved = f", {cost.epochs_reused:,} of {epochs:,} reused" if cost.epochs_reused else ""
    print(f"epochs trained: {cost.epochs_trained:,}{saved} · {cost.hours:.2f} trial-hours")
    if summary.untracked:
        print(f"{summary.untracked} reports wait for MLflow; run the same command to send them")
    if summary.left:
        print(f"{summary.left} trials are left; run the same command to continue")
    print("\n".join(browse(options.tracking_uri, summary.page)))
