"""`python -m defaults [DIRECTORY]`: the sweep over the bundled sets and over the tables of a directory."""

import argparse
import sys
import time
from pathlib import Path

import numpy as np

from . import tables
from .sweep import Findings, Plan, sweep

parser = argparse.ArgumentParser(prog="defaults", description="Task by task against one fit, at default settings.")
parser.add_argument("data", nargs="?", type=Path, help="a directory of Parquet or CSV files with targets y, y2, …")
parser.add_argument("--splits", type=int, default=20, help="random splits of each table and variation")
parser.add_argument("--command-splits", type=int, default=3, help="of these, through the command line")
parser.add_argument("--rows", type=int, default=1500, help="most rows of a table; more are chosen from at random")
parser.add_argument("--columns", type=int, default=60, help="most columns of a table")
parser.add_argument("--seed", type=int, default=None, help="where all randomness comes from; by default the clock")
parser.add_argument("--only", default="", help="tables whose name holds this")
parser.add_argument("--variation", default="", help="variations whose name holds this")
given = parser.parse_args()

seed = int(time.time()) if given.seed is None else given.seed
rng = np.random.default_rng(seed)
print(f"seed {seed}, {given.splits} splits, {given.command_splits} through commands\n{Findings.HEAD}", flush=True)
found, plan = Findings(), Plan(given.splits, given.command_splits)
chosen = tables.bundled(rng, given.rows)
if given.data:
    files = sorted(path for path in given.data.iterdir() if path.name.endswith((".parquet", ".csv", ".csv.gz")))
    chosen += [tables.read(path, rng, given.rows, given.columns) for path in files]
variations = [v for v in tables.VARIATIONS if given.variation in v.__name__.replace("_", " ")]
for table in chosen:
    if given.only not in table.name:
        continue
    kind = f"{table.X.shape[0]} × {table.X.shape[1]}, {'classes' if table.classes else 'numbers'}"
    print(f"{table.name}: {kind}{''.join(', ' + note for note in table.notes)}", flush=True)
    for variation in variations:
        other = sweep(found, table, variation, plan, seed)
        if other is not None:
            print(found.text(other), flush=True)
wrong = found.wrong()
print("\n".join(["", f"{len(wrong)} of {len(found.lines)} lines are not sound", *wrong]))
sys.exit(bool(wrong))
