"""A standalone Spark cluster of this machine: a master and two workers on loopback, started and stopped here."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyspark
import pytest

HOME = Path(pyspark.__file__).parent
MEMORY = "900m"


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


@dataclass
class Cluster:
    """The processes of a cluster."""

    directory: Path
    port: int = field(default_factory=free_port)
    page: int = field(default_factory=free_port)
    workers: list = field(default_factory=list)
    master: subprocess.Popen | None = None

    @property
    def url(self):
        return f"spark://127.0.0.1:{self.port}"

    def start(self, role, *arguments, processor=None):
        """A process of the cluster, with all it starts on one processor where that is said."""
        environment = {
            **os.environ,
            "SPARK_HOME": str(HOME),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_WORKER_DIR": str(self.directory / "work"),
        }
        log = (self.directory / f"{role.lower()}-{len(self.workers)}.log").open("w")
        kind = f"org.apache.spark.deploy.{role.lower()}.{role}"
        held = [] if processor is None else ["taskset", "--cpu-list", str(processor)]
        return subprocess.Popen(
            [*held, str(HOME / "bin" / "spark-class"), kind, "--host", "127.0.0.1", *arguments],
            env=environment,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )

    def add_worker(self, memory=MEMORY, processor=None):
        options = ("--cores", "1", "--memory", memory, "--webui-port", str(free_port()), self.url)
        self.workers.append(self.start("Worker", *options, processor=processor))

    def alive(self):
        """Workers the master knows."""
        with (
            contextlib.suppress(OSError),
            urllib.request.urlopen(f"http://127.0.0.1:{self.page}/json/", timeout=5) as page,
        ):
            return page.read().decode().count('"ALIVE"') - 1
        return 0

    def wait(self, workers, seconds=300):
        until = time.monotonic() + seconds
        while self.alive() < workers:
            if time.monotonic() > until:
                logs = "\n".join(log.read_text()[-600:] for log in self.directory.glob("*.log"))
                raise TimeoutError(f"{self.alive()} of {workers} workers after {seconds} s\n{logs}")
            time.sleep(0.5)

    def stop(self):
        for process in [*self.workers, self.master]:
            if process is not None and process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    """A master and two workers."""
    cluster = Cluster(tmp_path_factory.mktemp("spark"))
    cluster.master = cluster.start("Master", "--port", str(cluster.port), "--webui-port", str(cluster.page))
    try:
        cluster.add_worker()
        cluster.add_worker()
        cluster.wait(2)
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture(scope="session")
def session(cluster):
    """One session for all tests: starting one takes long."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master(cluster.url)
        .appName("pmfcl tests")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "1g")
        .config("spark.executor.memory", "512m")
        .config("spark.executor.cores", "1")
        .config("spark.cores.max", "2")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.sql.adaptive.enabled", "false")
        .config("spark.python.worker.reuse", "true")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def table():
    """Numbers, text, a date, a list, classes and tasks, 4,000 rows; one category occurs once."""
    import pyarrow as pa

    rng, n = np.random.default_rng(5), 4000
    x = rng.normal(size=(n, 3))
    site = rng.choice(["north", "south", "east"], size=n)
    site[-1] = "alone"
    cost = x @ [2.0, -1.0, 0.5] + (site == "south") + rng.normal(scale=0.3, size=n)
    return pa.table(
        {
            "a": x[:, 0],
            "b": x[:, 1],
            "block": pa.array(x[:, [2, 0]].tolist(), pa.list_(pa.float64())),
            "site": site,
            "cost": cost,
            "grade": np.where(cost > 0.8, "high", np.where(cost < -0.8, "low", "middle")),
            "month": np.arange(n) * 5 // n,
        }
    )
