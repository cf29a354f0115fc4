"""The example notebook runs from its first cell to its last, and its objects show themselves as tables."""

from __future__ import annotations

import os
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import DeadKernelError

NOTEBOOK = Path(__file__).resolve().parents[2] / "examples" / "first_search.ipynb"


def executed(folder: Path) -> nbformat.NotebookNode:
    folder.mkdir()
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "commit it without outputs"
    NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(folder)}}).execute()
    return notebook


@pytest.mark.timeout(900)
def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(NOTEBOOK.parents[1]), os.environ.get("PYTHONPATH", "")]))
    try:
        notebook = executed(tmp_path / "first")
    except DeadKernelError as error:  # seen once, where Ray started beside two clusters; never alone
        print(f"the kernel died, once more: {error}")
        notebook = executed(tmp_path / "second")
    shown = {
        cell.source: output.data
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if output.output_type in ("execute_result", "display_data")  # plotly displays itself
    }
    tables = {source.rpartition("\n")[2]: data.get("text/html", "") for source, data in shown.items()}
    assert "selected on validation data" in tables["study"]
    assert "<td>4/4 done</td>" in tables["study"]
    assert "<td>first</td>" in tables['co2l.studies("runs")']
    assert (
        "er on seq_digits, seed 0"
        in tables['co2l.run_training("seq_digits", "er", {"epochs": 1}, root="runs", quiet=True)']
    )
    (trial,) = (html for source, html in tables.items() if source.startswith("study.trial("))
    assert "<th>E_0</th><td>2</td>" in trial
    interactive = next(data for source, data in shown.items() if source.startswith("study.interactive"))
    assert "application/vnd.plotly.v1+json" in interactive
