"""co2l spaces: list the search spaces that come with the package, or copy one to change it."""

from __future__ import annotations

import argparse
import itertools
import json
import re
from pathlib import Path

from co2l.cli.console import OK, Parser
from co2l.errors import Co2lError, shortened, unknown
from co2l.files import user_path, write_atomic
from co2l.shipped import spaces

EXAMPLE = """\
examples:
  co2l spaces
  co2l spaces --copy seq_digits mine.yaml
  co2l tune --space seq_digits

A name stands for the file wherever a command takes --space FILE; a file of that name in your folder is used instead.
exit codes: 0 done, 2 wrong input"""


def parser() -> argparse.ArgumentParser:
    p = Parser(
        prog="co2l spaces",
        description="List the search spaces that come with the package, or copy one to change it.",
        epilog=EXAMPLE,
    )
    p.add_argument("below", nargs="?", default="", metavar="FOLDER", help="only those below it, as paper/digits")
    p.add_argument("--copy", nargs=2, metavar=("NAME", "FILE"), help="write a copy of one; never over a file")
    p.add_argument("--json", action="store_true", help="print the list as JSON")
    return p


def main() -> int:
    args = parser().parse_args()
    shipped = spaces()
    if args.copy:
        name, target = args.copy[0], user_path(args.copy[1], "--copy")
        if name not in shipped:
            raise unknown("space", name, shipped, where="--copy")
        target = target / f"{Path(name).name}.yaml" if target.is_dir() else target
        if target.exists():
            raise Co2lError("is there already", where=str(target), fix="give another FILE")
        write_atomic(target, shipped[name].read_bytes())
        print(target)
        return OK
    listed = {name: _about(path) for name, path in shipped.items() if _is_below(name, args.below)}
    if not listed:
        raise unknown("folder", args.below, {name.rpartition("/")[0] for name in shipped} - {""}, where="co2l spaces")
    if args.json:
        print(json.dumps([{"name": name, "about": about} for name, about in listed.items()], indent=2))
    else:
        width = max(map(len, listed))
        print("\n".join(f"{name:<{width}}  {about}".rstrip() for name, about in listed.items()))
    return OK


def _is_below(name: str, folder: str) -> bool:
    return f"{name}/".startswith(f"{folder.strip('/')}/") if folder.strip("/") else True


def _about(path: Path) -> str:
    """The first sentence of the comment that every space begins with, after the line with its command."""
    lines = path.read_text(encoding="utf-8").splitlines()[1:]
    comment = itertools.takewhile(lambda line: line.startswith("#"), lines)
    words = " ".join(line.removeprefix("#").strip() for line in comment).strip()
    return shortened(re.split(r"(?<=\w\w)[.;](?=\s|$)", words)[0], 100)
