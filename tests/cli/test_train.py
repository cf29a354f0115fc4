"""python -m co2l.train: the same bits each time, quiet in a log, and one clear line for each mistake."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest
from commands import SHORT, call, call_here, refusal_of

SHORTEST = ["--set", "E_0=1", "--set", "E_t=1", "--set", "probe_epochs=1"]


@pytest.mark.e2e
def test_same_command_same_bits_and_the_second_time_from_the_store(tmp_path: Path) -> None:
    first = call_here("co2l.train", *SHORT, "--json", "--root", "a", cwd=tmp_path)
    other = call("co2l.train", *SHORT, "--json", "--root", "b", cwd=tmp_path)  # in another process
    assert (first.returncode, other.returncode) == (0, 0), first.stderr + other.stderr
    assert json.loads(first.stdout) == json.loads(other.stdout)
    again = call_here("co2l.train", *SHORT, "--root", "a", cwd=tmp_path)
    assert again.stderr.count("from the store") == 5
    (saved,) = (tmp_path / "a" / "results").glob("*.json")
    assert json.loads(saved.read_text()) == json.loads(first.stdout)


def test_a_log_has_no_control_characters_and_few_lines(tmp_path: Path) -> None:
    done = call_here("co2l.train", *SHORTEST, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert not [c for c in done.stderr + done.stdout if ord(c) < 32 and c != "\n"]
    assert done.stderr.count("\n") < 30
    assert "Class-IL" in done.stdout
    assert "Task-IL" in done.stdout


def test_verbose_has_a_line_for_every_epoch(tmp_path: Path) -> None:
    done = call_here("co2l.train", *SHORTEST, "--verbose", cwd=tmp_path)
    lines = [line for line in done.stderr.splitlines() if " · lr " in line]
    assert [line.partition(" · supcon ")[0] for line in lines] == [f"task {t}/5 · epoch 1/1" for t in range(1, 6)]


def test_quiet_and_json(tmp_path: Path) -> None:
    done = call_here("co2l.train", *SHORTEST, "--quiet", "--json", cwd=tmp_path)
    assert done.stderr == ""
    assert set(json.loads(done.stdout)) == {"config", "key", "result", "versions"}


MISTAKES = [
    (["--benchmark", "seq_digit"], "unknown benchmark 'seq_digit'; did you mean 'seq_digits'?"),
    (["--method", "co2"], "unknown method 'co2'; did you mean 'co2l'?"),
    (["--set", "kapa=0.1"], "--set: unknown setting 'kapa'; did you mean 'kappa'?"),
    (["--set", "kappa"], "--set: 'kappa' is not key=value"),
    (["--set", "eta=fast"], "eta: input should be a valid number"),
    (["--set", "tau=0"], "tau: input should be greater than 0"),
    (["--set", "buffer_size=5"], "buffer_size=5 is smaller than the 10 classes"),
    (["--set", "batch_size=100000"], "batch_size=100000 is larger than the first task"),
    (["--validation", "1.5"], "--validation: '1.5' is not a number from 0 to 1"),
    (["--device", "cuda:9"], "device 'cuda:9' cannot be used"),
    (["--device", "meta"], "device 'meta' cannot be used: it holds no numbers"),
    (["--device", "privateuseone"], "device 'privateuseone' cannot be used"),
    (["--benchmark", "seq_cifar10", "--data", "nowhere"], "CO2L_DATA"),
    (["--benchmark", "seq_tiny_imagenet", "--data", "nowhere"], "tiny-imagenet-200"),
    (["--root", "nosuch://store"], "store"),
]


def mistake(*arguments: str, cwd: Path) -> str:
    """The one line that answers it."""
    return refusal_of(call_here("co2l.train", *arguments, cwd=cwd))


@pytest.mark.parametrize(("arguments", "message"), MISTAKES, ids=lambda value: str(value)[:40])
def test_a_mistake_is_one_line(arguments: list[str], message: str, tmp_path: Path) -> None:
    assert message in mistake(*arguments, cwd=tmp_path)


def test_a_corrupt_archive(tmp_path: Path) -> None:
    file = tmp_path / "tiny-imagenet-200.zip"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("tiny-imagenet-200/wnids.txt", "n1\n" * 200)
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])
    assert file.name in mistake("--benchmark", "seq_tiny_imagenet", "--data", ".", cwd=tmp_path)
