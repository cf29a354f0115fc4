"""python -m co2l.train: exact through kills and Ctrl-C, quiet in a log, and one clear line for each mistake."""

from __future__ import annotations

import contextlib
import json
import random
import resource
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest
from commands import SHORT, call, environment, start


def weights(stdout: str) -> str:
    return json.loads(stdout)["result"]["weights"]


def test_same_command_same_bits_and_the_second_time_from_the_store(tmp_path: Path) -> None:
    first = call("co2l.train", *SHORT, "--json", "--root", "a", cwd=tmp_path)
    other = call("co2l.train", *SHORT, "--json", "--root", "b", cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    assert json.loads(first.stdout) == json.loads(other.stdout)
    again = call("co2l.train", *SHORT, "--root", "a", cwd=tmp_path)
    assert again.stderr.count("from the store") == 5
    (saved,) = (tmp_path / "a" / "results").glob("*.json")
    assert json.loads(saved.read_text()) == json.loads(first.stdout)


LONGER = ["--set", "E_0=15", "--set", "E_t=12", "--set", "probe_epochs=3"]


def wait_for_a_new_state(root: Path, since: float, process: subprocess.Popen[str]) -> None:
    """Until the process has computed something of its own, or has ended."""
    while process.poll() is None:
        for path in [*root.rglob("*.partial"), *root.rglob("*.state")]:
            with contextlib.suppress(FileNotFoundError):  # a partial state is replaced all the time
                if path.stat().st_mtime > since:
                    return
        time.sleep(0.01)


def test_killed_ten_times_and_continued(tmp_path: Path) -> None:
    """SIGKILL at ten random moments of the computation; the same command each time; the same bits at the end."""
    undisturbed = call("co2l.train", *LONGER, "--json", "--root", "through", cwd=tmp_path)
    rng = random.Random(1)
    for _ in range(10):
        since = time.time()
        process = start("co2l.train", *LONGER, "--save-every", "0.02", "--root", "killed", cwd=tmp_path)
        wait_for_a_new_state(tmp_path / "killed", since, process)
        time.sleep(rng.uniform(0, 0.25))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert process.returncode == -signal.SIGKILL, "it ended before it could be killed: make the run longer"
    result = call("co2l.train", *LONGER, "--json", "--root", "killed", cwd=tmp_path)
    assert json.loads(result.stdout) == json.loads(undisturbed.stdout)


def test_ctrl_c_leaves_a_state_to_continue_from(tmp_path: Path) -> None:
    undisturbed = call("co2l.train", *LONGER, "--json", "--root", "through", cwd=tmp_path)
    since = time.time()
    process = start("co2l.train", *LONGER, "--save-every", "0.02", "--root", "left", cwd=tmp_path)
    wait_for_a_new_state(tmp_path / "left", since, process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "the same command continues from it" in err
    assert "Traceback" not in err
    assert list((tmp_path / "left").rglob("*.partial"))
    result = call("co2l.train", *LONGER, "--json", "--root", "left", cwd=tmp_path)
    assert json.loads(result.stdout) == json.loads(undisturbed.stdout)


def test_a_log_has_no_control_characters_and_few_lines(tmp_path: Path) -> None:
    done = call("co2l.train", *SHORT, cwd=tmp_path)
    assert not [c for c in done.stderr + done.stdout if ord(c) < 32 and c != "\n"]
    assert done.stderr.count("\n") < 30
    assert "Class-IL" in done.stdout
    assert "Task-IL" in done.stdout


def test_quiet_and_json(tmp_path: Path) -> None:
    done = call("co2l.train", *SHORT, "--quiet", "--json", cwd=tmp_path)
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
    (["--validation", "1.5"], "validation fraction"),
    (["--device", "cuda:9"], "device 'cuda:9' cannot be used"),
    (["--benchmark", "seq_cifar10", "--data", "nowhere"], "CO2L_DATA"),
    (["--benchmark", "seq_tiny_imagenet", "--data", "nowhere"], "tiny-imagenet-200"),
    (["--root", "nosuch://store"], "store"),
]


@pytest.mark.parametrize(("arguments", "message"), MISTAKES, ids=lambda value: str(value)[:40])
def test_a_mistake_is_one_line(arguments: list[str], message: str, tmp_path: Path) -> None:
    done = call("co2l.train", *arguments, cwd=tmp_path)
    lines = [line for line in done.stderr.splitlines() if line.startswith("co2l: ")]
    assert done.returncode == 2
    assert len(lines) == 1, done.stderr
    assert message in lines[0]
    assert "Traceback" not in done.stderr


def test_a_corrupt_archive(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "tiny-imagenet-200.zip", "w") as archive:
        archive.writestr("tiny-imagenet-200/wnids.txt", "n1\n" * 200)
    content = bytearray((tmp_path / "tiny-imagenet-200.zip").read_bytes())
    (tmp_path / "tiny-imagenet-200.zip").write_bytes(bytes(content[: len(content) // 2]))
    done = call("co2l.train", "--benchmark", "seq_tiny_imagenet", "--data", ".", cwd=tmp_path)
    assert done.returncode == 2
    assert "tiny-imagenet-200.zip" in done.stderr
    assert "Traceback" not in done.stderr


def test_no_space_left_ends_with_one_line_and_keeps_what_is_stored(tmp_path: Path) -> None:
    """A file size limit stands in for a full disk: both make the write fail half way."""
    done = call("co2l.train", *SHORT, "--json", cwd=tmp_path)
    stored = {path: path.read_bytes() for path in (tmp_path / "runs").rglob("*.*")}

    def small_files_only() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    full = subprocess.run(
        [sys.executable, "-m", "co2l.train", *SHORT, "--seed", "1"],
        cwd=tmp_path,
        env=environment(),
        preexec_fn=small_files_only,
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line for line in full.stderr.splitlines() if line.startswith("co2l: ")]
    assert full.returncode == 2
    assert len(lines) == 1, full.stderr
    assert "everything finished so far is kept" in lines[0]
    assert "Traceback" not in full.stderr
    assert {path: path.read_bytes() for path in stored} == stored
    assert weights(call("co2l.train", *SHORT, "--json", cwd=tmp_path).stdout) == weights(done.stdout)
