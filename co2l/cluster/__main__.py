"""python -m co2l.cluster: check a cluster's file before money is spent; run what its head needs beside Ray."""

from __future__ import annotations

import argparse
from pathlib import Path

from co2l.console import OK, WRONG_INPUT, Parser, execute

EXAMPLE = """\
examples:
  python -m co2l.cluster check cluster/gpu.yaml --space search_spaces/seq_cifar10.yaml
  python -m co2l.cluster check docker-compose.yml --offline

python -m co2l.cluster COMMAND --help shows a command's flags.
exit codes: 0 done, 2 something is wrong"""


def parser() -> argparse.ArgumentParser:
    p = Parser(
        prog="python -m co2l.cluster",
        description="Check a cluster's file before money is spent; run what its head needs beside Ray.",
        epilog=EXAMPLE,
    )
    commands = p.add_subparsers(dest="command", required=True, metavar="COMMAND")
    check = commands.add_parser("check", help="what is wrong with a cluster's file, and what it needs and does not get")
    check.add_argument("file", type=Path, metavar="FILE", help="as cluster/gpu.yaml")
    check.add_argument("--space", metavar="SPACE", help="whose trials must fit a node (default: 1 CPU each)")
    check.add_argument("--tracking-uri", metavar="URI", help="an MLflow server of your own, if there is one")
    check.add_argument("--address", metavar="URL", help="the dashboard of the cluster if it runs already")
    check.add_argument("--offline", action="store_true", help="look at the file only")
    fetch = commands.add_parser("fetch", help="copy datasets from a bucket or folder to this node")
    fetch.add_argument("--from", dest="source", default="", metavar="URL", help="nothing is copied if it is empty")
    fetch.add_argument("--to", required=True, metavar="FOLDER")
    serve = commands.add_parser("serve", help="on a head: start Postgres and MLflow, both closed to the network")
    serve.add_argument("--folder", type=Path, default=Path("~/co2l"), help="where they keep everything")
    serve.add_argument("--port", type=int, default=5000, help="of MLflow on loopback (default: 5000)")
    mlflow = commands.add_parser("mlflow", help="become an MLflow server with a password, on $CO2L_MLFLOW_DATABASE")
    mlflow.add_argument("--host", default="127.0.0.1")
    mlflow.add_argument("--port", type=int, default=5000)
    mlflow.add_argument(
        "--artifacts", required=True, metavar="URL", help="where artifacts are kept: a folder or bucket"
    )
    mlflow.add_argument("--allowed-hosts", default="", metavar="LIST", help="names by which clients may call it")
    mlflow.add_argument("--folder", type=Path, default=Path(), help="where its configuration goes (default: here)")
    return p


def main() -> int:
    args = parser().parse_args()
    if args.command == "check":
        return _check(args)
    if args.command == "fetch":
        return _fetch(args.source, args.to)
    from co2l.cluster import services

    folder = args.folder.expanduser().absolute()
    if args.command == "mlflow":
        return services.run_mlflow(args.host, args.port, args.artifacts, args.allowed_hosts, folder)
    print(f"Postgres and MLflow run; drivers find them by {services.serve(folder, args.port)}")
    return OK


def _check(args: argparse.Namespace) -> int:
    import os

    from co2l.cluster import check, reach

    cpus, gpus = 1.0, 0.0
    if args.space:
        from co2l.search.space import load

        wanted = load(args.space).resources
        cpus, gpus = wanted.cpus, wanted.gpus
    cluster = check.read(args.file)
    found = list(check.findings(cluster, cpus, gpus))
    if not args.offline:
        tracking = args.tracking_uri or os.environ.get("CO2L_TRACKING_URI")
        found += reach.findings(cluster, tracking, args.address)
    marks = {"ok": "ok", "wrong": "WRONG", "unknown": "-"}
    for each in found:
        print(f"{marks[each.state]:<6} {each.what:<12} {each.text}")
    wrong = sum(each.state == "wrong" for each in found)
    print(f"{wrong} wrong" if wrong else "ready")
    return WRONG_INPUT if wrong else OK


def _fetch(source: str, folder: str) -> int:
    import fsspec

    if source:
        files, root = fsspec.url_to_fs(source)
        if files.exists(root):
            files.get(f"{root.rstrip('/')}/", folder, recursive=True)
        else:
            print(f"{source} does not exist: no datasets are copied")
    return OK


if __name__ == "__main__":
    execute(main)
