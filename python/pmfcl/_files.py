"""Parquet files that the executors of Spark read themselves.

Rows that go from Spark's JVM to Python take most of the time of a job. Where a DataFrame is nothing but columns of Parquet files,
`scan_of` says on the driver which files and columns those are, and `perform` reads them on the executors, by row group. The rows
are those that Spark would read: whatever is not certain to be the same is left to Spark.
"""

import json
import os
import pickle
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

from .distributed import _threads

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

PROJECT = "org.apache.spark.sql.catalyst.plans.logical.Project"
RELATION = "org.apache.spark.sql.execution.datasources.LogicalRelation"
ATTRIBUTE = "org.apache.spark.sql.catalyst.expressions.AttributeReference"
ALIAS = "org.apache.spark.sql.catalyst.expressions.Alias"
FILES = "org.apache.spark.sql.execution.datasources.HadoopFsRelation"
LISTED = "org.apache.spark.sql.execution.datasources.InMemoryFileIndex"
FORMAT = "org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat"

# Settings under which Spark reads Parquet differently, or passes over files.
SETTINGS = (
    "spark.sql.files.ignoreCorruptFiles",
    "spark.sql.files.ignoreMissingFiles",
    "spark.sql.parquet.binaryAsString",
    "spark.sql.parquet.fieldId.read.enabled",
)
# Notes on a column that do not change its values.
NOTES = {"ml_attr", "comment"}
# Types of Spark whose values in a file are certain: the file's physical and logical types, and those of Arrow.
TYPES = {
    "double": ("DOUBLE", {"NONE"}, {"double"}),
    "float": ("FLOAT", {"NONE"}, {"float"}),
    "bigint": ("INT64", {"NONE", "INT"}, {"int64"}),
    "int": ("INT32", {"NONE", "INT"}, {"int32"}),
    "smallint": ("INT32", {"INT"}, {"int16"}),
    "tinyint": ("INT32", {"INT"}, {"int8"}),
    "boolean": ("BOOLEAN", {"NONE"}, {"bool"}),
    "string": (
        "BYTE_ARRAY",
        {"STRING"},
        {"string", "large_string", "string_view", "dictionary<values=string, indices=int32, ordered=0>"},
    ),
    "date": ("INT32", {"DATE"}, {"date32[day]"}),
}
# Before this day Spark may take the days of a file in the Julian calendar.
GREGORIAN = date(1582, 10, 15)
# Numbers read from a file at once, where that is enough rows: few enough for a processor's cache while columns become rows.
READ_NUMBERS, READ_ROWS = 1 << 18, 4096
# A file in Hadoop's words. One text for all files is one call of the JVM instead of seven for each.
STATUS = re.compile(r"\{path=file:(/[^\n]*?); isDirectory=false; length=(\d+); [^\n]*?modification_time=(\d+); ")


@dataclass(frozen=True)
class File:
    """A file as it was listed; `modified` in milliseconds since 1970."""

    path: str
    size: int
    modified: int

    def changed(self) -> str | None:
        """What is wrong where the file is no longer what was listed."""
        advice = "make the DataFrame again, or say files=False where workers have copies of their own"
        try:
            now = os.stat(self.path)
        except OSError as failed:
            return f"{failed.strerror}; the file was there when the DataFrame was made: {advice}"
        modified = now.st_mtime_ns // 1_000_000
        # Java tells whole seconds on some systems.
        same = modified == self.modified or (self.modified % 1000 == 0 and modified // 1000 == self.modified // 1000)
        if same and now.st_size == self.size:
            return None
        return (
            f"the file has {now.st_size} bytes of {_time(modified)}, and had {self.size} of {_time(self.modified)} when the "
            f"DataFrame was made: {advice}"
        )


def _time(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(sep=" ", timespec="milliseconds")


@dataclass(frozen=True)
class Column:
    """A column of a DataFrame: its name, its name in the files, and its type in Spark's words."""

    name: str
    stored: str
    kind: str


@dataclass(frozen=True)
class Scan:
    """Columns of files, in parts of about as many bytes each."""

    files: tuple[File, ...]
    columns: tuple[Column, ...]
    parts: int

    def packed(self) -> bytes:
        """As bytes, for `perform`."""
        return pickle.dumps(self)

    def part(self, number: int) -> Iterator[tuple[File, int, int]]:
        """Files of a part, each with the range of its bytes. Parts have the bytes of all files end to end, each byte once."""
        total = sum(file.size for file in self.files)
        first, end = number * total // self.parts, (number + 1) * total // self.parts
        before = 0
        for file in self.files:
            start, stop = max(first - before, 0), min(end - before, file.size)
            if start < stop:
                yield file, start, stop
            before += file.size


def scan_of(df: "DataFrame") -> Scan | None:
    """The files a DataFrame consists of; None where it is anything but columns of Parquet files, or that is not certain."""
    if getattr(df, "_jdf", None) is None:
        return None  # Spark Connect, which has no plans.
    try:
        return _scan_of(df)
    except Exception:  # noqa: BLE001 - plans are no public interface of Spark: what is not understood is left to Spark
        return None


def _scan_of(df: "DataFrame") -> Scan | None:
    kinds = {}
    for one in df.schema.fields:
        if one.dataType.simpleString() not in TYPES or set(one.metadata or {}) - NOTES or "." in one.name:
            return None
        kinds[one.name] = one.dataType.simpleString()
    # DataFrames that are cached are another kind of plan, so they are left to Spark.
    plan = df._jdf.queryExecution().optimizedPlan()
    nodes = json.loads(plan.toJSON())
    if any(node["class"] != PROJECT for node in nodes[:-1]) or nodes[-1]["class"] != RELATION:
        return None
    stored = _stored_names(nodes)
    for _ in nodes[:-1]:
        plan = plan.child()
    relation = plan.relation()
    if stored is None or relation.getClass().getName() != FILES or plan.isStreaming():
        return None
    location = relation.location()
    plain = (
        plan.catalogTable().isEmpty()
        and relation.fileFormat().getClass().getName() == FORMAT
        and location.getClass().getName() == LISTED
        and relation.partitionSchema().length() == 0
        and relation.bucketSpec().isEmpty()
        and relation.options().keySet().mkString("\n").lower() in ("", "path")
    )
    if not plain or not _usual_settings(df):
        return None
    known = set(relation.dataSchema().fieldNames())
    columns = tuple(Column(name, stored[name], kind) for name, kind in kinds.items())
    if len(stored) != len(columns) or any(c.stored not in known or "." in c.stored for c in columns):
        return None
    listed = location.allFiles()
    found = [File(path, int(size), int(time)) for path, size, time in STATUS.findall(listed.mkString("\n", "\n", "\n"))]
    if len(found) != listed.size():
        return None
    files = tuple(sorted((file for file in found if file.size), key=lambda file: file.path))
    return Scan(files, columns, _part_count(df, files)) if files else None


def _stored_names(nodes: list[dict[str, Any]]) -> dict[str, str] | None:
    """The name in the files of each column of a plan; None where a column is computed."""
    # From the relation up: identifiers of columns, and their names in the files.
    names = {tree[0]["exprId"]["id"]: tree[0]["name"] for tree in nodes[-1]["output"]}
    top = nodes[-1]["output"]
    for node in reversed(nodes[:-1]):
        top, below, names = node["projectList"], names, {}
        for tree in top:
            own = tree[-1]
            if [one["class"] for one in tree] not in ([ATTRIBUTE], [ALIAS, ATTRIBUTE]):
                return None
            names[tree[0]["exprId"]["id"]] = below[own["exprId"]["id"]]
    found = {tree[0]["name"]: names[tree[0]["exprId"]["id"]] for tree in top}
    return found if len(found) == len(top) else None


def _usual_settings(df: "DataFrame") -> bool:
    session = df.sparkSession
    hadoop = session.sparkContext._jsc.hadoopConfiguration()
    return (
        all(session.conf.get(name, "false") == "false" for name in SETTINGS)
        and hadoop.get("parquet.crypto.factory.class") is None
    )


def _part_count(df: "DataFrame", files: tuple[File, ...]) -> int:
    """As many parts as Spark would make of the files, rounded up so that all processors have the same number."""
    session = df.sparkSession
    settings = session._jsparkSession.sessionState().conf()
    opening = int(settings.filesOpenCostInBytes())
    processors = max(1, int(session.sparkContext.defaultParallelism))
    total = sum(file.size + opening for file in files)
    size = max(1, min(int(settings.filesMaxPartitionBytes()), max(opening, total // processors)))
    return -(-max(1, -(-total // size)) // processors) * processors


class Unlike(Exception):
    """A file that Spark may read in another way than Arrow."""


@dataclass
class Reading:
    """Row groups of files, and what went wrong with one of them."""

    columns: tuple[Column, ...]
    host: str
    started: bool = False
    # Whatever raises in the middle of a table is an error of that table to whoever reads it; these say what it was.
    unlike: str | None = None
    changed: str | None = None
    _footers: dict[str, Any] = field(default_factory=dict)

    def groups(self, file: File, start: int, stop: int) -> list[tuple[File, int]]:
        """Row groups whose middle is in a range of a file; the file has what Spark says it has."""
        self._check_unchanged(file)
        with self._opened(file) as opened:
            footer = opened.metadata
            if not footer.num_row_groups:
                return []
            self._check_types(file, opened)
            self._footers[file.path] = footer
        edges = [footer.row_group(at).column(0).data_page_offset for at in range(footer.num_row_groups)]
        middles = [(a + b) // 2 for a, b in zip(edges, [*edges[1:], file.size], strict=True)]
        # Whatever a footer says, a row group is in one part and no other.
        return [(file, at) for at, middle in enumerate(middles) if start <= min(max(middle, 0), file.size - 1) < stop]

    def batches(self, groups: Iterable[tuple[File, int]]) -> Iterator["pa.RecordBatch"]:
        """Rows of row groups, with the columns of the DataFrame."""
        import pyarrow as pa

        self.started = True
        by_file: dict[File, list[int]] = {}
        for file, group in groups:
            by_file.setdefault(file, []).append(group)
        names = [column.name for column in self.columns]
        rows = max(READ_ROWS, READ_NUMBERS // len(names))
        try:
            for file, own in by_file.items():
                self._check_unchanged(file)
                with self._opened(file) as opened:
                    stored = list(dict.fromkeys(column.stored for column in self.columns))
                    for batch in opened.iter_batches(rows, own, columns=stored, use_threads=_threads() != 1):
                        arrays = [batch.column(batch.schema.get_field_index(column.stored)) for column in self.columns]
                        self._check_dates(file, arrays)
                        yield pa.RecordBatch.from_arrays(arrays, names=names)
                self._check_unchanged(file)
        except Unlike as found:
            self.unlike = str(found)
            raise
        except pa.ArrowNotImplementedError as found:
            self.unlike = str(found)
            raise

    def _opened(self, file: File) -> Any:
        import pyarrow.parquet as pq

        return pq.ParquetFile(
            file.path,
            metadata=self._footers.get(file.path),
            # Whole columns of a row group may be larger than the memory of an executor.
            buffer_size=1 << 18,
            pre_buffer=False,
            page_checksum_verification=True,
        )

    def _check_unchanged(self, file: File) -> None:
        changed = file.changed()
        if changed is not None:
            self.changed = f"file {file.path} on {self.host}: {changed}"
            raise ValueError(self.changed)

    def _check_types(self, file: File, opened: Any) -> None:
        leaves = [opened.schema.column(at) for at in range(opened.metadata.num_columns)]
        stored = {leaf.path: leaf for leaf in leaves}
        arrow = opened.schema_arrow
        folded = [name.lower() for name in arrow.names]
        for column in self.columns:
            leaf, at = stored.get(column.stored), arrow.get_field_index(column.stored)
            if leaf is None or at < 0 or folded.count(column.stored.lower()) > 1:
                raise Unlike(f"file {file.path} has no column '{column.stored}', or several")
            physical, logical, kinds = TYPES[column.kind]
            found = str(arrow.field(at).type)
            if leaf.physical_type != physical or leaf.logical_type.type not in logical or found not in kinds:
                raise Unlike(f"file {file.path} has {found} in column '{column.stored}', not {column.kind}")

    def _check_dates(self, file: File, arrays: list[Any]) -> None:
        import pyarrow.compute as pc

        for column, values in zip(self.columns, arrays, strict=True):
            if column.kind == "date" and len(values) > values.null_count and pc.min(values).as_py() < GREGORIAN:
                raise Unlike(f"file {file.path} has a day before {GREGORIAN} in column '{column.stored}'")


def perform(
    packed: bytes, number: int, work: Callable[[Iterable[Any], str], tuple[bytes | None, str | None]], host: str
) -> tuple[bytes | None, str | None, str | None]:
    """Does some work on a part of the files: bytes, an error, or why Spark has to read the files."""
    scan: Scan = pickle.loads(packed)
    reading = Reading(scan.columns, host)
    groups: list[tuple[File, int]] = []
    for file, start, stop in scan.part(number):
        try:
            groups += reading.groups(file, start, stop)
        except Unlike as found:
            return None, None, str(found)
        except (OSError, ValueError) as failed:  # also those of Arrow
            place = f"file {file.path} on {host}"
            return None, reading.changed or f"{place}: {failed}; write the file again, or leave it out", None
    state, error = work(reading.batches(groups), f"partition {number} on {host}")
    if error is None or not reading.started:
        return state, error, None
    # Rows are summarized many at once, so that a row with an error may be of an earlier row group than the last one read.
    for file, group in groups:
        if reading.unlike or reading.changed:
            break
        _, own = work(reading.batches([(file, group)]), f"file {file.path}, row group {group} on {host}")
        if own is not None:
            error = own
            break
    return (None, None, reading.unlike) if reading.unlike else (None, reading.changed or error, None)
