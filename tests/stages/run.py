"""Runs the stages of `make test` and prints the time each took.

    python3 tests/stages/run.py first second [third fourth]

Stages in brackets run at the same time, each group after the one before it; their output is shown when they end. The first group that fails ends the run.
"""

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def groups(words: list[str]) -> list[list[list[str]]]:
    """Each group is a list of lanes; a lane is a list of stages, one after the other: `[a+b c]` is two lanes."""
    found: list[list[list[str]]] = []
    inside = False
    for word in words:
        opens, closes = word.startswith("["), word.endswith("]")
        lane = word.strip("[]").split("+")
        if inside:
            found[-1].append(lane)
        else:
            found.append([lane])
        inside = (inside or opens) and not closes
    return found


def run(stage: str, alone: bool) -> tuple[str, float, int]:
    """One stage: its name, its seconds and its exit status."""
    start = time.monotonic()
    command = ["make", "--no-print-directory", stage]
    if alone:
        print(f"\n=== {stage}", flush=True)
        code = subprocess.run(command, cwd=ROOT, check=False).returncode
    else:
        done = subprocess.run(
            command, cwd=ROOT, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        code = done.returncode
        print(f"\n=== {stage}\n{done.stdout}", end="", flush=True)
    return stage, time.monotonic() - start, code


def lane(stages: list[str], alone: bool) -> list[tuple[str, float, int]]:
    """Stages one after the other, up to the first that fails."""
    done = []
    for stage in stages:
        done.append(run(stage, alone))
        if done[-1][2] != 0:
            break
    return done


def main() -> int:
    start = time.monotonic()
    times: list[tuple[str, float, int]] = []
    for lanes in groups(sys.argv[1:]):
        alone = [len(lanes) == 1] * len(lanes)
        with ThreadPoolExecutor(len(lanes)) as pool:
            for done in pool.map(lane, lanes, alone):
                times.extend(done)
        if any(code != 0 for _, _, code in times):
            break
    failed = [stage for stage, _, code in times if code != 0]
    print("\nstage                 seconds")
    for stage, seconds, code in times:
        print(f"{stage:<20} {seconds:>8.0f}{'' if code == 0 else '  failed'}")
    print(f"{'in all':<20} {time.monotonic() - start:>8.0f}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
