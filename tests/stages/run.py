"""Runs the stages of `make test` and prints the time each took, and the processor time of the processes it waited for.

    python3 tests/stages/run.py [--at-once 3] first second third:first fourth:first,second

A stage is a target of the Makefile; after the colon are the stages it waits for. Of those that can start, the one named first does.
Their output is shown when they end. After one has failed, no other is started.
"""

import argparse
import collections
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def graph(words: list[str]) -> dict[str, list[str]]:
    """Each stage with the stages it waits for."""
    stages = {}
    for word in words:
        name, _, before = word.partition(":")
        stages[name] = before.split(",") if before else []
    unknown = sorted({other for before in stages.values() for other in before} - set(stages))
    if unknown:
        raise SystemExit(f"run.py: no stage is called {', '.join(unknown)}")
    return stages


@dataclass(frozen=True)
class Ended:
    """How a stage ended."""

    seconds: float
    processor: float
    status: int


def run(stage: str) -> Ended:
    """Runs one stage and shows what it printed."""
    start = time.monotonic()
    with tempfile.TemporaryFile() as output:
        command = ["make", "--no-print-directory", stage]
        started = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT)
        _, status, used = os.wait4(started.pid, 0)
        started.returncode = os.waitstatus_to_exitcode(status)
        ended = Ended(time.monotonic() - start, used.ru_utime + used.ru_stime, started.returncode)
        output.seek(0)
        printed = output.read().decode(errors="replace")
    print(f"\n=== {stage} ({ended.seconds:.0f} s)\n{printed}", end="", flush=True)
    return ended


def schedule(stages: dict[str, list[str]], at_once: int) -> dict[str, Ended]:
    """Runs all stages, some at the same time; ends early where one fails."""
    done: dict[str, Ended] = {}
    running: dict[Future[Ended], str] = {}
    waiting = dict(stages)
    with ThreadPoolExecutor(at_once) as pool:
        while True:
            failed = any(ended.status != 0 for ended in done.values())
            ready = [name for name, before in waiting.items() if all(other in done for other in before)]
            for name in ready[: 0 if failed else at_once - len(running)]:
                del waiting[name]
                running[pool.submit(run, name)] = name
            if not running:
                return done
            for ended in wait(running, return_when=FIRST_COMPLETED).done:
                done[running.pop(ended)] = ended.result()


def compiled_twice() -> list[str]:
    """Our crates that were compiled more than once with the same settings: features of their dependencies must have differed."""
    found = collections.Counter[str]()
    for place in (ROOT / "target" / "debug" / ".fingerprint").glob("pmfcl*/lib-*.json"):
        unit = json.loads(place.read_text())
        found[f"{place.stem.removeprefix('lib-')} {unit['features']} {unit['profile']}"] += 1
    return sorted(name.split()[0] for name, count in found.items() if count > 1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--at-once", type=int, default=3)
    parser.add_argument("stages", nargs="+")
    arguments = parser.parse_args()
    stages = graph(arguments.stages)
    start = time.monotonic()
    done = schedule(stages, arguments.at_once)
    print("\nstage                 seconds  processor")
    for stage in stages:
        if stage in done:
            ended = done[stage]
            failed = "" if ended.status == 0 else "  failed"
            print(f"{stage:<20} {ended.seconds:>8.0f} {ended.processor:>10.0f}{failed}")
        else:
            print(f"{stage:<20}  not run")
    processor = sum(ended.processor for ended in done.values())
    print(f"{'in all':<20} {time.monotonic() - start:>8.0f} {processor:>10.0f}")
    # From a clean clone nothing is left over from other versions, so what is there twice was compiled twice.
    if os.environ.get("CI") and (twice := compiled_twice()):
        print(
            f"compiled twice: {', '.join(twice)} (crates/pmfcl-python/Cargo.toml, as-in-tests, has to follow the dependencies)"
        )
    return 0 if len(done) == len(stages) and all(ended.status == 0 for ended in done.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
