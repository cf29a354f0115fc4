"""python -m co2l.testing: whether a method, benchmark, encoder or algorithm keeps what all of its kind promise."""

from __future__ import annotations

import argparse
import tempfile
import traceback
from pathlib import Path

from co2l.cli.arguments import add_import_argument, use_imports
from co2l.cli.console import FAILED, OK, Parser, execute
from co2l.errors import Co2lError, headline, unknown
from co2l.plugins import Registry
from co2l.testing import KINDS, promises

EXAMPLE = """\
examples:
  python -m co2l.testing er
  python -m co2l.testing my_method --import my_method.py

A benchmark's data are looked for below $CO2L_DATA, or ./data.
exit codes: 0 all promises are kept, 1 some are broken, 2 wrong input"""


def parser() -> argparse.ArgumentParser:
    p = Parser(
        prog="python -m co2l.testing",
        usage="python -m co2l.testing NAME [options]",
        description="Check that a method, benchmark, encoder or algorithm keeps what all of its kind promise.",
        epilog=EXAMPLE,
    )
    p.add_argument("name", metavar="NAME", help="what to check, by the name that spaces use")
    p.add_argument("--kind", choices=KINDS, help="what it is, if several kinds have the name")
    add_import_argument(p.add_argument_group("where it is"))
    return p


def main() -> int:
    args = parser().parse_args()
    use_imports(args)
    registry = _registry(args.name, args.kind)
    plugin = registry.origin(args.name)
    print(f"{registry.kind} {args.name}{f' ({plugin})' if plugin else ''}", flush=True)
    checks = promises(registry.kind)
    kept = [_kept(name, check, args.name) for name, check in checks.items()]
    print(f"{sum(kept)} of {len(kept)} promises are kept")
    return OK if all(kept) else FAILED


def _registry(name: str, kind: str | None) -> Registry[object]:
    """The one that has the name."""
    from co2l.data.benchmarks import BENCHMARKS
    from co2l.learning.encoders import ENCODERS
    from co2l.learning.methods import METHODS
    from co2l.search.algorithms.registry import ALGORITHMS

    every: list[Registry[object]] = [METHODS, BENCHMARKS, ENCODERS, ALGORITHMS]  # type: ignore[list-item]
    asked = [registry for registry in every if kind in (None, registry.kind)]
    for registry in asked:
        if name in registry:
            return registry
    for registry in asked:
        if name in registry.failed():
            registry.find(name)  # says why
    raise unknown(kind or "name", name, [known for registry in asked for known in registry])


def _kept(promise: str, check: object, name: str) -> bool:
    assert callable(check)
    with tempfile.TemporaryDirectory() as folder:
        try:
            check(name, Path(folder))
        except Exception as error:  # a promise is broken in any way that a stranger's code can
            print(f"  BROKEN  {promise}: {_said(error)}", flush=True)
            return False
    print(f"  kept    {promise}", flush=True)
    return True


def _said(error: Exception) -> str:
    """What is wrong, and the line of the plug-in or of co2l where it shows."""
    if isinstance(error, AssertionError | Co2lError):
        return headline(error)
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {headline(error)} ({Path(last.filename).name}:{last.lineno})"


if __name__ == "__main__":
    execute(main)
