"""What you see of a plan: how much a search will train, how much memory it needs and, if asked, how long it takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from co2l.cli.display import Display
from co2l.cli.search_progress import why_more_trials
from co2l.errors import Co2lError
from co2l.learning.cards import CARDS, gib_on_card
from co2l.search.record.earlier import Earlier
from co2l.search.space.estimate import LEFT_OUT, Estimate
from co2l.search.space.forecast import ASSUMED
from co2l.search.space.memory import Memory, size
from co2l.search.space.naming import named
from co2l.search.space.plan import Plan, trial_count
from co2l.search.space.protocol import unseen
from co2l.search.space.space import Space

UNITS = {"years": 365.25 * 24, "days": 24.0, "h": 1.0, "min": 1 / 60, "s": 1 / 3600}  # in hours
SHOWN_FROM = {"days": 48.0}  # hours are easier to compare with than a day and a half


@dataclass(frozen=True)
class Planned:
    space: Space
    plan: Plan
    memory: Memory | Co2lError | None = None  # why it is not known, or None if it was not asked for
    estimate: Estimate | None = None
    card: str | None = None  # that the estimate is for; None for this machine
    earlier: Earlier | None = None  # what the search begins with of another study

    def as_dict(self) -> dict[str, Any]:
        document = self.plan.as_dict()
        if (protocol := self.space.selection.protocol).name != "end":
            document |= {"protocol": str(protocol), "unseen": unseen(self.space)}
        if self.earlier:
            document["begins_with"] = self.earlier.as_dict()
        if isinstance(self.memory, Memory):
            document["memory"] = self.memory.as_dict()
        if self.estimate:
            source = {"card": self.card, "assumed": ASSUMED} if self.card else {}
            document["estimate"] = self.estimate.as_dict() | source
        return document


class PlanProgress(Display):
    """Says what is being timed: a step of a large network may take minutes."""

    def timing(self, number: int, of: int, work: dict[str, Any]) -> None:
        self.draw(f"timing steps on this machine, {number} of {of}{': ' + named(work) if work else ''}")


def print_plan(planned: Planned, *, quiet: bool) -> None:
    space, plan, estimate = planned.space, planned.plan, planned.estimate
    drawn = trial_count(space) is None
    about = "" if plan.exact else "about " if drawn else "at most "
    protocol = space.selection.protocol
    rows = [
        *([] if protocol.name == "end" else [("protocol", str(protocol))]),
        ("trials", f"{plan.trials:,}{why_more_trials(space)}"),
        *([("begins with", str(planned.earlier))] if planned.earlier else []),
        ("first stages", f"{about}{plan.first_stages:,} distinct"),
        ("stages", f"{about}{plan.stages:,} distinct"),
        ("epochs", f"{about}{plan.epochs_planned:,}, without reuse {plan.epochs_naive:,} ({plan.ratio:.2f} times)"),
        *_race_rows(space, plan),
        *_memory_rows(planned),
    ]
    if estimate:
        where = f"on one {planned.card}" if planned.card else "on this machine"
        naive = duration(estimate.trial_hours_naive)
        rows += [
            ("training", f"{duration(estimate.trial_hours)} {where}, without reuse {naive}"),
            ("duration", f"{duration(estimate.hours)} with {estimate.parallel} at once"),
        ]
        if estimate.money is not None:
            rows += [("price", f"{estimate.money:,.2f} at {estimate.price:,.2f} an hour")]
    print(f"{space.source}: {space.method_title} on {space.benchmark}, {space.algorithm}")
    for name, text in rows:
        print(f"  {name:<13} {text}")
    if blind := unseen(space):
        *others, last = blind
        what = f"task 1 reads neither {', '.join(others)} nor {last}" if others else f"task 1 does not read {last}"
        print(f"{what}: first_k: {protocol.first_k} cannot choose between {'their' if others else 'its'} values")
    if quiet:
        return
    if drawn:
        print(f"The trials are {space.samples} random samples; {space.algorithm} will draw others.")
    if estimate:
        _print_source(planned, estimate)


def _race_rows(space: Space, plan: Plan) -> list[tuple[str, str]]:
    race = space.selection.race
    if race is None:
        return []
    what = f"at most {plan.race_epochs:,} epochs more ({race.share:.0%}), or {race.share:.0%} of a --budget"
    return [("race", f"{what}: the best few with up to {race.seeds} seeds")]


def _memory_rows(planned: Planned) -> list[tuple[str, str]]:
    memory, asked = planned.memory, planned.card
    if memory is None:
        return []
    if isinstance(memory, Co2lError):
        return [("memory", str(memory))]
    parts = memory.most.footprint
    rows = [("memory", f"{memory.shown()} a trial, of which {size(parts.step)} activations")]
    if not memory.gpus and not asked:
        return rows
    share = f"a share of {memory.gpus:g}" if 0 < memory.gpus < 1 else "a whole card"
    taken = f"{gib_on_card(parts.peak):.1f} GiB with CUDA's own, of {share}"
    if asked:
        fits = CARDS[asked.lower()] in memory.fitting
        return [*rows, ("card", f"{asked}: {'fits' if fits else 'TOO SMALL'} ({taken})")]
    names = ", ".join(card.name for card in memory.fitting) or "none that we know"
    return [*rows, ("cards", f"{names} ({taken})")]


def _print_source(planned: Planned, estimate: Estimate) -> None:
    """What the estimate comes from, and what it leaves out."""
    if planned.card:
        print(f"The time is a forecast by {ASSUMED}. In it, {LEFT_OUT}.")
        return
    print(f"The time is an estimate from training steps on this machine only: {LEFT_OUT}.")
    for timed in estimate.timed:
        if timed.batch < timed.settings["batch_size"]:
            print(f"Steps of {timed.settings['batch_size']} examples are too slow here: timed {timed.batch}.")


def duration(hours: float) -> str:
    """A time in the unit that people would use: `75.1 years` and not 657,543 h."""
    for unit, length in UNITS.items():
        if hours >= SHOWN_FROM.get(unit, length):
            return f"{hours / length:,.1f} {unit}"
    return f"{hours * 3600:.1f} s"
