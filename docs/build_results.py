"""Write the tables of results in README.md and in docs/ from the numbers in docs/results.json.

python docs/build_results.py                 # after a number in results.json was changed
python docs/build_results.py --record runs   # first read the numbers that have a `record` from studies below `runs`

`commands` says how results came about: the command, its seeds and its scale. `numbers` holds each result once: mean and
standard deviation in percent, n, and where recorded the values by seed. A table or a text stands between the comments
`<!-- results: NAME -->` and `<!-- /results -->`; where it says {NAME:QUANTITY} it shows a number, with `.mean` behind
it only its mean, with `.interval` the 95% t interval of the mean. {ONE > OTHER:QUANTITY} says whether the first is
above the second: the mean of the paired differences over common seeds, with its 95% interval. docs/numbers.md has all.

`protocols` holds what `co2l report --protocols --json` prints of each method and protocol. A table that names their
`benchmark` is that report's section, with its figures beside the page.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import statistics
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
NUMBERS = Path(__file__).with_name("results.json")
REFERENCE = re.compile(r"\{([^{}:]+):(\w+)(\.mean|\.interval)?\}")
DESCRIBES = {"command", "n", "seeds", "record", "by_seed", "trials"}  # a number; the rest of its entry is quantities
ABOVE = " > "


def pages(document: dict[str, Any]) -> dict[Path, str]:
    """Every page with its tables, as they should be."""
    written: dict[Path, str] = {}
    for name, table in document["tables"].items():
        path = ROOT / table["file"]
        text = written.get(path) or path.read_text(encoding="utf-8")
        begin, end = f"<!-- results: {name} -->\n", "<!-- /results -->"
        before, found, rest = text.partition(begin)
        if not found or end not in rest:
            raise SystemExit(f"{table['file']} has no room for the table '{name}'")
        after = rest.partition(end)[2]
        if "benchmark" in table:
            text = protocols(table, document)
        else:
            text = listed(document) if "every" in table else shown(table, document["numbers"])
        written[path] = f"{before}{begin}\n{text}\n{end}{after}"
    return written


def protocols(table: dict[str, Any], document: dict[str, Any], figures: Path | None = None) -> str:
    """What the report says of selection protocols on one benchmark; its figures become files in a folder, if given."""
    from co2l.reporting import markdown
    from co2l.reporting.protocol_tables import sections
    from co2l.reporting.protocols import ProtocolResult
    from co2l.search.tracking.figures import png

    found = map(ProtocolResult.from_dict, document["protocols"].values())
    several = sections(each for each in found if each.benchmark == table["benchmark"])
    for figure in (block for each in several for block in each.figures()):
        if figures:
            (figures / f"{figure.name}.png").write_bytes(png(figure.drawing))
    lines = [line for each in several for line in markdown.section(each, 3, figures="")]
    return "\n".join(lines) or f"Not measured yet: `{table['command']}`\n"


def shown(table: dict[str, Any], numbers: dict[str, Any]) -> str:
    if "printed" in table:
        lines = ["```text", *(filled(line, numbers) for line in table["printed"]), "```"]
    elif "text" in table:
        lines = [filled(line, numbers) for line in table["text"]]
    else:
        rows = [table["head"], ["---"] * len(table["head"]), *table["rows"]]
        lines = [f"|{'|'.join(padded(filled(item, numbers)) for item in row)}|" for row in rows]
    return "\n".join(lines) + "\n"


def padded(item: str) -> str:
    return item if item == "---" else f" {item} " if item else " "


def filled(text: str, numbers: dict[str, Any]) -> str:
    """The text with its numbers."""

    def number(reference: re.Match[str]) -> str:
        name, quantity, part = reference.groups()
        if ABOVE in name:
            one, other = (numbers[each].get("by_seed", {}).get(quantity, {}) for each in name.split(ABOVE))
            return ordering(one, other)
        value = numbers[name].get(quantity)
        if value is None:
            return "not run"
        if isinstance(value, int):
            return str(value)
        if part == ".interval":
            return interval(value, numbers[name]["n"])
        return f"{value[0]:.2f}" if part or len(value) == 1 else f"{value[0]:.2f} ± {value[1]:.2f}"

    return REFERENCE.sub(number, text)


def half_width(deviation: float, n: int) -> float:
    """Half of the 95% t interval of a mean over n seeds."""
    from scipy import stats

    return float(stats.t.ppf(0.975, n - 1)) * deviation / math.sqrt(n)


def interval(value: list[float] | int, n: int) -> str:
    """Of a mean in percent, so that it ends at 0 and at 100."""
    if n < 2 or isinstance(value, int) or len(value) < 2:
        return "–"
    half = half_width(value[1], n)
    return f"{max(value[0] - half, 0):.2f} to {min(value[0] + half, 100):.2f}"


def listed(document: dict[str, Any]) -> str:
    """Every number below the command that measured it, with its seeds, n and interval."""
    lines: list[str] = []
    for name, how in document["commands"].items():
        lines += [f"## {name}", "", f"`{how['command']}`", "", f"{how['scale']}.", ""]
        lines += ["| number | quantity | value | 95% interval | n | seeds |", f"|{'---|' * 6}"]
        for label, number in document["numbers"].items():
            if number["command"] == name:
                seeds = seeds_of(number, how)
                lines += [
                    f"| {label} | {quantity} | {filled(f'{{{label}:{quantity}}}', document['numbers'])} |"
                    f" {interval(value, number.get('n', 1))} | {number.get('n', 1)} | {seeds} |"
                    for quantity, value in number.items()
                    if quantity not in DESCRIBES
                ]
        lines.append("")
    return "\n".join(lines)


def seeds_of(number: dict[str, Any], how: dict[str, str]) -> str:
    """The seeds that a number was measured with: its own, else those of its command."""
    by_seed = next(iter(number.get("by_seed", {}).values()), {})
    if not by_seed:
        return str(number.get("seeds", how["seeds"]))
    seeds = [int(seed) for seed in by_seed]
    together = len(seeds) > 2 and seeds == list(range(seeds[0], seeds[-1] + 1))
    return f"{seeds[0]} to {seeds[-1]}" if together else ", ".join(map(str, seeds))


def ordering(one: dict[str, float], other: dict[str, float]) -> str:
    """Whether `one` is above `other`, by the seeds that both have."""
    differences = [one[seed] - other[seed] for seed in one if seed in other]
    n = len(differences)
    if not n:
        return "not run"
    mean = statistics.fmean(differences)
    if n == 1:
        return f"one pair: {mean:+.2f}"
    half = half_width(statistics.stdev(differences), n)
    verdict = "not distinguishable" if abs(mean) <= half else "appears" if mean > 0 else "does not appear: reversed"
    return f"{verdict}: {mean:+.2f} ({mean - half:+.2f} to {mean + half:+.2f}), n = {n}"


def recorded(document: dict[str, Any], root: Path) -> int:
    """Take what studies below `root` came to, rounded as `evaluate` prints it; how many numbers that were."""
    from co2l.search.record.reader import StudyReader
    from co2l.search.selection.seeds import summarise_seeds

    reader, count = StudyReader(f"sqlite:///{root.absolute()}/study.db"), 0
    for number in document["numbers"].values():
        source = number.get("record", {})
        if source.get("study") in reader.names():
            study = reader.study(source["study"])
            rows = {row.name: row for row in summarise_seeds(study.space, study.entries.values())}
            if (row := rows.get(source["configuration"])) is None:
                continue  # no seed of it is done yet
            number["n"] = len(row.seeds)
            number["by_seed"] = {
                name: {str(seed): round(value, 2) for seed, value in zip(row.seeds, values, strict=True)}
                for name, values in row.accuracies.items()
                if name != "score"
            }
            for name in row.accuracies:
                std = row.std(name)
                number[name] = [round(row.mean(name), 2), *([] if std is None else [round(std, 2)])]
            count += 1
    return count


def of_protocols(root: Path) -> dict[str, Any]:
    """What studies below `root` say of selection protocols, by benchmark, method and protocol."""
    from co2l.reporting.protocol_studies import results
    from co2l.search.record.reader import StudyReader

    found = results(StudyReader(f"sqlite:///{root.absolute()}/study.db"), root=str(root))
    tested = (each for each in found if each.accuracies)
    return {"/".join(filter(None, (x.benchmark, x.method, x.protocol, x.group))): x.as_dict() for x in tested}


def dumped(document: dict[str, Any]) -> str:
    """JSON with a line per number, so that a change is a line."""
    parts = []
    for part, entries in document.items():
        lines = [f"  {json.dumps(name)}: {json.dumps(entry, ensure_ascii=False)}" for name, entry in entries.items()]
        parts.append(f" {json.dumps(part)}: {{\n" + ",\n".join(lines) + "\n }")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--record", metavar="ROOT", type=Path, help="the folder of studies to read numbers from")
    args = p.parse_args()
    document = json.loads(NUMBERS.read_text(encoding="utf-8"))
    if args.record:
        print(f"{recorded(document, args.record)} numbers read from {args.record}")
        document["protocols"] |= of_protocols(args.record)
    NUMBERS.write_text(dumped(document), encoding="utf-8")
    for table in document["tables"].values():
        if args.record and "benchmark" in table:
            protocols(table, document, (ROOT / table["file"]).parent)
    for path, text in pages(document).items():
        path.write_text(text, encoding="utf-8")
        print(path)


if __name__ == "__main__":
    main()
