"""pyarrow and Polars as peers for reading: one request per line, best seconds per reply.

    make DIR ROWS WIDTH    writes DIR/wide.parquet and DIR/wide.csv unless they are there; replies with their bytes
    columns FILE REPS      Parquet into columns (pyarrow)
    rows FILE REPS         Parquet into a row-major matrix (pyarrow; the faster of its two ways)
    polars FILE REPS       CSV into columns (Polars)
    arrow FILE REPS        CSV into columns (pyarrow)

Times are wall-clock, on as many threads as the libraries take.
"""

import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq


def make(directory, rows, width):
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    parquet, csv = directory / "wide.parquet", directory / "wide.csv"
    if not parquet.exists() or not csv.exists():
        x = np.random.default_rng(1).standard_normal((int(rows), int(width)))
        names = [f"x{j}" for j in range(x.shape[1] - 1)] + ["y"]
        x[:, -1] = x[:, :-1] @ np.linspace(-1, 1, x.shape[1] - 1) + 0.1 * x[:, -1]
        table = pa.table([pa.array(np.ascontiguousarray(x[:, j])) for j in range(x.shape[1])], names)
        pq.write_table(table, parquet)
        pc.write_csv(table, csv)
    return f"{parquet.stat().st_size} {csv.stat().st_size}"


def best(work, reps):
    seconds = []
    for _ in range(int(reps)):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def columns(file, reps):
    return best(lambda: pq.read_table(file), reps)


def rows(file, reps):
    def stacked():
        table = pq.read_table(file)
        return np.column_stack([c.to_numpy() for c in table.columns])

    def tensor():
        batch = pq.read_table(file).combine_chunks().to_batches()[0]
        return batch.to_tensor(row_major=True).to_numpy()

    return min(best(stacked, reps), best(tensor, reps))


def polars(file, reps):
    return best(lambda: pl.read_csv(file), reps)


def arrow(file, reps):
    return best(lambda: pc.read_csv(file), reps)


for line in sys.stdin:
    verb, *arguments = line.split()
    print(globals()[verb](*arguments), flush=True)
