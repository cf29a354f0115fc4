"""Inputs that once ended in a traceback, were taken for sense, or took all memory: each is refused in one line."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import pytest
from bad_spaces import GOOD
from commands import call_here

from co2l.cli import training
from co2l.cluster import services
from co2l.search import service

THOUSAND = ", ".join(str(i / 1000) for i in range(1, 1001))
AXES = f"axes: {{eta: [{THOUSAND}], kappa: [{THOUSAND}], tau: [{THOUSAND}]}}"
OF_RAY = "provider: {type: aws, region: r}\nauth: {ssh_user: u, ssh_private_key: k}\n"
JOB = "kind: RayJob\nspec: {rayClusterSpec: {workerGroupSpecs: [{groupName: g, template: {spec: %s}}]}}\n"
CLUSTERS = {  # files for `co2l.cluster check`
    "deep": "a: " + "[" * 5000,
    "date": OF_RAY + "available_node_types: {a: {node_config: {}, max_workers: 2020-13-45}}\n",
    "number": "provider: {type: !!int ''}\n",
    "time": "provider: {type: !!timestamp x}\n",
    "itself": "a: &a [*a]\n",
    "key": "1: 2\n",
    "provider": "provider: 5\n",
    "list": "provider: [aws]\n",
    "nothing": "provider: {type: local}\n",
    "hosts": "provider: {type: local, head_ip: h, worker_ips: 3}\nauth: {ssh_user: u, ssh_private_key: k}\n",
    "options": OF_RAY + "available_node_types: {a: {node_config: {}}}\ndocker: {run_options: [5]}\n",
    "commands": OF_RAY + "available_node_types: {a: {node_config: {}}}\nhead_start_ray_commands: 5\n",
    "types": OF_RAY + "available_node_types: 7\n",
    "type": OF_RAY + "available_node_types: {a: 3}\n",
    "amounts": OF_RAY + "available_node_types: {a: {node_config: {}, resources: {CPU: many}}}\n",
    "home": OF_RAY
    + "available_node_types: {a: {node_config: {}}}\nfile_mounts: {~/.ray/auth_token: ~nobody-here/x}\n"
    + "".join(f"{each}_start_ray_commands: [RAY_AUTH_MODE=token ray start]\n" for each in ("head", "worker")),
    "services": "services: 3\n",
    "service": "services: {a: {ports: 3}}\n",
    "job": "kind: RayJob\n",
    "jobs": JOB % "{containers: [{}]}" + "---\n" + JOB % "{containers: [{}]}",
    "containers": JOB % "{containers: []}",
    "limits": JOB % "{containers: [{resources: {limits: {cpu: half}}}]}",
    "port": JOB % "{containers: [{}]}" + "---\nkind: Service\n",
}
FILES = {
    **{f"{name}.cluster.yaml": text for name, text in CLUSTERS.items()},
    "exits.py": "import sys\nsys.exit(0)\n",
    "ends.py": "class End(BaseException): ...\nraise End\n",
    "zeros.yaml": GOOD + "imports: [/dev/zero]\n",
    "one.yaml": "benchmark: seq_digits\n",
    "empty.sh": "",
    "no-text.sh": "\udcff",
    "long.sh": "#SBATCH --time=" + "9" * 5000 + "\n#SBATCH --cpus-per-task=" + "9" * 5000 + "\n",
    "file": "",
    "space.yaml": GOOD,
    "seeds.yaml": GOOD.replace("seeds: [0, 1]", "seeds: [-1]"),
    "samples.yaml": GOOD + "algorithm: random\nsamples: 1000000000000\n",
    "grid.yaml": f"benchmark: seq_digits\n{AXES}\n",
    "cpus.yaml": GOOD + "resources: {cpus: 1.0e-9}\n",
    "values.yaml": GOOD + f"retries: [{'1, ' * 3_000_000}]\n",
    "merged.yaml": "a: &a {k: 1}\n"
    + "".join(
        f"{new}: &{new} {{<<: [{', '.join([f'*{old}'] * 9)}]}}\n" for old, new in zip("abcdefg", "bcdefgh", strict=True)
    ),
}
TUNE = ["co2l.tune", "--space", "space.yaml"]
PLAN, CLUSTER = [*TUNE, "--plan"], "co2l.cluster.__main__"
NOBODY = "~nobody-here/x"
DIGITS = "9" * 5000  # more than Python reads
REFUSED = {
    "a date": [*TUNE, "--set", "eta=2020-13-45"],
    "no whole number": [*TUNE, "--set", "eta=!!int ''"],
    "no time": [*TUNE, "--set", "eta=!!timestamp x"],
    "brackets": [*TUNE, "--set", "eta=" + "[" * 5000],
    "a file as root": [*TUNE, "--root", "file"],
    "below a file": [*TUNE, "--root", "file/runs"],
    "a bad port": [*TUNE, "--storage", "postgresql://u:p@host:abc/db"],
    "a store that is a file": [*TUNE, "--store", "file"],
    "a store that takes nothing": [*TUNE, "--store", "/dev/null"],
    "a store of no kind": [*TUNE, "--store", "foo://x"],
    "a store that is only read": [*TUNE, "--store", "http://127.0.0.1:1/x"],
    "a store of nothing": [*TUNE, "--store", "dir://x"],
    "no store for an evaluation": ["co2l.evaluate", "--space", "space.yaml", "--store", "file"],
    "less than no trial": [*TUNE, "--max-concurrent", "-1"],
    "endless seeds": ["co2l.evaluate", "--space", "space.yaml", "--seeds", "100000000000"],
    "no port": ["co2l.cluster.__main__", "serve", "--port", "99999"],
    "a space as configuration": ["co2l.evaluate", "--config", "space.yaml"],
    "no root": ["co2l.train", "--root", ""],
    "no number of seconds": [*TUNE, "--time-budget", "nan"],
    "less than no time": [*TUNE, "--save-every", "-1"],
    "a negative seed": ["co2l.train", "--seed", "-1"],
    "a negative seed of the search": [*TUNE, "--seed", "-1"],
    "negative seeds": ["co2l.tune", "--space", "seeds.yaml"],
    "too many epochs": [*TUNE, "--set", "E_0=1" + "0" * 400],
    "too few cores": ["co2l.tune", "--space", "cpus.yaml"],
    "too few cores by flag": [*TUNE, "--cpus-per-trial", "1e-9"],
    "too many samples": ["co2l.tune", "--space", "samples.yaml"],
    "a vast grid": ["co2l.tune", "--space", "grid.yaml"],
    "a merge bomb": ["co2l.tune", "--space", "merged.yaml"],
    "megabytes": ["co2l.tune", "--space", "values.yaml"],
    "endless zeros": ["co2l.tune", "--space", "/dev/zero"],
    "endless zeros of a configuration": ["co2l.evaluate", "--config", "/dev/zero"],
    "endless zeros of a benchmark": ["co2l.train", "--benchmark", "/dev/zero"],
    "endless zeros to import": [*PLAN, "--import", "/dev/zero"],
    "endless zeros that a space imports": ["co2l.tune", "--space", "zeros.yaml"],
    "endless zeros of a cluster": [CLUSTER, "check", "/dev/zero"],
    "endless zeros of a script": [CLUSTER, "check", "--offline", "/dev/zero.sh"],
    "an import that ends Python": [*PLAN, "--import", "exits.py"],
    "an import that ends in its own way": [*PLAN, "--import", "ends.py"],
    "nobody's import": [*PLAN, "--import", f"{NOBODY}.py"],
    "nobody's data": [*TUNE, "--data", NOBODY],
    "nobody's store": [*TUNE, "--store", NOBODY],
    "nobody's root": [*TUNE, "--root", NOBODY],
    "nobody's copy": ["co2l.__main__", "spaces", "--copy", "seq_digits", NOBODY],
    "nobody's folder": [CLUSTER, "copy", "--to", NOBODY],
    "nobody's service": [CLUSTER, "serve", "--folder", NOBODY],
    "no configuration": ["co2l.evaluate", "--config", ""],
    "no copy": ["co2l.__main__", "spaces", "--copy", "seq_digits", ""],
    "no export": ["co2l.__main__", "export", "x", "--csv", ""],
    "a file with options for a record": [*TUNE, "--storage", "sqlite:///x.db?mode=ro"],
    "no data": [*TUNE, "--data="],
    "no method": ["co2l.train", "--method", " "],
    "digits of a protocol": [*PLAN, "--protocol", f"first_k={DIGITS}"],
    "digits of a beam": [*PLAN, "--protocol", f"greedy={DIGITS}"],
    "digits of a task": [*PLAN, "--set", f"kappa/{DIGITS}=1"],
    "digits of a budget": [*PLAN, "--budget", f"{DIGITS}epochs"],
    "digits of a script": [CLUSTER, "check", "--offline", "long.sh"],
    "digits of workers": [CLUSTER, "slurm", "--space", "space.yaml", "--workers", DIGITS],
    "no script": [CLUSTER, "slurm", "--space", "space.yaml", "--file", "no-text.sh"],
    "a store in memory": [*TUNE, "--store", "memory://x"],
    "a database that holds no record": [*TUNE, "--storage", "redis://h"],
    "a source of no kind": [CLUSTER, "fetch", "--from", "foo://x", "--to", "y"],
    "a source that is not installed": [CLUSTER, "fetch", "--from", "gs://x", "--to", "y"],
    "a beam that is too wide": ["co2l.protocols", "--space", "space.yaml", "--plan", "--beam", "1001"],
    "more tasks than there are": ["co2l.protocols", "--space", "space.yaml", "--plan", "--first-k", "99"],
    **{f"a cluster: {name}": [CLUSTER, "check", "--offline", f"{name}.cluster.yaml"] for name in CLUSTERS},
}


@pytest.fixture(autouse=True)
def nothing_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    def begun(*_: object, **__: object) -> NoReturn:
        raise AssertionError("it was accepted")

    for module, name in ((service, "search"), (service, "evaluate"), (training, "run_here"), (services, "serve")):
        monkeypatch.setattr(module, name, begun)


@pytest.mark.parametrize("what", REFUSED)
def test_it_is_refused(what: str, tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_bytes(text.encode(errors="surrogateescape"))
    module, *arguments = REFUSED[what]
    done = call_here(module, *arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("co2l: ")
    assert len(line) <= 300
    assert {path.name for path in tmp_path.rglob("*")} == set(FILES)
