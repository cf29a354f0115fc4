"""Write docs/api.md, the reference of the public names and the commands, from docstrings and argument parsers.

python docs/build_api.py
"""

from __future__ import annotations

import argparse
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path

import co2l
from co2l.commands import COMMANDS, module_of

PAGE = Path(__file__).with_name("api.md")
REACHABLE = (
    "co2l.reporting.notebook.Study",
    "co2l.reporting.notebook.Studies",
    "co2l.reporting.stored_trial.StudyTrial",
    "co2l.reporting.summary.StudySummary",
    "co2l.reporting.trained_run.TrainedRun",
    "co2l.errors.Co2lError",
)  # what public functions return and raise

HEAD = """\
# API reference

<!-- Written by docs/build_api.py from the docstrings and parsers; edit those. -->

The public names, and the flags of every command; `co2l NAME` is another way to type `python -m co2l.NAME`.
Anything else may change between versions.
"""


def page() -> str:
    parts = [HEAD, "## Python\n"]
    parts += [part for name in co2l.__all__ for part in entry(f"co2l.{name}")]
    parts += [part for name in REACHABLE for part in entry(name)]
    parts += ["## Commands\n", *(part for name in COMMANDS for part in command(name))]
    return "\n".join(parts)


def entry(path: str) -> Iterator[str]:
    """A function, a class with its public methods, or a constant."""
    module, _, name = path.rpartition(".")
    thing = getattr(importlib.import_module(module), name)
    if inspect.isclass(thing):
        yield f"### class `{path}`\n\n{documented(thing)}\n"
        for method, value in vars(thing).items():
            if not method.startswith("_") and (inspect.isfunction(value) or isinstance(value, property)):
                yield f"#### `{member(method, value)}`\n\n{documented(value)}\n"
    elif callable(thing):
        yield f"### `{path}{inspect.signature(thing)}`\n\n{documented(thing)}\n".replace("'", "")
    else:
        yield f"### `{path}`\n\n`{thing!r}`\n"


def member(name: str, value: object) -> str:
    if isinstance(value, property):
        return name
    assert inspect.isfunction(value)
    signature = inspect.signature(value)
    own = signature.replace(parameters=[each for each in signature.parameters.values() if each.name != "self"])
    return f"{name}{own}".replace("'", "")


def documented(thing: object) -> str:
    text = inspect.getdoc(thing)
    if not text:
        raise SystemExit(f"{thing} is public and has no docstring")
    return text


def command(name: str) -> Iterator[str]:
    yield from described(importlib.import_module(module_of(name)).parser(), "###")


def described(parser: argparse.ArgumentParser, level: str) -> Iterator[str]:
    yield f"{level} `{parser.prog}`\n"
    if parser.description:
        yield f"{parser.description}\n"
    below = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if rows := [row for action in parser._actions if action not in below for row in flags(action)]:
        yield "\n".join(["| flag | meaning |", "|---|---|", *rows, ""])
    for action in below:
        helped = {each.dest: each.help for each in action._choices_actions}
        for name, sub in action.choices.items():
            sub.description = sub.description or f"{helped[name][:1].upper()}{helped[name][1:]}."
            yield from described(sub, f"{level}#")
    if parser.epilog:
        yield f"```text\n{parser.epilog}\n```\n"


def flags(action: argparse.Action) -> Iterator[str]:
    """One row of the table; --help is on every command and needs none."""
    if isinstance(action, argparse._HelpAction):
        return
    name = " ".join(filter(None, [", ".join(action.option_strings), value(action)]))
    meaning = action.help or ("required" if action.required else f"default: {action.default}")
    yield f"| `{name}` | {meaning} |"


def value(action: argparse.Action) -> str:
    """What follows a flag."""
    if action.nargs == 0:
        return ""
    if action.choices:
        return r"\|".join(map(str, action.choices))
    names = action.metavar or action.dest.upper()
    shown = names if isinstance(names, str) else " ".join(names)
    return f"[{shown}]" if action.nargs == "?" else shown


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(PAGE)
