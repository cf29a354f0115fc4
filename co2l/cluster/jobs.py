"""Searches as jobs on a cluster: submit, follow and stop them through Ray's job API.

The job runs on the head, whose environment knows storage, tracking and passwords; we send only the space and the
command's arguments. A job is found again by its study's name.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shlex
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import yaml

from co2l.errors import Co2lError, headline
from co2l.files import read_text, user_path
from co2l.imports import Import
from co2l.plain_yaml import read_yaml

if TYPE_CHECKING:
    from ray.dashboard.modules.job.pydantic_models import JobDetails
    from ray.job_submission import JobSubmissionClient

STUDY = "co2l.study"  # in a job's metadata
LOCAL = "http://127.0.0.1:8265"  # where `ray dashboard` forwards a cluster's dashboard
STOP_SECONDS = 180  # to save checkpoints and flush tracking before the job is killed
State = Literal["succeeded", "failed", "stopped", "running"]


def submit(address: str, study: str, space: Path, arguments: Sequence[str], imports: Sequence[Import] = ()) -> str:
    """Start a search on the cluster, or continue the study, with the source of its imports. Returns the job's name."""
    with _client(address) as client, tempfile.TemporaryDirectory() as folder:
        earlier = _jobs(client, study)
        if earlier and not earlier[-1].status.is_terminal():
            raise Co2lError(f"study '{study}' is already running", where=address, fix=f"use --follow {study}")
        shutil.copy(space, Path(folder, space.name))
        flags = _sent(imports, Path(folder), Path(folder, space.name))
        words = ["python", "-m", "co2l.tune", "--space", space.name, "--study", study, "--address", "auto", *flags]
        words += arguments
        return str(
            client.submit_job(
                entrypoint="exec " + shlex.join(words),
                submission_id=f"{study}-{len(earlier) + 1}",
                metadata={STUDY: study},
                runtime_env={"working_dir": folder, "env_vars": {"RAY_JOB_STOP_WAIT_TIME_S": str(STOP_SECONDS)}},
            )
        )


def _sent(imports: Sequence[Import], folder: Path, space: Path) -> list[str]:
    """Put the imports beside the space, which then names none itself, and the flags that import them there."""
    for each in imports:
        for name, text in each.files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
    if imports:
        document = read_yaml(read_text(space), str(space))
        assert isinstance(document, dict)
        document.pop("imports", None)
        space.write_text(yaml.safe_dump(document, sort_keys=False, allow_unicode=True), encoding="utf-8")
    return [word for each in imports for word in ("--import", each.name)]


def follow(address: str, study: str, show: Callable[[str], None]) -> State:
    """Show the output of the search from beginning to end."""
    with _client(address) as client:
        job = _latest(client, study, address)

        async def lines() -> None:
            async for text in client.tail_job_logs(job):
                show(text)

        asyncio.run(lines())
        return _state(client.get_job_status(job))


def stop(address: str, study: str) -> bool:
    """Ask the search to stop; it saves its checkpoints first. False if it has already ended."""
    with _client(address) as client:
        job = _latest(client, study, address)
        if client.get_job_status(job).is_terminal():
            return False
        return bool(client.stop_job(job))


def _jobs(client: JobSubmissionClient, study: str) -> list[JobDetails]:
    ours = [job for job in client.list_jobs() if (job.metadata or {}).get(STUDY) == study and job.submission_id]
    return sorted(ours, key=lambda job: job.start_time or 0)


def _latest(client: JobSubmissionClient, study: str, address: str) -> str:
    jobs = _jobs(client, study)
    if not jobs:
        studies = sorted({(job.metadata or {}).get(STUDY, "") for job in client.list_jobs()} - {""})
        known = f"there are: {', '.join(studies)}" if studies else "none has been submitted"
        raise Co2lError(f"no study '{study}'", where=address, fix=known)
    return str(jobs[-1].submission_id)


def _state(status: object) -> State:
    states: dict[str, State] = {"SUCCEEDED": "succeeded", "FAILED": "failed", "STOPPED": "stopped"}
    return states.get(str(getattr(status, "value", status)), "running")


@contextmanager
def _client(address: str) -> Iterator[JobSubmissionClient]:
    """A connection with the token of `RAY_AUTH_TOKEN`, `RAY_AUTH_TOKEN_PATH` or ~/.ray/auth_token."""
    from ray.job_submission import JobSubmissionClient

    if not address.startswith(("http://", "https://")):
        raise Co2lError(f"'{address}' is not an address of the job API", fix=f"use for example {LOCAL}")
    for name in ("ray", "ray.dashboard.modules.job.sdk"):  # the second sets its level separately
        logging.getLogger(name).setLevel(logging.ERROR)
    for name in ("RAY_ADDRESS", "RAY_API_SERVER_ADDRESS"):
        os.environ.pop(name, None)  # Ray would prefer them to the address we give
    try:
        yield JobSubmissionClient(address, headers=_authorization())
    except Co2lError:
        raise
    except Exception as error:  # Ray raises many types, and gives the reason only in the message
        raise _refusal(address, str(error)) from None


def _authorization() -> dict[str, str]:
    """As Ray's own command sends it; Ray would look for a token only if RAY_AUTH_MODE was set before its import."""
    if os.environ.get("RAY_AUTH_MODE") == "disabled":
        return {}
    path = user_path(os.environ.get("RAY_AUTH_TOKEN_PATH") or "~/.ray/auth_token", "RAY_AUTH_TOKEN_PATH")
    token = os.environ.get("RAY_AUTH_TOKEN") or (path.read_text().strip() if path.is_file() else "")
    return {"Authorization": f"Bearer {token}"} if token else {}


def _refusal(address: str, reason: str) -> Co2lError:
    if "Authentication required" in reason or "no token was found" in reason:
        return Co2lError("the cluster requires a token", where=address, fix="put it in ~/.ray/auth_token")
    if "Authentication failed" in reason:
        fix = "copy the one it was started with to ~/.ray/auth_token"
        return Co2lError("the cluster has another token", where=address, fix=fix)
    if "connect" in reason.lower():
        fix = "forward its dashboard with `ray dashboard cluster/….yaml` and leave that running"
        return Co2lError("no Ray cluster answers", where=address, fix=fix)
    return Co2lError(f"the job API refused ({headline(reason)})", where=address)
