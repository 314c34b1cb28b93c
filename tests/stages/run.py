"""Runs the stages of `make test` and prints the time each took.

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
import time
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
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


def run(stage: str) -> tuple[float, int]:
    """One stage: its seconds and its exit status."""
    start = time.monotonic()
    done = subprocess.run(
        ["make", "--no-print-directory", stage],
        cwd=ROOT,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    seconds = time.monotonic() - start
    print(f"\n=== {stage} ({seconds:.0f} s)\n{done.stdout}", end="", flush=True)
    return seconds, done.returncode


def schedule(stages: dict[str, list[str]], at_once: int) -> dict[str, tuple[float, int]]:
    """Runs all stages, some at the same time; ends early where one fails."""
    done: dict[str, tuple[float, int]] = {}
    running: dict[Future[tuple[float, int]], str] = {}
    waiting = dict(stages)
    with ThreadPoolExecutor(at_once) as pool:
        while True:
            failed = any(code != 0 for _, code in done.values())
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
    print("\nstage                 seconds")
    for stage in stages:
        seconds, code = done.get(stage, (0.0, -1))
        said = "not run" if stage not in done else f"{seconds:7.0f}{'' if code == 0 else '  failed'}"
        print(f"{stage:<20} {said:>8}")
    print(f"{'in all':<20} {time.monotonic() - start:>8.0f}")
    # From a clean clone nothing is left over from other versions, so what is there twice was compiled twice.
    if os.environ.get("CI") and (twice := compiled_twice()):
        print(
            f"compiled twice: {', '.join(twice)} (crates/pmfcl-python/Cargo.toml, as-in-tests, has to follow the dependencies)"
        )
    return 0 if len(done) == len(stages) and all(code == 0 for _, code in done.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
