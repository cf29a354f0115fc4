"""Where the artifacts beside MLflow's SQLite file are: always beside it, even after both were moved or copied.

MLflow writes absolute addresses into its database and offers no way to change them. So ours are brought in line
with the database's own folder whenever it is opened.
"""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

ADDRESSES = (  # by table and column; an experiment's is the folder itself, the others are inside
    ("runs", "artifact_uri"),
    ("model_versions", "source"),
    ("model_versions", "storage_location"),
)


def artifacts_beside(database: Path) -> str:
    """The address of the folder, as MLflow notes it."""
    return (database.parent / "artifacts").as_uri()


def relocate(database: Path, wait: float, to: Path | None = None) -> None:
    """Change what the database says of our experiments' artifacts, if it was written somewhere else.

    `to` is the file that it will be moved to.
    """
    here = artifacts_beside(to or database)
    with contextlib.closing(sqlite3.connect(database, timeout=wait)) as connection:
        ours = "select distinct artifact_location from experiments where name glob 'co2l/*' and artifact_location <> ?"
        for (there,) in connection.execute(ours, [here]).fetchall():
            with connection:  # one transaction
                connection.execute(
                    "update experiments set artifact_location = ? where artifact_location = ?", [here, there]
                )
                for table, column in ADDRESSES:
                    moved = f"update {table} set {column} = ? || substr({column}, ?) where substr({column}, 1, ?) = ?"
                    inside = f"{there}/"
                    connection.execute(moved, [f"{here}/", len(inside) + 1, len(inside), inside])
