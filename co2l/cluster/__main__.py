"""python -m co2l.cluster: check a cluster's file before money is spent; run what its head needs beside Ray."""

from __future__ import annotations

import argparse
from pathlib import Path

from co2l.console import OK, execute


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(prog="python -m co2l.cluster", description=__doc__)
    commands = p.add_subparsers(dest="command", required=True, metavar="COMMAND")
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
    from co2l.cluster import services

    folder = args.folder.expanduser().absolute()
    if args.command == "mlflow":
        return services.run_mlflow(args.host, args.port, args.artifacts, args.allowed_hosts, folder)
    print(f"Postgres and MLflow run; drivers find them by {services.serve(folder, args.port)}")
    return OK


if __name__ == "__main__":
    execute(main)
