"""python -m co2l.protocols: search under every selection protocol, test what each selects, compare them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from co2l.cli.arguments import add_engine_arguments, add_import_argument, study_of, use_imports
from co2l.cli.console import INTERRUPTED, OK, Parser, execute
from co2l.cli.quantities import COUNT, whole
from co2l.data.root import data_below
from co2l.errors import Co2lError

EXAMPLE = """\
example:
  python -m co2l.protocols --space search_spaces/protocols/seq_digits/er.yaml --seeds 5 --orders 3

Studies are called after the space and the protocol, as protocols-seq_digits-er-greedy; below one --root they share
stages. A space whose own protocol is a transfer is searched under that too. Run the same command again to continue.
exit codes: 0 done, 1 some trials failed or nothing could be selected, 2 wrong input or data, 130 interrupted"""


@dataclass(frozen=True)
class Protocol:
    study: str
    tune: list[str]  # the arguments of `co2l.tune`
    orders: bool  # whether it is tested in several orders of classes


def parser() -> argparse.ArgumentParser:
    p = Parser(
        prog="python -m co2l.protocols",
        usage="python -m co2l.protocols --space FILE [--space FILE …] [options]",
        description="Search spaces under every selection protocol, test what each selects, and compare them.",
        epilog=EXAMPLE,
    )
    _add_own(p.add_argument_group("what to search and test"))
    add_engine_arguments(p)
    return p


def _add_own(what: argparse._ActionsContainer) -> None:
    what.add_argument("--space", metavar="FILE", action="append", default=[], help="search space; repeatable")
    what.add_argument("--first-k", type=COUNT, default=2, metavar="K", help="tasks that first_k learns (default: 2)")
    what.add_argument("--beam", type=COUNT, default=1, metavar="N", help="states that greedy keeps (default: 1)")
    what.add_argument("--seeds", type=whole(1, 10_000), default=5, metavar="N", help="test seeds 0 to N-1 (default: 5)")
    what.add_argument("--orders", type=whole(1, 10_000), default=3, metavar="N", help="class orders (default: 3)")
    what.add_argument("--plan", action="store_true", help="print what the searches would cost, and stop")
    add_import_argument(what)


def main(arguments: Sequence[str] | None = None) -> int:
    """Those of the command line, unless some are given."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    args = parser().parse_args(given)
    if not args.space:
        raise Co2lError("no space is given", fix="add --space FILE, such as search_spaces/protocols/seq_digits/er.yaml")
    ours = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    _add_own(ours)
    shared = [*ours.parse_known_args(given)[1], *(word for path in args.imports for word in ("--import", path))]
    from co2l import evaluate, report, tune

    codes = [OK]
    with ExitStack() as held:
        with data_below(args.data):
            planned = [protocol for path in args.space for protocol in _protocols(path, args)]
        for protocol in planned:  # all of them before the first one trains for hours
            tune.check([*protocol.tune, *shared])
        if not args.plan and args.address is None:
            from co2l.search.running.engine import connected

            held.enter_context(connected(None))  # one Ray for all of them
        for protocol in planned:
            codes.append(tune.main([*protocol.tune, *(["--plan"] if args.plan else []), *shared]))
            if codes[-1] == OK and not args.plan:
                orders = ["--orders", str(args.orders)] if protocol.orders else []
                codes.append(evaluate.main(["--study", protocol.study, "--seeds", str(args.seeds), *orders, *shared]))
            if codes[-1] == INTERRUPTED:
                break
    if not args.plan and codes[-1] != INTERRUPTED:
        codes.append(report.main(_compared(planned, args)))
    return max(codes)


def _compared(planned: Sequence[Protocol], args: argparse.Namespace) -> list[str]:
    """The arguments of `co2l.report`: where the studies are, and their names."""
    where = {"--root": args.root, "--storage": args.storage, "--tracking-uri": args.tracking_uri, "--store": args.store}
    given = [word for name, value in where.items() if value is not None for word in (name, value)]
    imports = [word for path in args.imports for word in ("--import", path)]
    studies = [word for each in planned for word in ("--study", each.study)]
    return ["--protocols", *studies, *given, *imports, *(["--json"] if args.json else [])]


def _protocols(path: str, args: argparse.Namespace) -> Iterator[Protocol]:
    """The cheapest first; what a later one needs of their stages it finds in the store."""
    from co2l.data.benchmarks import benchmark
    from co2l.search.space.space import load

    use_imports(args)
    space, name = load(path), study_of(path)
    own = space.selection.protocol
    if own.name not in ("end", "transfer"):
        fix = "leave it out, or give a transfer"
        raise Co2lError(f"says {own} itself", where=f"{path}: selection.protocol", fix=fix)
    has_orders = benchmark(space.benchmark).scenario == "class"
    for said in (f"first_k={args.first_k}", f"greedy={args.beam}", "end"):
        yield Protocol(f"{name}-{said.partition('=')[0]}", ["--space", path, "--protocol", said], has_orders)
    if own.transfer:
        there = benchmark(own.transfer.to).scenario == "class"
        yield Protocol(f"{name}-transfer", ["--space", path, "--study", f"{name}-transfer"], there)


if __name__ == "__main__":
    execute(main)
