"""What a cluster costs: `python bench/cluster.py costs|simulate|throughput|scaling|stream|tasks`.

`costs` measures one process, fits a model of its time and prints what that predicts for large tables; `simulate` adds slow and
failing workers. The others start a standalone Spark master and two workers on loopback, as tests/spark does, and print times and
ratios of one run. Needs pmfcl as a release build (maturin build --release), pyspark and Java.
"""

import argparse
import contextlib
import heapq
import os
import resource
import signal
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
from pmfcl import ContinualClassifier, ContinualRegressor, _files, distributed

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "spark"))


def best(action, repeats=3, seconds=0.0):
    """The least time of some repetitions, of more where they take less than `seconds` together, and the last result: what the
    machine can do when it is left alone."""
    times = []
    while len(times) < repeats or sum(times) < seconds:
        start = time.perf_counter()
        result = action()
        times.append(time.perf_counter() - start)
    return min(times), result


def wide_table(rows, columns, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, columns))
    y = x @ rng.normal(size=columns) + rng.normal(size=rows)
    return pa.table({**{f"x{k}": x[:, k] for k in range(columns)}, "y": y})


def measured_costs(sizes):
    """Seconds of each stage: rows, columns, summarize, merge, learn, bytes of a part."""
    found = []
    for rows, columns in sizes:
        tables = [wide_table(rows, columns, seed) for seed in (1, 2)]
        make = lambda: ContinualRegressor(ridge=1e-3, accumulator="gram", n_jobs=1)
        recipe = distributed.Recipe.of(make(), tables[0].schema, target="y")
        summarize, part = best(lambda: distributed.summarize(recipe, [tables[0]]))
        other = distributed.summarize(recipe, [tables[1]])
        merge, both = best(lambda: distributed.merge([part, other]))
        learn, model = best(lambda: distributed.learn(make(), recipe, both), 2)
        solve, _ = best(lambda: model.predict(np.zeros((1, columns))), 1)
        found.append((rows, columns, summarize, merge, learn + solve, len(part)))
    return found


def fitted(found, terms, column):
    """Least squares of relative errors: coefficients, and predictions for the measurements."""
    A = np.array([terms(rows, columns) for rows, columns, *_ in found], dtype=float)
    t = np.array([row[column] for row in found])
    coefficients, *_ = np.linalg.lstsq(A / t[:, None], np.ones(len(t)), rcond=None)
    # A cost below zero has no meaning: such a term is left out.
    kept = coefficients > 0
    if not kept.all():
        part, *_ = np.linalg.lstsq(A[:, kept] / t[:, None], np.ones(len(t)), rcond=None)
        coefficients = np.zeros(len(coefficients))
        coefficients[kept] = part
    return coefficients, A @ coefficients


CASES = [(1e9, 1000, 100), (1e12, 100, 1000)]


def costs(arguments):
    sizes = [(200_000, 10), (100_000, 30), (60_000, 100), (20_000, 300), (10_000, 600), (8_000, 1000)]
    if arguments.quick:
        sizes = [(20_000, 10), (10_000, 30), (5_000, 100), (2_000, 200)]
    found = measured_costs(sizes)
    per_row, times = fitted(found, lambda n, m: (n, n * m, n * m * m), 2)
    merging, merges = fitted(found, lambda n, m: (1, m * m, m**3), 3)
    driver, drivers = fitted(found, lambda n, m: (1, m * m, m**3), 4)
    print(
        "| rows | columns | summarize, s | model, s | merge, s | model, s | learn and solve, s | model, s | part, bytes |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for row, a, b, c in zip(found, times, merges, drivers, strict=True):
        rows, columns, summarize, merge, learn, size = row
        print(
            f"| {rows:,} | {columns:,} | {summarize:.3f} | {a:.3f} | {merge:.4f} | {b:.4f} | {learn:.4f} | {c:.4f} | {size:,} |"
        )
    print()
    for name, unit, found_costs in (
        ("a row", "per row, per column, per column²", per_row),
        ("a merge", "once, per column², per column³", merging),
        ("the driver", "once, per column², per column³", driver),
    ):
        print(f"{name}: {', '.join(f'{c:.2e}' for c in found_costs)} s ({unit})")
    print()
    print(
        "| rows × columns | workers | summarizing, s | part | merges on a worker, s | to the driver | driver, s | sum, s |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for rows, m, workers in CASES:
        p = predicted(per_row, merging, driver, rows, m, workers)
        print(
            f"| {rows:.0e} × {m:,} | {workers:,} | {p['summarize']:,.0f} | {p['bytes'] / 1e6:.2f} MB | {p['merge']:.1f} | "
            f"{p['groups']} parts, {p['groups'] * p['bytes'] / 1e6:.0f} MB | {p['driver']:.1f} | {p['sum']:,.0f} |"
        )
    print()
    for m in (1000, 3000, 10_000, 30_000):
        part = 8 * (m * (m + 1) / 2 + m)
        print(
            f"{m:,} columns: a part of {part / 1e6:,.0f} MB, a merge of {merging @ [1, m * m, m**3]:,.1f} s, 1e6 rows in {1e6 * (per_row @ [1, m, m * m]):,.0f} s of one thread"
        )


# Partitions per worker: enough that the last ones are short.
PER_WORKER = 8


def predicted(per_row, merging, driver, rows, m, workers):
    """Seconds of a job of one thread per worker: partitions in groups of √partitions, each merged on a worker."""
    partitions = PER_WORKER * workers
    groups = int(np.sqrt(partitions))
    summarize = rows / workers * (per_row @ [1, m, m * m])
    one = merging @ [1, m * m, m**3]
    merge = partitions / groups * one * max(1, groups / workers)
    last = groups * one + driver @ [1, m * m, m**3]
    size = 8 * (m * (m + 1) / 2 + m)
    return {
        "summarize": summarize,
        "bytes": size,
        "merge": merge,
        "groups": groups,
        "driver": last,
        "sum": summarize + merge + last,
    }


def simulate(arguments):
    """Slow and failing workers: partitions are given to whoever is free; a partition lost with its worker is done again."""
    print(
        "| workers | partitions each | slow workers | failures per worker and hour | again where late | time / ideal |"
    )
    print("| --- | --- | --- | --- | --- | --- |")
    ideal = 330.0
    for workers, per_worker in ((100, 1), (100, 8), (1000, 8), (1000, 32)):
        for slow, failures, speculation in (
            (0.0, 0.0, False),
            (0.05, 0.0, False),
            (0.05, 0.0, True),
            (0.05, 0.1, False),
            (0.05, 0.1, True),
        ):
            ratios = [
                job(np.random.default_rng(seed), workers, per_worker, ideal, slow, failures, speculation) / ideal
                for seed in range(arguments.repeats)
            ]
            low, middle, high = np.quantile(ratios, [0.05, 0.5, 0.95])
            print(
                f"| {workers:,} | {per_worker} | {slow:.0%} at a third of the speed | {failures} | {'yes' if speculation else 'no'} | "
                f"{middle:.2f} ({low:.2f} to {high:.2f}) |"
            )


def job(rng, workers, per_worker, ideal, slow, failures, speculation):
    """Seconds of a job whose partitions would take `ideal / per_worker` each on a sound worker."""
    speed = np.where(rng.random(workers) < slow, 1 / 3, 1.0) * rng.lognormal(0.0, 0.1, workers)
    size = ideal / per_worker
    restart = 30.0  # a new executor
    waiting = list(range(workers * per_worker))
    running = []  # (end, worker, partition, failed)
    done = {}
    copies = dict.fromkeys(waiting, 0)
    free = [(0.0, worker) for worker in range(workers)]
    heapq.heapify(free)
    finished = 0.0

    def start(now, worker, partition):
        length = size * rng.lognormal(0.0, 0.15) / speed[worker]
        failed = rng.random() < 1 - np.exp(-failures * length / 3600)
        end = now + (length * rng.random() + restart if failed else length)
        copies[partition] += 1
        heapq.heappush(running, (end, worker, partition, failed))

    while len(done) < workers * per_worker:
        while free and waiting:
            now, worker = heapq.heappop(free)
            start(max(now, 0.0), worker, waiting.pop())
        if speculation and free and running and not waiting:
            late = [p for _, _, p, _ in running if p not in done and copies[p] == 1]
            while late and free:
                now, worker = heapq.heappop(free)
                start(now, worker, late.pop())
        end, worker, partition, failed = heapq.heappop(running)
        heapq.heappush(free, (end, worker))
        if failed:
            copies[partition] -= 1
            if partition not in done and copies[partition] == 0:
                waiting.append(partition)
        elif partition not in done:
            done[partition] = end
            finished = max(finished, end)
    return finished


@contextmanager
def spark_session(cores, memory="512m", python_memory=None, pinned=False):
    """A master, workers of one core each, and a session. A pinned worker has one processor, whatever it starts; elsewhere the JVM's
    own threads and the reading of files use all there are."""
    from conftest import Cluster
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    cluster = Cluster(Path(tempfile.mkdtemp(prefix="pmfcl-bench")))
    cluster.master = cluster.start("Master", "--port", str(cluster.port), "--webui-port", str(cluster.page))
    session = None
    try:
        for processor in sorted(os.sched_getaffinity(0))[:cores]:
            cluster.add_worker("4g", processor if pinned else None)
        cluster.wait(cores)
        builder = (
            SparkSession.builder.master(cluster.url)
            .appName("pmfcl bench")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.memory", "1g")
            .config("spark.executor.memory", memory)
            .config("spark.executor.cores", "1")
            .config("spark.cores.max", str(cores))
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.sql.shuffle.partitions", "4")
            .config("spark.sql.adaptive.enabled", "false")
        )
        if python_memory is not None:
            builder = builder.config("spark.executor.pyspark.memory", python_memory)
        session = builder.getOrCreate()
        session.sparkContext.setLogLevel("ERROR")
        yield session
    finally:
        if session is not None:
            session.stop()
        cluster.stop()


def generated(session, rows, columns, partitions):
    """Rows made by the executors in the JVM, and a number to predict: multiples of roots of primes without their whole parts,
    which cost next to nothing, fill their range evenly and are not correlated."""
    primes = [n for n in range(2, 10 * columns + 10) if all(n % k for k in range(2, int(n**0.5) + 1))]
    names = [*(f"x{k}" for k in range(columns)), "noise"]
    roots = [f"id * {prime**0.5!r}D" for prime in primes]
    numbers = [f"{root} - floor({root}) AS {name}" for root, name in zip(roots, names, strict=False)]
    df = session.range(0, rows, numPartitions=partitions).selectExpr(*numbers)
    score = " + ".join(f"{np.cos(k)!s}D * x{k}" for k in range(columns))
    return df.selectExpr(*names[:-1], f"{score} + 0.5D * noise AS y")


def read_bare(df):
    """Brings all rows to Python as Arrow and does nothing with them."""

    def count(batches):
        import pyarrow as pa

        yield pa.RecordBatch.from_pydict({"rows": [sum(batch.num_rows for batch in batches)]})

    return sum(row["rows"] for row in df.mapInArrow(count, "rows long").collect())


def read_files_bare(df):
    """Has the executors read the files of a DataFrame and do nothing with the rows."""
    scan = _files.scan_of(df)
    packed = scan.packed()

    def count(numbers):
        import pyarrow as pa
        from pmfcl import _files

        def work(batches, place):
            return str(sum(batch.num_rows for batch in batches)).encode(), None

        for number in [number for batch in numbers for number in batch.column(0).to_pylist()]:
            state, error, unlike = _files.perform(packed, number, work, "")
            if state is None:
                raise RuntimeError(error or unlike)
            yield pa.RecordBatch.from_pydict({"rows": [int(state)]})

    numbers = df.sparkSession.range(0, scan.parts, 1, scan.parts)
    return sum(row["rows"] for row in numbers.mapInArrow(count, "rows long").collect())


def generated_by_numpy(session, rows, columns, partitions):
    """The same kind of rows, made by the executors with NumPy: Spark takes long to plan sums of hundreds of columns."""
    names = [f"x{k}" for k in range(columns)]

    def make(batches):
        import numpy as np
        import pyarrow as pa

        for batch in batches:
            rng = np.random.default_rng(batch.column(0)[0].as_py())
            x = rng.standard_normal((columns, batch.num_rows))
            y = np.cos(np.arange(columns)) @ x + 0.5 * rng.standard_normal(batch.num_rows)
            label = (y > 0).astype(float)
            grade = pa.array(np.where(y > 0, "high", "low"))
            yield pa.RecordBatch.from_arrays(
                [*map(pa.array, x), pa.array(y), pa.array(label), grade], names=[*names, "y", "label", "grade"]
            )

    kinds = ", ".join(f"{name} double" for name in [*names, "y", "label"])
    return session.range(0, rows, numPartitions=partitions).mapInArrow(make, f"{kinds}, grade string")


@contextmanager
def written(session, rows, columns):
    """The generated rows in Parquet files as Spark writes them, one for each of 8 partitions, and a DataFrame of them."""
    with tempfile.TemporaryDirectory(prefix="pmfcl-bench") as folder:
        generated_by_numpy(session, rows, columns, 8).write.mode("overwrite").parquet(folder)
        yield session.read.parquet(folder)


# Seconds of the repetitions of one way together, at least.
TOGETHER = 12.0


def throughput(arguments):
    from pmfcl import spark
    from pyspark.ml.classification import LogisticRegression
    from pyspark.ml.feature import VectorAssembler
    from pyspark.ml.regression import LinearRegression

    with spark_session(2, memory="2500m") as session:
        for shape in arguments.shapes:
            rows, width = (int(number) for number in shape.split("x"))
            columns = [f"x{k}" for k in range(width)]
            with written(session, rows, width) as df:
                assemble = VectorAssembler(inputCols=columns, outputCol="features").transform
                # Every way starts from a DataFrame of files that was just made, as a user's does.
                numbers, classes = df.select(*columns, "y"), df.select(*columns, "grade")
                linear, logistic = LinearRegression(solver="normal", labelCol="y"), LogisticRegression(labelCol="label")

                def squared(files, numbers=numbers):
                    return spark.learn(numbers, ContinualRegressor(ridge=0.0), target="y", files=files)

                def gaussian(files, classes=classes):
                    return spark.learn(classes, ContinualClassifier(loss="gaussian"), target="grade", files=files)

                ways = {
                    "reading the files": lambda numbers=numbers: read_files_bare(numbers),
                    "squared, files": lambda: squared(True),
                    "reading through Spark": lambda numbers=numbers: read_bare(numbers),
                    "squared, through Spark": lambda: squared(False),
                    "LinearRegression": lambda df=df: linear.fit(assemble(df)),
                    "gaussian, files": lambda: gaussian(True),
                    "gaussian, through Spark": lambda: gaussian(False),
                    "LogisticRegression": lambda df=df: logistic.fit(assemble(df)),
                }
                times, found = {}, {}
                for name, action in ways.items():
                    times[name], found[name] = best(action, 1 + arguments.repeats, TOGETHER)
                    print(f"{name}: {times[name]:.2f} s", file=sys.stderr, flush=True)
                # The same for rows that are in memory, with the vectors of Spark's learners assembled beforehand.
                vectors = assemble(df).select("features", "y", "label").persist()
                vectors.count()
                times["LinearRegression, vectors cached"], _ = best(
                    lambda: linear.fit(vectors), 1 + arguments.repeats, TOGETHER
                )
                times["LogisticRegression, vectors cached"], _ = best(
                    lambda: logistic.fit(vectors), 1 + arguments.repeats, TOGETHER
                )
                vectors.unpersist()
            gap = np.max(np.abs(found["squared, files"].coef_ - found["LinearRegression"].coefficients.toArray()))
            other = np.max(np.abs(found["squared, files"].coef_ - found["squared, through Spark"].coef_))
            print(
                f"{rows:,} × {width}: coefficients differ from LinearRegression by {gap:.1e}, from those through Spark by {other:.1e}"
            )
            print("| way | seconds | / squared, files | / gaussian, files |")
            print("| --- | --- | --- | --- |")
            for name, seconds in times.items():
                ratios = [seconds / times[f"{loss}, files"] for loss in ("squared", "gaussian")]
                print(f"| {name} | {seconds:.2f} | {ratios[0]:.2f} | {ratios[1]:.2f} |", flush=True)


def scaling(arguments):
    """One worker and two, of one processor each, on the same files, and on rows that Spark makes and hands to Python."""
    from pmfcl import spark

    times = {}
    for workers in (1, 2):
        with (
            spark_session(workers, memory="1g", pinned=True) as session,
            written(session, arguments.rows, arguments.columns) as df,
        ):
            made = generated(session, arguments.rows // 4, arguments.columns, 8)
            columns = [f"x{k}" for k in range(arguments.columns)]
            for name, rows in (("files", df), ("rows made by Spark", made)):
                times[name, workers], _ = best(
                    lambda rows=rows: spark.learn(rows, ContinualRegressor(ridge=0.0), target="y", features=columns),
                    1 + arguments.repeats,
                )
    for name, rows in (("files", arguments.rows), ("rows made by Spark", arguments.rows // 4)):
        one, two = times[name, 1], times[name, 2]
        print(
            f"{name}, {rows:,} × {arguments.columns}: 1 worker {one:.2f} s, 2 workers {two:.2f} s: {one / two:.2f} times as fast"
        )


class Memory(threading.Thread):
    """The most memory that executors have had, with the Python processes they started, in MB: looked at every half second.

    Every executor is put into a control group of its own, which the system ends a process of rather than let it have more than
    `limit` bytes."""

    GROUPS = Path("/sys/fs/cgroup/memory")

    def __init__(self, limit):
        super().__init__(daemon=True)
        self.limit, self.most, self.ended = limit, 0.0, threading.Event()
        self.groups = {}

    @property
    def is_held(self):
        """Whether the limit is one that the system holds."""
        return bool(self.groups)

    def hold(self, executor, processes):
        """Limits an executor and the processes it has started; those it will start are limited as well."""
        if executor in self.groups or not os.access(self.GROUPS, os.W_OK):
            return
        group = self.GROUPS / f"pmfcl-bench-{executor}"
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(self.limit))
        self.groups[executor] = group
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                (group / "cgroup.procs").write_text(process)

    def held(self):
        """The most bytes that the system has counted for an executor, and how often one was at its limit."""
        read = lambda group, name: int((group / name).read_text())
        most = max(read(group, "memory.max_usage_in_bytes") for group in self.groups.values())
        return most, sum(read(group, "memory.failcnt") for group in self.groups.values())

    def release(self):
        """Removes the control groups, whose processes have ended."""
        for group in self.groups.values():
            with contextlib.suppress(OSError):
                group.rmdir()

    def run(self):
        while not self.ended.wait(0.5):
            own, parent, names = {}, {}, {}
            for place in Path("/proc").glob("[0-9]*"):
                try:
                    status = (place / "status").read_text()
                    names[place.name] = (place / "cmdline").read_text()
                except OSError:
                    continue
                facts = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
                parent[place.name] = facts["PPid"].strip()
                own[place.name] = int(facts.get("VmRSS", "0 kB").split()[0]) / 1e3
            executors = {pid: [] for pid, name in names.items() if "CoarseGrainedExecutorBackend" in name}
            for pid in own:
                above = pid
                while above in parent and above not in executors:
                    above = parent[above]
                if above in executors:
                    executors[above].append(pid)
            for executor, processes in executors.items():
                self.hold(executor, processes)
                self.most = max(self.most, sum(own[pid] for pid in processes))

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *failure):
        self.ended.set()
        self.join()


def stream(arguments):
    from pmfcl import spark

    columns = 50
    rows = int(arguments.gigabytes * 1e9 / 8 / columns)
    # Spark limits the address space of Python, and libraries reserve more of it than they use: what counts is the memory in use.
    with spark_session(2, memory="512m", python_memory="1g") as session:
        df = generated(session, rows, columns, 64)
        names = [f"x{k}" for k in range(columns)]
        start = time.perf_counter()
        with Memory(limit=1 << 30) as memory:
            model = spark.learn(df, ContinualRegressor(ridge=0.0), target="y", features=names)
        seconds = time.perf_counter() - start
        if memory.is_held:
            most, at_limit = memory.held()
            held = f"held to 1 GB by the system, which counted {most / 1e6:,.0f} MB with cached files and reclaimed some {at_limit:,} times"
        else:
            held = "not held to a limit: no control groups here"
        truth = np.cos(np.arange(columns))
        print(
            f"{rows:,} rows × {columns} columns ({arguments.gigabytes} GB of numbers) in {seconds:.0f} s; executors (512 MB for the "
            f"JVM's objects, 1 GB of addresses for Python; {held}) had at most {memory.most:,.0f} MB each in use; {model.n_samples_:,.0f} samples, "
            f"coefficients off by {np.max(np.abs(model.coef_ - truth)):.1e}"
        )
    memory.release()


def tasks(arguments):
    from pmfcl import spark

    with spark_session(2) as session:
        df = session.range(0, 20 * arguments.tasks, numPartitions=8).selectExpr(
            f"id % {arguments.tasks} AS task",
            "double(id % 17) AS a",
            "double(id % 23) AS b",
            "double(id % 17) * 2 AS y",
        )
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        start = time.perf_counter()
        model = spark.learn(df, ContinualRegressor(ridge=0.1), target="y", task="task")
        seconds = time.perf_counter() - start
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1e3
        print(f"{len(model.tasks_):,} tasks in one pass: {seconds:.1f} s, driver grew by {grown:.0f} MB")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    ways = parser.add_subparsers(required=True)
    for function in (costs, simulate, throughput, scaling, stream, tasks):
        one = ways.add_parser(function.__name__)
        one.set_defaults(run=function)
        one.add_argument("--rows", type=int, default=500_000)
        one.add_argument("--columns", type=int, default=30)
        one.add_argument("--shapes", nargs="+", default=["1000000x30", "400000x100", "150000x300"])
        one.add_argument("--repeats", type=int, default=20 if function is simulate else 3)
        one.add_argument("--gigabytes", type=float, default=20.0)
        one.add_argument("--tasks", type=int, default=10_000)
        one.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    # A cluster is stopped whoever ends this process.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    arguments.run(arguments)


if __name__ == "__main__":
    main()
