"""python -m co2l.cluster: check a cluster's file, submit to Slurm, test a machine, run the head's services."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from co2l import shipped
from co2l.cli.console import OK, WRONG_INPUT, Parser, execute
from co2l.cli.quantities import whole
from co2l.errors import Co2lError, OutsideError, headline, url_shown
from co2l.files import file_system, user_path

if TYPE_CHECKING:
    from co2l.cluster.check import Finding

EXAMPLE = """\
examples:
  python -m co2l.cluster check cluster/gpu.yaml --space search_spaces/seq_cifar10.yaml
  python -m co2l.cluster check docker-compose.yml --offline
  python -m co2l.cluster selftest
  python -m co2l.cluster slurm --space search_spaces/seq_cifar10.yaml --nodes 2 --gpus-per-node 4 --time 08:00:00

Use python -m co2l.cluster COMMAND --help to see a command's flags.
exit codes: 0 done, 2 something is wrong"""


def parser() -> argparse.ArgumentParser:
    p = Parser(
        prog="python -m co2l.cluster",
        description="Check a cluster's file, submit to Slurm, test a machine, run the head's services.",
        epilog=EXAMPLE,
    )
    commands = p.add_subparsers(dest="command", required=True, metavar="COMMAND")
    check = commands.add_parser("check", help="find mistakes in a cluster's file, and anything it needs but lacks")
    check.add_argument("file", type=Path, metavar="FILE", help="such as cluster/gpu.yaml")
    check.add_argument("--space", metavar="SPACE", help="the space whose trials must fit a node (default: 1 CPU each)")
    check.add_argument("--tracking-uri", metavar="URI", help="your own MLflow server, if there is one")
    check.add_argument("--address", metavar="URL", help="the cluster's dashboard, if it is already running")
    check.add_argument("--offline", action="store_true", help="check only the file")
    selftest = commands.add_parser("selftest", help="on a new machine: is it exact, fast and as large as we think?")
    selftest.add_argument("--device", default="auto", help="auto, or a torch device such as cuda (default: auto)")
    selftest.add_argument("--json", action="store_true", help="print the outcomes as JSON")
    slurm = commands.add_parser("slurm", help="submit a search to Slurm; flags that are not below are co2l.tune's")
    slurm.add_argument("--space", required=True, metavar="FILE", help="search space")
    slurm.add_argument("--file", type=Path, metavar="FILE", help="the script (default: cluster/slurm.sh)")
    slurm.add_argument("--partition", metavar="NAME", help="instead of the script's; so are the following")
    slurm.add_argument("--nodes", metavar="N", help="of the search's own job; 0: it only drives the workers")
    slurm.add_argument("--gpus-per-node", metavar="N")
    slurm.add_argument("--cpus-per-task", metavar="N", help="CPUs of each node")
    slurm.add_argument("--time", metavar="LIMIT", help="of each job; they continue after it")
    slurm.add_argument(
        "--workers", type=whole(0, 10_000), default=0, metavar="N", help="one-node jobs that join and leave"
    )
    copy = commands.add_parser(
        "copy", help="write the files that come with the package: gpu.yaml, slurm.sh, Dockerfile, …"
    )
    copy.add_argument("--to", type=Path, default=Path("cluster"), metavar="FOLDER", help="a new one (default: cluster)")
    fetch = commands.add_parser("fetch", help="copy datasets from a bucket or folder to this node")
    fetch.add_argument("--from", dest="source", default="", metavar="URL", help="copy nothing if empty")
    fetch.add_argument("--to", required=True, metavar="FOLDER")
    serve = commands.add_parser("serve", help="on a head: start Postgres and MLflow, both closed to the network")
    serve.add_argument("--folder", type=Path, default=Path("~/co2l"), help="where they store everything")
    serve.add_argument("--port", type=whole(1, 65_535), default=5000, help="MLflow's port on loopback (default: 5000)")
    mlflow = commands.add_parser("mlflow", help="run an MLflow server with a password, on $CO2L_MLFLOW_DATABASE")
    mlflow.add_argument("--host", default="127.0.0.1")
    mlflow.add_argument("--port", type=whole(1, 65_535), default=5000)
    mlflow.add_argument(
        "--artifacts", required=True, metavar="URL", help="where to store artifacts: a folder or bucket"
    )
    mlflow.add_argument("--allowed-hosts", default="", metavar="LIST", help="host names that clients may use")
    mlflow.add_argument("--folder", type=Path, default=Path(), help="folder for its configuration (default: here)")
    return p


def main() -> int:
    if sys.argv[1:2] == ["slurm-task"]:  # on a node; its words are those of co2l.tune or co2l.evaluate
        from co2l.cluster import slurm_task

        return slurm_task.main(sys.argv[2:])
    if sys.argv[1:2] == ["slurm-look"] and sys.argv[2:]:
        from co2l.cluster import slurm_check

        slurm_check.look(Path(sys.argv[2]))
        return OK
    if sys.argv[1:2] == ["slurm"]:
        return _slurm(*parser().parse_known_args())
    args = parser().parse_args()
    if args.command == "check":
        return _check(args)
    if args.command == "selftest":
        return _selftest(args)
    if args.command == "copy":
        return _copy(user_path(args.to, "--to"))
    if args.command == "fetch":
        return _fetch(args.source, args.to)
    from co2l.cluster import services

    folder = user_path(args.folder, "--folder").absolute()
    if args.command == "mlflow":
        return services.run_mlflow(args.host, args.port, args.artifacts, args.allowed_hosts, folder)
    print(f"Postgres and MLflow are running; drivers find them through {services.serve(folder, args.port)}")
    return OK


def _check(args: argparse.Namespace) -> int:
    import os

    from co2l.cluster import check, reach

    cpus, gpus, needed = 1.0, 0.0, None
    if args.space:
        from co2l.search.space.memory import memory
        from co2l.search.space.space import load

        space = load(args.space)
        cpus, gpus = space.resources.cpus, space.resources.gpus
        needed = memory(space) if gpus else None
    if args.file.suffix == ".sh":
        found = list(_slurm_findings(args, cpus, gpus))
    else:
        cluster = check.read(args.file)
        found = list(check.findings(cluster, cpus, gpus, needed))
        if not args.offline:
            tracking = args.tracking_uri or os.environ.get("CO2L_TRACKING_URI")
            found += reach.findings(cluster, tracking, args.address)
    marks = {"ok": "ok", "wrong": "WRONG", "unknown": "-"}
    for each in found:
        print(f"{marks[each.state]:<6} {each.what:<12} {each.text}")
    wrong = sum(each.state == "wrong" for each in found)
    print(f"{wrong} wrong" if wrong else "ready")
    return WRONG_INPUT if wrong else OK


def _selftest(args: argparse.Namespace) -> int:
    import os

    os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # before torch is loaded: its profiler greets on stderr
    from co2l.cluster.selftest import selftest
    from co2l.learning.device import choose_device

    marks = {"ok": "ok", "wrong": "WRONG", "not run": "-"}
    outcomes = []
    for outcome in selftest(choose_device(args.device)):
        outcomes.append(outcome)
        if not args.json:
            print(f"{marks[outcome.state]:<6} {outcome.what:<12} {outcome.text}", flush=True)
    wrong, missed = (sum(each.state == state for each in outcomes) for state in ("wrong", "not run"))
    if args.json:
        print(json.dumps([outcome.as_dict() for outcome in outcomes], indent=2))
    else:
        print(f"{wrong} wrong" if wrong else f"all right, {missed} not run" if missed else "all right")
    return WRONG_INPUT if wrong else OK


def _slurm_findings(args: argparse.Namespace, cpus: float, gpus: float) -> Iterator[Finding]:
    from co2l.cluster import slurm_check

    longest = None
    if args.space:
        from co2l.search.space.plan import longest_stage
        from co2l.search.space.space import load

        longest = longest_stage(load(args.space))
    return slurm_check.findings(args.file, args.space, slurm_check.Trial(cpus, gpus, longest), offline=args.offline)


def _slurm(args: argparse.Namespace, rest: list[str]) -> int:
    from co2l.cluster.slurm_script import SHIPPED, submit

    names = ("partition", "nodes", "gpus_per_node", "cpus_per_task", "time")
    changes = {name.replace("_", "-"): value for name in names if (value := getattr(args, name)) is not None}
    done = submit(args.file or SHIPPED, changes, ["--space", args.space, *rest], args.workers)
    jobs = f"{done.search} {done.workers}".strip()
    print(f"submitted: {done.name}, job {done.search}" + (f", workers {done.workers}" if done.workers else ""))
    print(f"follow it with: tail -F {done.log}\nstop it with: scancel {jobs}; submit it again to continue")
    return OK


def _copy(folder: Path) -> int:
    if folder.exists():
        raise Co2lError("is there already", where=str(folder), fix="give a new folder with --to")
    shutil.copytree(shipped.folder("cluster"), folder)
    print("\n".join(sorted(str(path) for path in folder.rglob("*") if path.is_file())))
    return OK


def _fetch(source: str, folder: str) -> int:
    if source:
        files, root = file_system(source, "source")
        try:
            if files.exists(root):
                files.get(f"{root.rstrip('/')}/", folder, recursive=True)
            else:
                print(f"{url_shown(source)} does not exist; no datasets copied")
        except Exception as error:  # remote file systems raise any kind if the network is lost
            raise OutsideError(f"cannot be copied: {headline(error)}", where=source) from error
    return OK


if __name__ == "__main__":
    execute(main)
