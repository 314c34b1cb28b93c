"""A federation of real processes on this machine: one SuperLink, a SuperNode for each client, TLS, authenticated nodes."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

APP = Path(__file__).resolve().parents[2] / "examples" / "flower"
BIN = Path(sys.executable).parent

# Nothing leaves the machine.
QUIET = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}
# Python that runs a command of Flower without its limit for the start of processes.
PATIENT = (sys.executable, Path(__file__).with_name("patient.py"))
# A round takes some seconds, and minutes on a machine that is busy: nothing here is about speed.
PATIENCE = 1200.0


def free_port():
    """A port nobody uses now."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def wait_for(what, seconds, holds, every=0.5):
    """Waits until something holds, or `holds` raises."""
    until = time.monotonic() + seconds
    while not (found := holds()):
        if time.monotonic() > until:
            raise TimeoutError(f"{what} after {seconds} s")
        time.sleep(every)
    return found


def descendants(pid):
    """Processes that a process has started, and those that they have: some have sessions of their own."""
    listed = subprocess.run(["ps", "-e", "-o", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    children = {}
    for line in listed.splitlines():
        child, parent = map(int, line.split())
        children.setdefault(parent, []).append(child)
    found, queue = [], [pid]
    while queue:
        own = children.get(queue.pop(), [])
        found += own
        queue += own
    return found


class Deployment:
    """Processes under a directory; all of them are gone when it is closed."""

    def __init__(self, directory, clients):
        self.directory, self.clients = Path(directory), clients
        self.home = self.directory / "flwr"
        self.home.mkdir()
        self.port = free_port()
        self.processes = {}
        self.env = {**os.environ, **QUIET, "FLWR_HOME": str(self.home), "PATH": f"{BIN}:{os.environ['PATH']}"}
        self.keys = self.directory / "keys"
        self.parts = self.directory / "parts"
        self.call(sys.executable, APP / "certificates.py", self.keys, *clients, "stranger")
        self.call(sys.executable, APP / "prepare.py", self.parts)
        (self.home / "config.toml").write_text(
            f'[superlink.here]\naddress = "127.0.0.1:{self.port}"\nroot-certificates = "{self.keys / "ca.crt"}"\n'
        )

    def call(self, *command, seconds=PATIENCE):
        """Runs a command to its end."""
        done = subprocess.run(
            [str(word) for word in command],
            env=self.env,
            check=False,
            capture_output=True,
            text=True,
            timeout=seconds,
            cwd=self.directory,
        )
        if done.returncode:
            raise RuntimeError(f"{command[0]}: {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done.stdout

    def start(self, name, *command):
        """Starts a process that goes on."""
        with (self.directory / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [str(word) for word in command],
                env=self.env,
                stdout=log,
                stderr=log,
                cwd=self.directory,
                start_new_session=True,
            )
        return self.processes[name]

    def kill(self, name):
        """kill -9, the process and all it has started."""
        process = self.processes.pop(name)
        for pid in (process.pid, *descendants(process.pid)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()

    def log(self, name):
        """What a process has printed."""
        path = self.directory / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def start_link(self):
        """The SuperLink; what it knows is in a database."""
        self.start(
            "link",
            *PATIENT,
            BIN / "flower-superlink",
            "--host=127.0.0.1",
            f"--port={self.port}",
            f"--database={self.directory / 'link.db'}",
            "--ssl-ca-certfile",
            self.keys / "ca.crt",
            "--ssl-certfile",
            self.keys / "server.crt",
            "--ssl-keyfile",
            self.keys / "server.key",
            "--enable-supernode-auth",
            "--disable-runtime-dependency-installation",
        )
        wait_for("the SuperLink does not listen", PATIENCE, self.is_listening)

    def is_listening(self):
        if self.processes["link"].poll() is not None:
            raise RuntimeError(f"the SuperLink has ended: {self.log('link')[-3000:]}")
        with socket.socket() as tried:
            return tried.connect_ex(("127.0.0.1", self.port)) == 0

    def register(self, client):
        """Lets a node in by its public key."""
        self.call(BIN / "flwr", "supernode", "register", self.keys / f"{client}.pub", "here")

    def start_node(self, client):
        """A SuperNode that has one client's file."""
        return self.start(
            client,
            *PATIENT,
            BIN / "flower-supernode",
            f"--superlink=127.0.0.1:{self.port}",
            "--root-certificates",
            self.keys / "ca.crt",
            "--auth-supernode-private-key",
            self.keys / client,
            "--host=127.0.0.1",
            f"--port={free_port()}",
            "--node-config",
            f'data="{self.parts / f"{client}.csv"}"',
        )

    def bring_back(self, client, seconds):
        """Starts a node again that was killed. The SuperLink lets nobody in twice, and takes it for alive for a while."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            before = len(self.log(client))
            process = self.start_node(client)
            while process.poll() is None:
                if "SuperNode ID" in self.log(client)[before:]:
                    return
                time.sleep(0.5)
            time.sleep(2.0)
        raise TimeoutError(f"{client} was not let in again after {seconds} s")

    def run(self, app=APP, **config):
        """Starts a run of an app; its number."""
        words = {name.replace("_", "-"): value for name, value in config.items()}
        text = " ".join(f"{name}={json.dumps(value)}" for name, value in words.items())
        told = self.call(BIN / "flwr", "run", app, "here", "--run-config", text, "--format", "json")
        return json.loads(told)["run-id"]

    def status(self, run):
        """How a run is."""
        listed = json.loads(self.call(BIN / "flwr", "list", "here", "--run-id", run, "--format", "json"))
        return listed["runs"][0]["status"]

    def finish(self, run, seconds):
        """Waits for the end of a run."""
        ended = lambda: s if (s := self.status(run)).startswith("finished") else None
        done = wait_for(f"run {run} has not ended", seconds, ended, every=2.0)
        if "completed" not in done:
            raise RuntimeError(f"run {run}: {done}\n{self.log('link')[-6000:]}")

    def close(self):
        """Ends everything."""
        for name in list(self.processes):
            self.kill(name)
