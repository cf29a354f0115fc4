"""python -m co2l.evaluate: the only door to test data: one configuration, the full training set, several seeds."""

from __future__ import annotations

import argparse

from co2l.console import INTERRUPTED, OK, add_run_arguments, execute

EXAMPLE = """\
example:
  python -m co2l.train --benchmark seq_digits
  python -m co2l.evaluate --config runs/results/seq_digits-co2l-search-seed0-….json --seeds 5

FILE is YAML or JSON with benchmark, method and settings; a result of co2l.train is one. The same command again
continues, or answers from what is stored.
exit codes: 0 done, 2 wrong input or data, 130 interrupted (state saved)"""


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(
        prog="python -m co2l.evaluate",
        description="Train a chosen configuration on the full training set and test it.",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument("--config", required=True, metavar="FILE", help="the configuration to test")
    p.add_argument("--set", metavar="KEY=VALUE", action="append", default=[], help="change a setting; repeatable")
    p.add_argument("--seeds", type=int, default=10, metavar="N", help="seeds 0 to N-1 (default: 10)")
    add_run_arguments(p)
    return p


def main() -> int:
    args = parser().parse_args()
    # torch takes seconds to import: --help and argument errors do not wait for it
    from co2l.data.streams import Split
    from co2l.errors import Co2lError
    from co2l.learning.config import parse_assignments
    from co2l.learning.methods import configure
    from co2l.learning.results import load_configuration
    from co2l.progress import print_evaluation
    from co2l.single import InterruptedRunError, run_here

    if args.seeds < 1:
        raise Co2lError(f"--seeds is {args.seeds}", fix="give at least 1")
    chosen = load_configuration(args.config)
    settings = {**chosen.settings, **parse_assignments(args.set)}
    results = []
    for seed in range(args.seeds):
        config = configure(
            chosen.benchmark, chosen.method, settings, seed=seed, split=Split("evaluation"), where=args.config
        )
        try:
            result, _ = run_here(
                config,
                data=args.data,
                root=args.root,
                device=args.device,
                save_every=args.save_every,
                quiet=args.quiet or args.json,
            )
        except InterruptedRunError:
            return INTERRUPTED
        results.append((config, result))
    print_evaluation(results, as_json=args.json)
    return OK


if __name__ == "__main__":
    execute(main)
