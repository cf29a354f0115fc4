"""co2l gc: what the store holds, what of it nobody needs any more, and how much deleting that frees."""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from datetime import timedelta
from typing import TYPE_CHECKING

from co2l.cli.arguments import add_storage_arguments, locations_of
from co2l.cli.console import OK, Parser
from co2l.cli.listing import print_rows, size
from co2l.cli.quantities import real

if TYPE_CHECKING:
    from co2l.learning.store import StoredFile
    from co2l.search.garbage import Inventory

KINDS = {"state": "states", "partial": "states within a task", "json": "accuracies"}
EXAMPLE = """\
examples:
  co2l gc
  co2l gc --delete

It only looks, unless --delete is given. Needed is what any trial of any study in the record may read, and what other
records and runs of co2l.train that use the same store may read. What was written in the last day stays in any case.
exit codes: 0 done, 2 wrong input, or a record that cannot be read"""


def parser() -> argparse.ArgumentParser:
    p = Parser(prog="co2l gc", description="Find what nobody needs in a store, and delete it.", epilog=EXAMPLE)
    p.add_argument("--delete", action="store_true", help="delete what is unreachable")
    p.add_argument(
        "--older-than", type=real(0, 36_500), default=1.0, metavar="DAYS", help="only what is so old (default: 1)"
    )
    hint = "a record that is gone for good, or `runs` for all single runs: keep nothing for it; repeatable"
    p.add_argument("--forget", metavar="RECORD", action="append", default=[], help=hint)
    add_storage_arguments(p.add_argument_group("what to look at"))
    p.add_argument("--json", action="store_true", help="print it as JSON")
    return p


def main() -> int:
    args = parser().parse_args()
    from co2l.learning.store import Store
    from co2l.search.garbage import inventory

    where = locations_of(args)
    store = Store(where.store)
    found = inventory(store, where.storage, forget=args.forget, min_age=timedelta(days=args.older_than))
    if args.delete:
        for file in found.garbage:
            store.remove(file)
    freed = sum(file.size for file in found.garbage)
    if args.json:
        print(json.dumps(_document(found, store.root, deleted=args.delete), indent=2))
        return OK
    print(f"store: {store.root}")
    print(f"needed by: {found.studies} studies in {', '.join(found.records)}, {found.runs} single runs")
    print_rows(_rows(found))
    if found.young:
        print(f"{found.young} more files are unreachable but younger than {args.older_than:g} days (--older-than)")
    if not found.garbage:
        print("nothing to delete")
    elif args.delete:
        print(f"deleted: {len(found.garbage)} files, {size(freed)}")
    else:
        print(f"deleting what is unreachable frees {size(freed)}: co2l gc --delete")
    return OK


def _rows(found: Inventory) -> list[dict[str, object]]:
    kinds: dict[str, tuple[list[StoredFile], list[StoredFile]]] = defaultdict(lambda: ([], []))
    unreachable = {file.name for file in found.garbage}
    for file in found.held:
        kinds[KINDS.get(file.kind, "other") if file.is_ours else "other"][file.name in unreachable].append(file)
    return [
        {
            "what": kind,
            "kept": len(kept),
            "size": size(sum(file.size for file in kept)),
            "unreachable": len(garbage),
            "frees": size(sum(file.size for file in garbage)),
        }
        for kind, (kept, garbage) in sorted(kinds.items())
    ]


def _document(found: Inventory, store: str, *, deleted: bool) -> dict[str, object]:
    return {
        "store": store,
        "files": len(found.held),
        "bytes": sum(file.size for file in found.held),
        "unreachable": [file.name for file in found.garbage],
        "frees": sum(file.size for file in found.garbage),
        "young": found.young,
        "studies": found.studies,
        "runs": found.runs,
        "records": found.records,
        "deleted": deleted,
    }
