"""`ray up cluster/gpu.yaml` against an emulated EC2: what it asks for is what the file means."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
import requests
import yaml
from moto.server import ThreadedMotoServer

from co2l.cluster import check, reach

FILE = Path(__file__).parents[2] / "cluster" / "gpu.yaml"
REGION = "eu-central-1"
pytestmark = pytest.mark.e2e
FAKE = {"AWS_ACCESS_KEY_ID": "emulated", "AWS_SECRET_ACCESS_KEY": "emulated", "AWS_DEFAULT_REGION": REGION}


@pytest.fixture(scope="module")
def emulation() -> Iterator[str]:
    """moto's server on loopback."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def cloud(emulation: str) -> str:
    """The same, with nothing in it."""
    requests.post(f"{emulation}/moto-api/reset", timeout=60).raise_for_status()
    return emulation


@pytest.fixture
def account(cloud: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What docs/cluster.md makes by hand: a key pair, an instance profile, a machine image to choose."""
    for name, value in FAKE.items():
        monkeypatch.setenv(name, value)
    ec2, iam = (boto3.client(name, endpoint_url=cloud) for name in ("ec2", "iam"))
    key = ec2.create_key_pair(KeyName="mine")
    group = ec2.create_security_group(GroupName="co2l", Description="co2l")["GroupId"]
    ssh = {"IpProtocol": "tcp", "FromPort": 22, "ToPort": 22, "IpRanges": [{"CidrIp": "198.51.100.7/32"}]}
    within = {"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group}]}
    ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=[ssh, within])
    iam.create_instance_profile(InstanceProfileName="co2l")
    image = ec2.describe_images()["Images"][0]["ImageId"]
    return {"ec2": ec2, "key": key["KeyMaterial"], "image": image, "group": group}


def filled(account: dict[str, Any], folder: Path) -> Path:
    """The shipped file with its block filled in, and nothing else changed."""
    key, token = folder / "key.pem", folder / "auth_token"
    key.write_text(account["key"])
    key.chmod(0o600)
    token.write_text("0" * 64)
    text = FILE.read_text()
    for before, after in {
        "&key_name CHANGE-ME": "&key_name mine",
        "~/.ssh/co2l.pem": str(key),
        "sg-CHANGE-ME": account["group"],
        "ami-CHANGE-ME": account["image"],
        "&image CHANGE-ME": "&image registry.example",
        "s3://CHANGE-ME": "s3://bucket",
        "~/.ray/auth_token: ~/.ray/auth_token": f"~/.ray/auth_token: {token}",
    }.items():
        assert before in text
        text = text.replace(before, after)
    assert "CHANGE-ME" not in text
    path = folder / "gpu.yaml"
    path.write_text(text)
    return path


def test_ray_up_creates_the_head_as_intended(cloud: str, account: dict[str, Any], tmp_path: Path) -> None:
    path = filled(account, tmp_path)
    environment = {**os.environ, "AWS_ENDPOINT_URL": cloud, "HOME": str(tmp_path), "RAY_TMPDIR": str(tmp_path)}
    with (tmp_path / "log").open("w") as log:
        up = subprocess.Popen(
            [Path(sys.executable).with_name("ray"), "up", "-y", "--no-config-cache", str(path)],
            env=environment,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            instances: list[Any] = []
            profiles: list[Any] = []
            until = time.monotonic() + 300
            while not (instances and profiles):  # then it waits for SSH, which nobody answers here
                assert up.poll() is None, (tmp_path / "log").read_text()
                assert time.monotonic() < until, (tmp_path / "log").read_text()
                time.sleep(0.3)
                found = account["ec2"].describe_instances()["Reservations"]
                instances = [each for reservation in found for each in reservation["Instances"]]
                asked = account["ec2"].describe_iam_instance_profile_associations()
                profiles = asked["IamInstanceProfileAssociations"]
        finally:
            up.kill()
            up.wait()
    (head,) = instances
    assert head["ImageId"] == account["image"]
    assert head["InstanceType"] == "m6i.large"
    assert head.get("InstanceLifecycle") != "spot"
    assert head["KeyName"] == "mine"
    (associated,) = profiles
    assert associated["InstanceId"] == head["InstanceId"]
    assert associated["IamInstanceProfile"]["Arn"].endswith(":instance-profile/co2l")
    assert head["MetadataOptions"]["HttpTokens"] == "required"
    tags = {tag["Key"]: tag["Value"] for tag in head["Tags"]}
    assert tags["project"] == "co2l"
    assert tags["ray-cluster-name"] == "co2l"
    assert tags["ray-node-type"] == "head"
    assert [group["GroupId"] for group in head["SecurityGroups"]] == [account["group"]]
    groups = account["ec2"].describe_security_groups()["SecurityGroups"]
    open_to = [each["CidrIp"] for group in groups for rule in group["IpPermissions"] for each in rule["IpRanges"]]
    assert open_to == ["198.51.100.7/32"], "Ray opened a door of its own"


def test_workers_are_spot_gpus_like_the_head_otherwise(cloud: str, account: dict[str, Any], tmp_path: Path) -> None:
    """Workers are made by the head; their request is what Ray's own preparation of the file leaves for them."""
    path = filled(account, tmp_path)
    program = (
        "import sys, yaml\n"
        "from ray.autoscaler._private.commands import _bootstrap_config\n"
        "from ray.autoscaler._private.util import prepare_config\n"
        "config = _bootstrap_config(prepare_config(yaml.safe_load(open(sys.argv[1]))), no_config_cache=True)\n"
        "open(sys.argv[2], 'w').write(yaml.safe_dump(config['available_node_types']))\n"
    )
    environment = {**os.environ, "AWS_ENDPOINT_URL": cloud, "HOME": str(tmp_path)}
    out = tmp_path / "types.yaml"
    subprocess.run([sys.executable, "-c", program, path, out], env=environment, check=True, capture_output=True)
    types = yaml.safe_load(out.read_text())
    head, worker = (types[name]["node_config"] for name in ("head", "gpu"))
    request = {name: worker[name] for name in worker if name not in ("SubnetIds", "SecurityGroupIds")}
    made = account["ec2"].run_instances(**request, MinCount=1, MaxCount=1, SubnetId=worker["SubnetIds"][0])
    (instance,) = made["Instances"]
    assert instance["InstanceType"] == "g6e.2xlarge"
    assert instance["InstanceLifecycle"] == "spot"
    assert {tag["Key"]: tag["Value"] for tag in instance["Tags"]}["project"] == "co2l"
    assert worker["ImageId"] == head["ImageId"] == account["image"]
    assert worker["SecurityGroupIds"] == head["SecurityGroupIds"]
    assert types["gpu"]["min_workers"] == 0
    assert types["head"]["resources"]["CPU"] == 0


def test_the_check_asks_the_cloud(
    cloud: str, account: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bucket that is there, one that is not, one that may only be read, and a key pair that does not exist."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", cloud)
    s3, iam = (boto3.client(name, endpoint_url=cloud) for name in ("s3", "iam"))
    s3.create_bucket(Bucket="bucket", CreateBucketConfiguration={"LocationConstraint": REGION})
    path = filled(account, tmp_path)
    states = [(each.what, each.state) for each in reach.findings(check.read(path), None, None)]
    assert states == [
        ("credentials", "ok"),
        *[("cloud", "ok")] * 3,
        ("group", "ok"),
        ("store", "ok"),
        ("tracking", "unknown"),
    ]
    assert "Contents" not in s3.list_objects_v2(Bucket="bucket"), "the check leaves something behind"
    assert reach.writable("s3://no-such-bucket/store").state == "wrong"
    world = {"IpProtocol": "tcp", "FromPort": 22, "ToPort": 22, "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}
    account["ec2"].authorize_security_group_ingress(GroupId=account["group"], IpPermissions=[world])
    (wrong,) = [each.text for each in reach.findings(check.read(path), None, None) if each.state == "wrong"]
    assert wrong == f"port 22 of {account['group']} is open to the world"
    account["ec2"].revoke_security_group_ingress(GroupId=account["group"], IpPermissions=[world])
    account["ec2"].delete_key_pair(KeyName="mine")
    (wrong,) = [each.text for each in reach.findings(check.read(path), None, None) if each.state == "wrong"]
    assert wrong.startswith("key pair mine: ")

    iam.create_user(UserName="reader")
    statement = {"Effect": "Allow", "Action": ["s3:Get*", "s3:List*"], "Resource": "*"}
    reading = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    iam.put_user_policy(UserName="reader", PolicyName="reading", PolicyDocument=reading)
    keys = iam.create_access_key(UserName="reader")["AccessKey"]
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", keys["AccessKeyId"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", keys["SecretAccessKey"])
    requests.post(f"{cloud}/moto-api/reset-auth", data=b"0", timeout=60).raise_for_status()  # from now on it looks
    refused = reach.writable("s3://bucket/store")
    assert refused.state == "wrong"
    assert "\n" not in refused.text
