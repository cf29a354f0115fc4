"""What a cluster needs from the network, checked before it starts: hosts, cloud, store, tracking, a running head."""

from __future__ import annotations

import importlib.metadata
import os
import shlex
import subprocess
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import requests

from co2l.cluster.check import UNSET, Cluster, Finding
from co2l.errors import Co2lError, headline
from co2l.files import user_path

SECONDS = 10
WORLD = ("0.0.0.0/0", "::/0")
TEST_KEY = "c0ffee"  # no stage has so short a key


def findings(cluster: Cluster, tracking: str | None, address: str | None) -> Iterator[Finding]:
    store = cluster.setting("CO2L_STORE") or os.environ.get("CO2L_STORE")
    if cluster.kind == "aws":
        allowed = list(cloud(cluster.config))
        yield from allowed
        if all(each.state == "ok" for each in allowed) and store and UNSET not in store:
            yield writable(store)
        else:
            yield Finding("store", "unknown", "not checked until the rest is right")
    elif cluster.kind == "local":
        yield from hosts(cluster.config, store)
    if tracking:
        yield tracked(tracking)
    else:
        yield Finding("tracking", "unknown", "MLflow starts with the cluster, behind a password")
    if address:
        yield running(address, _token(cluster.config))


def cloud(config: Mapping[str, Any]) -> Iterator[Finding]:
    """AWS accepts our credentials, and has the key, the machine image and the profile that the file names."""
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError

    node = next(iter(config["available_node_types"].values()))["node_config"]
    region = config["provider"]["region"]
    try:
        who = boto3.client("sts", region_name=region).get_caller_identity()
    except (BotoCoreError, ClientError) as error:
        text = f"AWS does not let us in ({headline(error)}); run `aws configure`, or set AWS_PROFILE"
        yield Finding("credentials", "wrong", text)
        return
    yield Finding("credentials", "ok", f"account {who['Account']}, region {region}")
    ec2, iam = boto3.client("ec2", region_name=region), boto3.client("iam", region_name=region)
    asked: dict[str, Callable[[], Any]] = {
        f"key pair {node.get('KeyName')}": lambda: ec2.describe_key_pairs(KeyNames=[node["KeyName"]]),
        f"machine image {node.get('ImageId')}": lambda: ec2.describe_images(ImageIds=[node["ImageId"]])["Images"][0],
        "instance profile": lambda: iam.get_instance_profile(InstanceProfileName=node["IamInstanceProfile"]["Name"]),
    }
    for what, ask in asked.items():
        try:
            ask()
        except (BotoCoreError, ClientError, KeyError, IndexError) as error:
            yield Finding("cloud", "wrong", f"{what}: {headline(error)}; see docs/cluster.md")
        else:
            yield Finding("cloud", "ok", what)
    yield group(ec2, node.get("SecurityGroupIds", []))
    key = user_path(config["auth"]["ssh_private_key"], "auth.ssh_private_key")
    if not key.is_file():
        yield Finding("key", "wrong", f"{key} does not exist")


def group(ec2: Any, ids: list[str]) -> Finding:
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        found = ec2.describe_security_groups(GroupIds=ids)["SecurityGroups"]
    except (BotoCoreError, ClientError) as error:
        return Finding("group", "wrong", f"security group {', '.join(ids)}: {headline(error)}; see docs/cluster.md")
    for rule in [rule for each in found for rule in each["IpPermissions"]]:
        sources = [each.get("CidrIp") or each.get("CidrIpv6") for each in rule["IpRanges"] + rule.get("Ipv6Ranges", [])]
        if not set(WORLD).isdisjoint(sources):
            return Finding("group", "wrong", f"port {rule.get('FromPort', 'any')} of {ids[0]} is open to the world")
    return Finding("group", "ok", f"security group {', '.join(ids)} is open to nobody else")


def hosts(config: Mapping[str, Any], store: str | None) -> Iterator[Finding]:
    """Every host answers, accepts our key, has our versions, and can write to the store."""
    provider = config["provider"]
    names = [provider["head_ip"], *provider["worker_ips"]]
    if UNSET in names:
        return
    key = user_path(config["auth"]["ssh_private_key"], "auth.ssh_private_key")
    if not key.is_file():
        yield Finding("key", "wrong", f"{key} does not exist")
        return
    with ThreadPoolExecutor(16) as pool:
        yield from pool.map(lambda name: host(name, config, key, store), names)


def host(name: str, config: Mapping[str, Any], key: Path, store: str | None) -> Finding:
    script = "import importlib.metadata as m; print(m.version('ray'))"
    ask = f"python -c {shlex.quote(script)}"
    if image := config.get("docker", {}).get("image"):
        ask = f"docker run --rm {shlex.quote(image)} {ask}"
    if store and "://" not in store:
        file = shlex.quote(f"{store}/.co2l-check-{name}")  # one per host: all write to the same folder at once
        ask += f" && (mkdir -p {shlex.quote(store)} && touch {file} && rm {file} || echo REFUSED) 2>/dev/null"
    options = ["BatchMode=yes", f"ConnectTimeout={SECONDS}", "LogLevel=ERROR"]
    options += ["StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null"]  # like `ray up`, which connects next
    words = ["ssh", "-i", str(key), "-oIdentitiesOnly=yes", *(f"-o{each}" for each in options)]
    words += [f"{config['auth']['ssh_user']}@{name}", f"bash --login -c {shlex.quote(f'source ~/.bashrc; {ask}')}"]
    done = subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    here, said = importlib.metadata.version("ray"), done.stdout.split()
    if done.returncode == 255:
        if "ermission denied" in done.stderr:
            return Finding("host", "wrong", f"{name} does not accept {key} for {config['auth']['ssh_user']}")
        return Finding("host", "wrong", f"{name} cannot be reached by SSH ({headline(done.stderr)})")
    if not said:
        return Finding("host", "wrong", f"{name} has no Ray ({headline(done.stderr)})")
    if said[0] != here:
        return Finding("host", "wrong", f"{name} has Ray {said[0]}, this machine has {here}; they must match")
    if "REFUSED" in said:
        return Finding("store", "wrong", f"{name} cannot write to {store}")
    return Finding("host", "ok", f"{name}: Ray {here}" + (f", writes to {store}" if store else ""))


def writable(store: str) -> Finding:
    from co2l.learning.store import Store

    try:
        opened = Store(store)
        opened.save_state(TEST_KEY, {}, partial=True)
        opened.delete_state(TEST_KEY, partial=True)
    except Co2lError as error:
        return Finding("store", "wrong", f"{store}: {error.what}")
    except Exception as error:  # each cloud's file system raises its own types
        return Finding("store", "wrong", f"{store}: cannot be written ({headline(error)})")
    return Finding("store", "ok", f"{store} is writable")


def tracked(uri: str) -> Finding:
    if not uri.startswith(("http://", "https://")):
        return Finding("tracking", "wrong", f"{uri}: a cluster needs a server, such as http://host:5000")
    user, password = os.environ.get("MLFLOW_TRACKING_USERNAME"), os.environ.get("MLFLOW_TRACKING_PASSWORD")
    try:
        url = f"{uri}/api/2.0/mlflow/experiments/search"
        auth = (user, password) if user and password else None
        answer = requests.get(url, params={"max_results": "1"}, auth=auth, timeout=SECONDS)
    except requests.RequestException as error:
        return Finding("tracking", "wrong", f"{uri} cannot be reached ({type(error).__name__})")
    if answer.status_code in (401, 403):
        fix = "set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD"
        return Finding("tracking", "wrong", f"{uri} does not let us in; {fix}")
    if answer.status_code != 200:
        return Finding("tracking", "wrong", f"{uri} answers with {answer.status_code}")
    return Finding("tracking", "ok", f"{uri} answers" if auth else f"{uri} answers, even without a password")


def running(address: str, token: str | None) -> Finding:
    """A cluster that is already running accepts our token and has our version of Ray."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        answer = requests.get(f"{address}/api/version", headers=headers, timeout=SECONDS)
    except requests.RequestException as error:
        return Finding("running", "wrong", f"{address} cannot be reached ({type(error).__name__}); run `ray dashboard`")
    if answer.status_code in (401, 403):
        fix = "copy the one it was started with to ~/.ray/auth_token"
        return Finding("running", "wrong", f"{address} has another token than this machine; {fix}")
    here, there = importlib.metadata.version("ray"), answer.json().get("ray_version")
    if there != here:
        return Finding("running", "wrong", f"{address} has Ray {there}, this machine has {here}; they must match")
    return Finding("running", "ok", f"{address}: Ray {here}, accepts our token")


def _token(config: Mapping[str, Any]) -> str | None:
    if given := os.environ.get("RAY_AUTH_TOKEN"):
        return given
    file = os.environ.get("RAY_AUTH_TOKEN_PATH") or config.get("file_mounts", {}).get("~/.ray/auth_token")
    path = user_path(file or "~/.ray/auth_token", "RAY_AUTH_TOKEN_PATH")
    return path.read_text().strip() if path.is_file() else None
