"""Writes the inputs that fuzzing starts from: `python fuzz/seeds.py`, with numpy and pyarrow installed."""

import gzip
import io
import pathlib
import struct

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

CORPUS = pathlib.Path(__file__).parent / "corpus"


def put(target, name, data):
    folder = CORPUS / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)


def summary(m, p, n, pivots, value=0.5):
    """A summary without its check number, which the target adds."""
    body = b"PMFS" + struct.pack("<HHIIId", 1, 0, m, p, len(pivots), n)
    body += struct.pack(f"<{len(pivots)}I", *pivots)
    for j in pivots:
        body += struct.pack(f"<{m - j + p}d", 2.0, *[value] * (m - j + p - 1))
    return body + struct.pack(f"<{2 * p}d", *[0.25] * p, *[1.0] * p)


put("summary", "empty", summary(3, 1, 0.0, []))
put("summary", "full", summary(3, 1, 4.0, [0, 1, 2]))
put("summary", "gap", summary(4, 2, 9.5, [0, 2]))
put("summary", "one", summary(1, 1, 1.0, [0]))
put("summary", "huge", summary(2, 1, 2.0, [0, 1], 1e200))
put("summary", "tiny", summary(2, 1, 1e-300, [0, 1], 1e-200))


def update(form, size, m, p, n, pivots, bound=False):
    """An update of one client without its check number; the target puts the model in."""
    columns = 2 * (m - 1) + 1
    counts, moments = ([n, 0.0, 0.0], [n] + [0.5] * (columns - 1)) if bound else ([], [])
    body = b"PMFU" + struct.pack("<HBBQQ", 1, form, size, 0, 7)
    body += struct.pack("<6Id", 4, len(counts), len(moments), m, p, len(pivots), n) + b"anna"
    if bound:
        body += struct.pack("<dQ", 0.0, 0) + struct.pack(f"<{3 + columns}d", *counts, *moments)
    body += struct.pack(f"<{len(pivots)}I", *pivots)
    for i, j in enumerate(pivots):
        row = [n**0.5 if j == 0 else 2.0] + [0.5] * ((0 if form else m - j - 1) + p)
        body += struct.pack(f"<{len(row)}{'d' if i == 0 or size == 8 else 'f'}", *row)
    sums = [n] + [0.0] * (p - 1) if p == 3 and not bound else [1.0] * p
    return body + struct.pack(f"<{2 * p}d", *[0.25] * p, *sums)


put("update", "values", update(0, 8, 3, 1, 9.0, [0, 1, 2]))
put("update", "single", update(0, 4, 3, 1, 9.0, [0, 1, 2]))
put("update", "diagonal", update(1, 8, 3, 1, 9.0, [0, 1, 2]))
put("update", "diagonal-single", update(1, 4, 3, 1, 9.0, [0, 2]))
put("update", "rank", update(0, 8, 3, 1, 4.0, [0, 2]))
put("update", "classes", update(0, 8, 3, 3, 9.0, [0, 1, 2]))
put("update", "log-loss", update(0, 8, 3, 3, 9.0, [0, 1, 2], True))
put("update", "log-loss-diagonal", update(1, 4, 3, 3, 9.0, [0, 1, 2], True))
put("update", "wide", update(1, 8, 9, 1, 9.0, [0, 3, 8]))
put("update", "broadcast", b"PMFB" + struct.pack("<HHQQdII3d", 1, 0, 0, 2, 9.0, 3, 1, 0.5, -1.0, 2.0))

SPECS = """linear
poly:2
poly:3,interactions=false
log
exp
power:0.5
power:-2.5
spline:8
spline:4,lo=-1,hi=2.5
rbf:5
rbf:3,length=0.5,scale=range,seed=3
rff:8,gamma=0.1,seed=7
rff:4,scale=none
relu:6,scale=none
ntk:4,seed=18446744073709551615
 RFF : 4 , SEED = 1"""
for i, spec in enumerate(SPECS.splitlines()):
    numbers = struct.pack("<4d", 1.5, -2.0, 1e150, 3e-200)
    put("basis", f"spec{i:02}", bytes([i % 4]) + spec.encode() + b"\0" + numbers)

TEXTS = {
    "plain": "a,b,c\n1,2.5,x\n-3,1e5,y\n0,.5,x\n",
    "quoted": 'a;"b;c"\n"1";"two ""words"""\r\n2;"line\nend"\r\n',
    "missing": "a,b\n1,\n,2\nNA,nan\n3,4",
    "dates": "day,at\n2024-02-29,2024-02-29T12:30:00Z\n1970-01-01,1969-12-31 23:59:59.5\n",
    "blank": "\n\na b\n\n1 2\n\n\n3 4\n",
    "bom": "\ufeffa,b\n1,2\n",
    "ragged": "a,b\n1,2,3\n1\n",
    "truth": "t,u\ntrue,False\n0,1\n",
}
for i, (name, text) in enumerate(TEXTS.items()):
    for bits in (0, 2, 0x43):
        put("csv", f"{name}{bits}", bytes([bits, i * 5 % 32]) + text.encode())
put("csv", "gzip", bytes([0, 0]) + gzip.compress(b"a,b\n1,2\n", mtime=0))

ARRAYS = {
    "f8": np.arange(6.0).reshape(3, 2),
    "i2": np.arange(5, dtype="<i2"),
    "be": np.arange(6, dtype=">f4").reshape(2, 3),
    "fortran": np.asfortranarray(np.arange(6.0).reshape(3, 2)),
    "bool": np.array([True, False]),
    "half": np.arange(3, dtype="<f2"),
    "words": np.array(["a", "bc"]),
    "scalar": np.float64(3),
    "none": np.zeros((0, 2)),
}
for i, (name, array) in enumerate(ARRAYS.items()):
    out = io.BytesIO()
    np.save(out, array)
    put("npy", name, bytes([i % 2 * 2, i]) + out.getvalue())
for name, save in {"stored": np.savez, "packed": np.savez_compressed}.items():
    out = io.BytesIO()
    save(out, x=np.arange(6.0).reshape(3, 2), y=np.arange(3, dtype="u1"), s=np.float32(1))
    put("npy", name, bytes([0x40, 8]) + out.getvalue())

for i, (kind, form, size) in enumerate(
    [(8, "B", 1), (9, "b", 1), (11, "h", 2), (12, "i", 4), (13, "f", 4), (14, "d", 8)]
):
    images = struct.pack(">BBBBIII", 0, 0, kind, 3, 3, 2, 1) + struct.pack(f">6{form}", *range(6))
    put("idx", f"images{kind}", bytes([i % 2 * 0x40, i]) + images)
    labels = struct.pack(">BBBBI", 0, 0, kind, 1, 3) + struct.pack(f">3{form}", *range(3))
    put("idx", f"labels{kind}", bytes([0, i]) + labels)
put("idx", "gzip", bytes([0, 0]) + gzip.compress(struct.pack(">BBBBI", 0, 0, 8, 1, 3) + b"abc", mtime=0))

COLUMNS = {
    "numbers": {"x": pa.array([1.5, None, 3.0]), "i": pa.array([1, 2, 3], pa.int32())},
    "words": {"w": pa.array(["a", "b", None]).dictionary_encode(), "s": pa.array(["x", "yy", "z"])},
    "dates": {"d": pa.array([0, 1, 2], pa.date32()), "t": pa.array([0, 10**9, None], pa.timestamp("us", "UTC"))},
    "blocks": {"b": pa.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], pa.list_(pa.float32(), 2))},
    "lists": {"l": pa.array([[1.0, 2.0], [3.0, 4.0]]), "t": pa.array([True, None])},
    "odd": {"m": pa.array([1, 2, 3]).cast(pa.decimal128(22, 2)), "h": pa.array(np.arange(3, dtype="f2"))},
}
for i, (name, columns) in enumerate(COLUMNS.items()):
    table = pa.table(columns)
    for j, compression in enumerate(["none", "snappy", "zstd"]):
        if i % 3 == j or j == 0:
            out = io.BytesIO()
            pq.write_table(table, out, compression=compression, store_schema=j == 1, write_statistics=j == 1)
            put("columnar", f"{name}-{compression}.parquet", bytes([i % 2 * 2, i]) + out.getvalue())
    for start in (pa.ipc.new_file, pa.ipc.new_stream):
        out = io.BytesIO()
        packed = pa.ipc.IpcWriteOptions(compression="lz4" if i == 0 else None)
        with start(out, table.schema, options=packed) as writer:
            writer.write_table(table)
        put("columnar", f"{name}-{start.__name__[4:]}.arrow", bytes([0x40 + i % 2 * 2, i]) + out.getvalue())

for base in range(8):
    put("model", f"bytes{base}", bytes([base * 2, 18, 0, 3]))
    for target in ("model", "values"):
        put(target, f"none{base}", bytes([base * 2]))
        for cell in range(0, 36, 3):
            edit = bytes([base * 2 + 1 + cell % 2 * 128, cell, 3, 0, 1, 1, 48 + cell % 10])
            put(target, f"value{base}-{cell}", edit)

# What fuzzing found: a footer that announces two billion truth values.
FOOTER = bytes([0x19, 0xF2, 0xFF, 0xFF, 0xFF, 0xFF, 0x07, 0])
put("columnar", "long-list.parquet", b"\0\0PAR1" + FOOTER + struct.pack("<I", len(FOOTER)) + b"PAR1")
