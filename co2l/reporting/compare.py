"""Two configurations over their common seeds: the paired test behind `--compare`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from co2l.errors import Co2lError
from co2l.learning.config import parse_assignments
from co2l.learning.metrics import SCENARIOS
from co2l.reporting.evaluated import Evaluated, differing, evaluated
from co2l.reporting.formatting import interval, number, spread
from co2l.reporting.statistics import Paired, Summary, paired, remark
from co2l.search.record.reader import StudyReader
from co2l.search.space.naming import named


@dataclass(frozen=True)
class Comparison:
    scenario: str
    a: Summary  # over all seeds of a, common or not
    b: Summary
    test: Paired

    def as_dict(self) -> dict[str, Any]:
        difference = self.test.difference
        return {
            "scenario": self.scenario,
            "a": {"mean": self.a.mean, "std": self.a.std, "n": self.a.n},
            "b": {"mean": self.b.mean, "std": self.b.std, "n": self.b.n},
            "seeds": list(self.test.seeds),
            "difference": {"mean": difference.mean, "std": difference.std, "interval": difference.interval},
            "p_sign_flip": self.test.p_flip,
            "p_least": self.test.p_least,
            "t": self.test.t,
            "p_t": self.test.p_t,
            "remark": remark(len(self.test.seeds)),
        }


def find(reader: StudyReader, wanted: str) -> Evaluated:
    """The one configuration that `NAME` or `NAME:key=value,…` matches."""
    name, _, conditions = wanted.partition(":")
    if f"{name}.test" in reader.names():
        name = f"{name}.test"
    study = reader.study(name)
    if study.kind != "evaluation":
        fix = f"evaluate it first: python -m co2l.evaluate --study {name}"
        raise Co2lError(f"'{name}' is a search, which has no test results", where="--compare", fix=fix)
    values = parse_assignments([each for each in conditions.split(",") if each], where="--compare")
    everything = evaluated([study])
    for key in values:
        if everything and key not in everything[0].settings:
            raise Co2lError(f"'{key}' is not a setting", where=f"--compare {wanted}", fix="see `space` in the study")
    found = [each for each in everything if all(each.settings.get(key) == value for key, value in values.items())]
    if not found:
        what = "no finished configuration matches" if everything else f"'{name}' has no finished seed"
        raise Co2lError(what, where=f"--compare {wanted}", fix=_choices(everything) or "run co2l.evaluate first")
    if len(found) > 1:
        what = f"{len(found)} configurations match"
        raise Co2lError(what, where=f"--compare {wanted}", fix=_choices(found))
    return found[0]


def _choices(several: list[Evaluated]) -> str:
    """The settings that distinguish them, as you would type them."""
    apart = differing(several)
    values = {name: " or ".join(sorted({str(each.settings[name]) for each in several})) for name in apart}
    listed = named(values, separator="; ")
    return f"write NAME:key=value,… with {listed}" if listed else ""


def compare(a: Evaluated, b: Evaluated) -> list[Comparison]:
    """A comparison for each scenario."""
    if a.benchmark != b.benchmark:
        what = f"one is on {a.benchmark}, the other on {b.benchmark}"
        raise Co2lError(what, where="--compare", fix="compare configurations of one benchmark")
    return [
        Comparison(name, a.summary(name), b.summary(name), paired(a.accuracies(name), b.accuracies(name)))
        for name in a.scenarios
    ]


def lines(names: tuple[str, str], found: list[Comparison]) -> list[str]:
    """The comparison as the command prints it."""
    said = [f"A = {names[0]}", f"B = {names[1]}"]
    for each in found:
        test = each.test
        difference = f"{number(test.difference.mean, sign=True)} {interval(test.difference)}".rstrip()
        said.append(f"{SCENARIOS[each.scenario]}: A {spread(each.a)} (n={each.a.n}), B {spread(each.b)} (n={each.b.n})")
        said.append(f"  A − B over {len(test.seeds)} common seeds: {difference} percentage points")
        t = f"; paired t = {test.t:.2f}, p = {test.p_t:.3f}" if test.t is not None and test.p_t is not None else ""
        said.append(f"  sign-flip test p = {test.p_flip:.3f} (with so many pairs, at least {test.p_least:.3f}){t}")
    if found and (warning := remark(len(found[0].test.seeds))):
        said.append(warning)
    return said
