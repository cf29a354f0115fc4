"""A real Slurm on this machine: a controller, and two nodes, each a slurmd with its own port, spool and mounts.

Nothing of the machine's own Slurm or munge is used or changed. The second node has an empty folder where the first has
`only-here`. A job may stay ten minutes longer than its time limit, whose signal it gets in time: on a busy machine it
takes longer to end than the shortest limit allows. A job that is put back into the queue waits `cred_expire` seconds.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from hosts import SYSTEM, wait_for

PROGRAMS = {"munged": "munge", "slurmctld": "slurm-wlm", "slurmd": "slurm-wlm", "unshare": "util-linux"}
CONFIG = """\
ClusterName=co2l
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/munge/socket,cred_expire=10
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
MinJobAge=3600
OverTimeLimit=10
GresTypes=gpu
SlurmdParameters=config_overrides
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SchedulerParameters=sched_interval=1,sched_min_interval=0,bf_interval=1
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=16 Gres=gpu:2
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=16 Gres=gpu:2
PartitionName=main Nodes=n[1-2] Default=YES MaxTime=10:00:00 State=UP
"""


def require() -> None:
    """Skip, and say why, where this cannot be."""
    if os.geteuid() != 0:
        pytest.skip("Slurm on one machine: this needs root")
    for program, package in PROGRAMS.items():
        if shutil.which(program, path=SYSTEM) is None:
            pytest.skip(f"Slurm on one machine: {program} is missing (Debian package {package})")
    probe = subprocess.run(["unshare", "--mount", "true"], capture_output=True, text=True, check=False)
    if probe.returncode != 0:
        pytest.skip(f"Slurm on one machine: mount namespaces are not allowed here ({probe.stderr.strip()})")


class Slurm:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{SYSTEM}",
            "PYTHONPATH": str(Path(__file__).parents[2]),
            "SLURM_CONF": str(folder / "slurm.conf"),
            "OMP_NUM_THREADS": "1",
        }
        self.daemons: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        for name in ("munge", "state", "spool-n1", "spool-n2", "only-here"):
            (self.folder / name).mkdir()
        with contextlib.ExitStack() as held:
            free = [held.enter_context(socket.socket()) for _ in range(3)]
            for each in free:
                each.bind(("127.0.0.1", 0))
            ports = [each.getsockname()[1] for each in free]
        host = socket.gethostname().partition(".")[0]
        (self.folder / "slurm.conf").write_text(CONFIG.format(folder=self.folder, host=host, ports=ports))
        (self.folder / "gres.conf").write_text("Name=gpu File=/dev/null\nName=gpu File=/dev/zero\n")  # as good as any
        munge = self.folder / "munge"
        (munge / "key").write_bytes(os.urandom(128))
        (munge / "key").chmod(0o600)
        for path in (munge, munge / "key"):
            shutil.chown(path, "munge", "munge")
        files = [f"--{name}-file={munge / name}" for name in ("key", "pid", "log", "seed")]
        self._daemon("runuser", "-u", "munge", "--", "munged", "-F", *files, f"--socket={munge}/socket")
        wait_for(lambda: (munge / "socket").exists(), 30)
        self._daemon("slurmctld", "-D")
        visible = opened(self.folder)
        self._daemon("unshare", "--mount", "sh", "-c", f"{visible}\nexec slurmd -D -N n1")
        hidden = f"{visible}\nmount -t tmpfs none {self.folder}/only-here\nexec slurmd -D -N n2"
        self._daemon("unshare", "--mount", "sh", "-c", hidden)
        wait_for(lambda: self.call("sinfo", "-h", "-o", "%D %t") == "2 idle", 60)

    def _daemon(self, *words: str) -> None:
        with (self.folder / f"{words[0]}-{len(self.daemons)}.log").open("wb") as log:
            program = [shutil.which(words[0], path=SYSTEM) or words[0], *words[1:]]
            self.daemons.append(
                subprocess.Popen(
                    program,
                    env=self.environment,
                    cwd=self.folder,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            )

    def call(self, *words: str, user: str | None = None, folder: Path | None = None, **variables: str) -> str:
        """What a command of Slurm's, or any other, prints; errors too."""
        if user:
            words = ("runuser", "-u", user, "--", *words)
        done = subprocess.run(
            words,
            env={**self.environment, **variables},
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return (done.stdout + done.stderr).strip()

    def field(self, job: str, name: str) -> str:
        """Of what the controller knows of a job."""
        words = self.call("scontrol", "show", "job", job, "--oneliner").split()
        return dict(word.partition("=")[::2] for word in words).get(name, "")

    def end(self) -> None:
        """All that was started, whatever became of it."""
        for user in ("root", "nobody"):
            self.call("scancel", f"--user={user}")
        with contextlib.suppress(AssertionError):
            wait_for(lambda: self.call("squeue", "--noheader") == "", 10)
        for daemon in reversed(self.daemons):
            daemon.terminate()
        for process in self.processes().values():
            with contextlib.suppress(psutil.Error):
                process.kill()
        for daemon in self.daemons:
            daemon.wait(30)

    def processes(self) -> dict[int, psutil.Process]:
        """All that this Slurm and its jobs have started."""
        found = {}
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get("SLURM_CONF") == self.environment["SLURM_CONF"] or self._keeps_a_job(process):
                    found[process.pid] = process
        return found

    def _keeps_a_job(self, process: psutil.Process) -> bool:
        """It writes its name where its environment was."""
        return process.name() == "slurmstepd" and process.cwd() == str(self.folder)


def opened(folder: Path) -> str:
    """Commands, for a mount namespace of its own: other users reach this test's Python and package.

    Both may be below a folder that is closed to them, as root's home is: there, only they are left.
    """
    wanted = [Path(sys.base_prefix), Path(sys.prefix), Path(__file__).parents[2]]
    closed = {parent for path in wanted for parent in path.parents if not parent.stat().st_mode & stat.S_IXOTH}
    lines = ["set -e"]
    inside = [path for path in wanted if closed.intersection(path.parents)]
    for number, path in enumerate(inside):
        lines += [f"mkdir -p {folder}/open/{number}", f"mount --bind {path} {folder}/open/{number}"]
    lines += [f"mount -t tmpfs -o mode=755 none {each}" for each in closed if not closed.intersection(each.parents)]
    for number, path in enumerate(inside):
        lines += [f"mkdir -p {path}", f"mount --bind {folder}/open/{number} {path}"]
    return "\n".join(lines)


@contextlib.contextmanager
def slurm() -> Iterator[Slurm]:
    folder = Path(tempfile.mkdtemp(prefix="co2l", dir="/tmp"))
    folder.chmod(0o755)
    made = Slurm(folder)
    try:
        made.start()
        yield made
    finally:
        made.end()
        shutil.rmtree(folder, ignore_errors=True)
