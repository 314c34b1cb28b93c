"""`pmfcl --features remote` against moto, a server with the interface of S3.

The program under test is `PMFCL_PROGRAM`; `make stores-test` builds it and installs what is needed.
"""

import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import boto3
import pytest

PROGRAM = Path(os.environ["PMFCL_PROGRAM"]).resolve()
ROWS = Path(__file__).resolve().parents[2] / "data" / "bike_hourly.csv.gz"


@pytest.fixture(scope="session")
def server():
    """The address of a server with a bucket that holds one file."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(300):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        client(address).create_bucket(Bucket="lake")
        client(address).upload_file(str(ROWS), "lake", "rides/bike.csv.gz")
        yield address
    finally:
        process.terminate()
        process.wait()


def client(address):
    keys = {"aws_access_key_id": "key", "aws_secret_access_key": "secret", "region_name": "us-east-1"}
    return boto3.client("s3", endpoint_url=address, **keys)


def run(place, address, *words):
    """The program with credentials of its own alone."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    kept |= {"AWS_ENDPOINT_URL": address, "AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1"}
    kept |= {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}
    return subprocess.run([PROGRAM, *words], cwd=place, env=kept, capture_output=True, text=True, check=False)


def ok(place, address, *words):
    done = run(place, address, *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_model_is_that_of_the_file_on_disk(server, tmp_path):
    shutil.copy(ROWS, tmp_path / "bike.csv.gz")
    options = ["--target", "rentals", "--task-column", "quarter", "--exclude", "split"]
    for name, data in [("local", "bike.csv.gz"), ("remote", "s3://lake/rides/bike.csv.gz")]:
        ok(tmp_path, server, "learn", f"{name}.pmf", data, *options)
        ok(tmp_path, server, "predict", f"{name}.pmf", data, "-o", f"{name}.parquet")
    assert (tmp_path / "remote.parquet").read_bytes() == (tmp_path / "local.parquet").read_bytes()
    # Parquet: the predictions as data.
    client(server).upload_file(str(tmp_path / "local.parquet"), "lake", "predictions.parquet")
    answers = [
        ok(tmp_path, server, "schema", data, "--target", "rentals").replace(data, "")
        for data in ["local.parquet", "s3://lake/predictions.parquet"]
    ]
    assert answers[0] == answers[1]


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("s3://lake/none.csv", "there is no such file (404)"),
        ("s3://no-bucket/bike.csv.gz", "there is no such file (404)"),
    ],
)
def test_what_is_not_there_is_named_and_the_model_is_unchanged(server, tmp_path, address, said):
    ok(tmp_path, server, "learn", "m.pmf", str(ROWS), "--target", "rentals", "--exclude", "split,quarter")
    before = (tmp_path / "m.pmf").read_bytes()
    done = run(tmp_path, server, "learn", "m.pmf", address)
    assert done.returncode == 1
    assert address in done.stderr
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert (tmp_path / "m.pmf").read_bytes() == before
