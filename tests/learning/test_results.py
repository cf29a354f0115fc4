"""A saved result holds the configuration it came from, and can be read back as one."""

from __future__ import annotations

import json
from pathlib import Path

import fsspec
import pytest
from small_runs import short

from co2l.errors import Co2lError
from co2l.learning.events import Result
from co2l.learning.results import load_configurations, save_result

RESULT = Result(
    {"class_il": [60.0, 80.0], "task_il": [90.0, 100.0]}, {"class_il": [[90.0], [60.0, 80.0]]}, "ab12", "paper", "fast"
)


@pytest.mark.parametrize("remote", [True, False])
def test_a_saved_result_is_a_configuration(tmp_path: Path, remote: bool) -> None:
    config = short("er", seed=3, eta=0.07)
    path = save_result("memory://saved" if remote else str(tmp_path), config, RESULT)
    with fsspec.open(path) as file:
        document = json.load(file)
    assert document["key"] == config.key
    assert document["result"]["score"] == (70 + 95) / 2
    assert document["result"]["forgetting"] == {"class_il": 30}
    (tmp_path / "copy.json").write_text(json.dumps(document))
    (chosen,) = load_configurations(str(tmp_path / "copy.json"))
    assert (chosen.benchmark, chosen.method) == ("seq_digits", "er")
    assert chosen.settings == config.settings.model_dump()


def test_a_folder_holds_nothing_but_results(tmp_path: Path) -> None:
    paths = {save_result(str(tmp_path), short(seed=seed), RESULT) for seed in (0, 1, 1)}
    assert {str(path) for path in (tmp_path / "results").iterdir()} == paths
    assert len(paths) == 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xff\xfe\x00", "it is not text"),
        (b"a: [", "not valid YAML in line 1"),
        (b"method: er", "benchmark: field"),
    ],
)
def test_a_file_that_is_no_configuration_is_refused_in_one_line(tmp_path: Path, content: bytes, message: str) -> None:
    file = tmp_path / "file.yaml"
    file.write_bytes(content)
    with pytest.raises(Co2lError) as raised:
        load_configurations(str(file))
    assert message in str(raised.value)
    assert str(raised.value).startswith(f"{file}: ")
    assert "\n" not in str(raised.value)
