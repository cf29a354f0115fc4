"""Which of the paper's orderings hold in our numbers, each by a paired difference over common seeds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from co2l.learning.metrics import SCENARIOS
from co2l.reporting.document import Column, Item, Table
from co2l.reporting.evaluated import Evaluated
from co2l.reporting.experiments import (
    BOUNDS,
    FIGURE_3,
    FIGURE_4,
    TABLE_1,
    TABLE_2,
    TABLE_3,
    TABLE_6,
    Experiment,
    Filled,
    counterpart,
    off_diagonal,
)
from co2l.reporting.formatting import NONE, benchmark_name, interval, number
from co2l.reporting.statistics import Paired, paired, remark


@dataclass(frozen=True)
class Claim:
    """The paper finds one row better than another."""

    text: str
    experiment: Experiment
    better: str
    worse: str


CLAIMS = (
    Claim("IRD helps, with a buffer: (d) over (c)", TABLE_2, "d", "c"),
    Claim("IRD helps, without replay: (b) over (a)", TABLE_2, "b", "a"),
    Claim("Asymmetric SupCon helps", TABLE_3, "asymmetric", "symmetric"),
    Claim("IRD beats SEED", TABLE_6, "ird", "seed"),
    Claim("IRD beats MSE on embeddings", TABLE_6, "ird", "mse_embedding"),
    Claim("IRD beats MSE on projections", TABLE_6, "ird", "mse_projection"),
)
SCHEMES = {
    "seen": "Contrastive training forgets less than joint training",
    "all": "Contrastive features serve future tasks better than joint ones",
}


@dataclass(frozen=True)
class Finding:
    claim: str
    label: str
    where: str  # benchmark and buffer size
    scenario: str
    printed: float | None  # the paper's difference
    test: Paired | None  # ours; None if it was not run

    @property
    def verdict(self) -> Item:
        if self.test is None:
            return Item("– not run", "muted")
        difference = self.test.difference
        if difference.interval is None:
            return Item("✓ holds" if difference.mean > 0 else "✗ does not hold", "plain", below="one seed")
        low, high = difference.interval
        if difference.mean <= 0:
            return Item("✗ does not hold", "bad", below="reversed" if high < 0 else "no clear difference")
        return Item("✓ holds", "good", below="" if low > 0 else "but zero is inside the interval")


def findings(filled: Sequence[Filled]) -> list[Finding]:
    """Every claim for every benchmark, buffer size and scenario that was run; once, as not run, if none was."""
    found: list[Finding] = []
    for claim in CLAIMS:
        several = [each for each in filled if each.experiment is claim.experiment]
        of_claim = [finding for each in several for finding in _examined(claim, each)]
        found += of_claim or [_not_run(claim.text, claim.experiment)]
    beaten = [finding for each in filled if each.experiment is TABLE_1 for finding in _best_baseline(each)]
    found += beaten or [_not_run("Co²L beats every baseline", TABLE_1)]
    return found + _of_schemes(filled) + _of_power(filled)


def _of_schemes(filled: Sequence[Filled]) -> list[Finding]:
    found: list[Finding] = []
    for probe, text in SCHEMES.items():
        of_claim = []
        for each in (each for each in filled if each.experiment is FIGURE_3):
            one, two = (off_diagonal(each, scheme, probe) for scheme in ("contrastive", "joint"))
            if one.keys() & two.keys():
                means, where = FIGURE_3.printed.content["means"][probe], benchmark_name(each.benchmark)
                printed = means["contrastive"] - means["joint"]
                label, scenario = FIGURE_3.printed.numbered, each.scenarios[0]
                of_claim.append(Finding(text, label, where, scenario, printed, paired(one, two)))
        found += of_claim or [_not_run(text, FIGURE_3)]
    return found


def _of_power(filled: Sequence[Filled]) -> list[Finding]:
    """How far asymmetric SupCon lags without IRD, against how far it lags with the strongest."""
    text = "IRD lets asymmetric SupCon catch up: its lag at λ = 0 over that at the largest λ"
    found = []
    for each in (each for each in filled if each.experiment is FIGURE_4):
        scenario = each.scenarios[0]
        at = {
            row: {float(one.settings["distill_power"]): one.accuracies(scenario) for one in several}
            for row, several in each.rows.items()
        }
        powers = sorted(at["symmetric"].keys() & at["asymmetric"].keys())
        if len(powers) < 2:
            continue
        lags = [_lag(at["symmetric"][power], at["asymmetric"][power]) for power in (powers[0], powers[-1])]
        if lags[0].keys() & lags[1].keys():
            where = f"{benchmark_name(each.benchmark)}, λ {powers[0]:g} and {powers[-1]:g}"
            found.append(Finding(text, FIGURE_4.printed.numbered, where, scenario, None, paired(*lags)))
    return found or [_not_run(text, FIGURE_4)]


def _lag(ahead: Mapping[int, float], behind: Mapping[int, float]) -> dict[int, float]:
    return {seed: ahead[seed] - behind[seed] for seed in ahead.keys() & behind.keys()}


def _not_run(text: str, experiment: Experiment) -> Finding:
    return Finding(text, experiment.printed.numbered, "", "", None, None)


def _examined(claim: Claim, filled: Filled) -> Iterator[Finding]:
    for buffer in filled.buffers():
        better, worse = filled.of(claim.better, buffer), filled.of(claim.worse, buffer)
        if better and worse:
            yield from _compared(claim.text, filled, buffer, (claim.better, better[0]), (claim.worse, worse[0]))


def _best_baseline(filled: Filled) -> Iterator[Finding]:
    """Co²L against the best baseline that was run."""
    for buffer in filled.buffers():
        mine = filled.of("co2l", buffer)
        others = [(row, each) for row in filled.rows if row not in (*BOUNDS, "co2l") for each in filled.of(row, buffer)]
        if not mine or not others:
            continue
        for scenario in filled.scenarios:
            row, best = max(others, key=lambda pair: pair[1].summary(scenario).mean)
            label = filled.experiment.printed.rows.get(row, row)
            text = f"Co²L beats every baseline; here the best of {len({row for row, _ in others})} run is {label}"
            yield from _compared(text, filled, buffer, ("co2l", mine[0]), (row, best), (scenario,))


def _compared(
    text: str,
    filled: Filled,
    buffer: int | str,
    better: tuple[str, Evaluated],
    worse: tuple[str, Evaluated],
    scenarios: Sequence[str] = (),
) -> Iterator[Finding]:
    printed = filled.experiment.printed
    where, size = counterpart(filled.benchmark, buffer, filled.buffers())
    for scenario in scenarios or filled.scenarios:
        one, two = better[1].accuracies(scenario), worse[1].accuracies(scenario)
        high, low = (printed.value(size, row, where, scenario) for row in (better[0], worse[0]))
        yield Finding(
            text,
            printed.numbered,
            f"{benchmark_name(filled.benchmark)}, buffer {buffer}",
            scenario,
            high.mean - low.mean if high and low else None,
            paired(one, two) if one.keys() & two.keys() else None,
        )


def table(found: Sequence[Finding]) -> Table:
    columns = ("what the paper finds", "where", "scenario", "verdict", "paper", "ours", "p", "pairs")
    rows = []
    for finding in found:
        test = finding.test
        printed = NONE if finding.printed is None else Item(number(finding.printed, sign=True), "paper")
        ours = NONE if test is None else Item(number(test.difference.mean, sign=True), below=interval(test.difference))
        p = NONE if test is None else Item(f"{test.p_flip:.3f}", below=f"least {test.p_least:.3f}")
        rows.append(
            (
                Item(finding.claim, below=finding.label),
                Item(finding.where or "–"),
                Item(SCENARIOS.get(finding.scenario, "–")),
                finding.verdict,
                printed,
                ours,
                p,
                NONE if test is None else Item(str(len(test.seeds))),
            )
        )
    notes = [
        "Differences in percentage points; ours are over common seeds, with the 95% bootstrap interval. p: exact "
        "sign-flip test, two-sided; below it the smallest value that so many pairs can give. Not corrected for the "
        "number of comparisons."
    ]
    counts = [len(finding.test.seeds) for finding in found if finding.test]
    if counts and remark(min(counts)):
        notes.append(f"{remark(min(counts))[0].upper()}{remark(min(counts))[1:]}.")
    named = tuple(Column(name) for name in columns)
    return Table("How the paper's orderings come out here", named, tuple(rows), words=4, notes=tuple(notes))
