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
    """A summary without its checksum, which the target adds."""
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


EXACT, BOUND = 24, 60
DIAGONAL, SPARSE, SINGLE = 2, 4, 8


def task(form, m, p, n, pivots, flags=EXACT, row=None):
    """A task summary without its checksum, which the target adds; numbers as in a message."""
    classes = p == 3
    bounded = flags == BOUND and not (form & DIAGONAL and p == 1)
    indicators = classes and not bounded
    counts = [n / 3] * 3 if indicators else [n, 0.0, 0.0] if classes else []
    moments = [n] + [0.5] * (2 * (m - 1)) if bounded else []
    # Indicators are their own squares, and sum to one in every row.
    shares = [[n**0.5 / 3] * 3, [0.5, -0.25, -0.25], [0.5, -0.75, 0.25]]
    if row:
        shares[1:] = [[0.0] * 3] * 2
    residual = [n / 3 - sum(z[k] ** 2 for z in shares) for k in range(3)] if indicators else [0.25] * p
    least = 0.0 if bounded else sum(residual) / (2 * n)
    body = b"PMFT" + struct.pack("<HBBdQdd", 1, flags, 1 | form, n, 0, least, 0.0)
    body += struct.pack("<5I", len(counts), 0, len(moments), 0, 0)
    body += struct.pack(f"<{len(counts) + len(moments)}d", *counts, *moments)
    body += struct.pack("<3Id", m, p, len(pivots), n)
    body += struct.pack(f"<{len(pivots)}I", *pivots)
    rows = []
    for i, j in enumerate(pivots):
        rest = (0 if form & DIAGONAL else m - j - 1) + p
        cells = row[:rest] if row else [0.5] * rest
        if indicators:
            cells = cells[: rest - p] + shares[i]
        rows.append([n**0.5 if j == 0 else 2.0] + cells)
    if form & SPARSE:
        there = [v != 0 for r in rows for v in r]
        bits = [sum(bit << k for k, bit in enumerate(there[i : i + 8])) for i in range(0, len(there), 8)]
        body += bytes(bits)
    for i, r in enumerate(rows):
        sent = [v for v in r if v != 0 or not form & SPARSE]
        body += struct.pack(f"<{len(sent)}{'f' if i > 0 and form & SINGLE else 'd'}", *sent)
    sums = counts if indicators else [1.0] * p
    return body + struct.pack(f"<{2 * p}d", *residual, *sums)


def update(*given, **named):
    """An update of one client without its checksums; the target puts them and the agreement in."""
    sent = task(*given, **named)
    return b"PMFU" + struct.pack("<HH32sQII", 2, 0, b"", 7, 4, len(sent) + 4) + b"anna" + sent


put("update", "values", update(0, 3, 1, 9.0, [0, 1, 2]))
put("update", "single", update(SINGLE, 3, 1, 9.0, [0, 1, 2]))
put("update", "diagonal", update(DIAGONAL, 3, 1, 9.0, [0, 1, 2], BOUND))
put("update", "diagonal-single", update(DIAGONAL | SINGLE, 3, 1, 9.0, [0, 2], BOUND))
put("update", "rank", update(0, 3, 1, 4.0, [0, 2]))
put("update", "classes", update(0, 3, 3, 9.0, [0, 1, 2]))
put("update", "log-loss", update(0, 3, 3, 9.0, [0, 1, 2], BOUND))
put("update", "log-loss-diagonal", update(DIAGONAL | SINGLE, 3, 3, 9.0, [0, 1, 2], BOUND))
put("update", "huber", update(0, 3, 1, 9.0, [0, 1, 2], BOUND))
put("update", "wide", update(DIAGONAL, 9, 1, 9.0, [0, 3, 8], BOUND))
put("update", "zeros", update(SPARSE, 3, 3, 9.0, [0, 1, 2], row=[1.0, 0.0, 0.0, 0.0, 0.0]))
put("update", "zeros-diagonal", update(DIAGONAL | SPARSE, 3, 3, 9.0, [0, 1, 2], BOUND, [0.0, 0.0, 1.0]))
theta = struct.pack("<II3dB", 3, 1, 0.5, -1.0, 2.0, 1)
put("update", "broadcast", b"PMFB" + struct.pack("<HH32sQd", 2, 0, b"", 2, 9.0) + theta)

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

for base in range(10):
    put("model", f"bytes{base}", bytes([base * 2, 18, 0, 3]))
    for target in ("model", "values"):
        put(target, f"none{base}", bytes([base * 2]))
        for cell in range(0, 57, 3):
            edit = bytes([base * 2 + 1 + cell % 2 * 128, cell, 3, 0, 1, 1, 48 + cell % 10])
            put(target, f"value{base}-{cell}", edit)

# What fuzzing found: a footer that announces two billion booleans.
FOOTER = bytes([0x19, 0xF2, 0xFF, 0xFF, 0xFF, 0xFF, 0x07, 0])
put("columnar", "long-list.parquet", b"\0\0PAR1" + FOOTER + struct.pack("<I", len(FOOTER)) + b"PAR1")


# A message of a round of secure aggregation, then edits: place and byte.
for turn in range(20):
    put("secagg", f"honest-{turn}", bytes([turn]))
    put("secagg", f"changed-{turn}", bytes([turn, 45, 0, 255, 60, 0, 1]))
    put("secagg", f"own-{turn}", bytes([128 + turn]) + struct.pack("<IIB", 1, 2, 3))


def broadcast(m, p, samples=5.0, flags=None):
    """A broadcast without its checksum, which the target adds."""
    body = b"PMFB" + struct.pack("<HH", 2, 0) + bytes(32) + struct.pack("<QdII", 3, samples, m, p)
    return body + struct.pack(f"<{m * p}d", *[0.5] * (m * p)) + bytes(flags or [1] * p)


for name, data in {
    "one": broadcast(3, 1),
    "two": broadcast(3, 2),
    "wide": broadcast(9, 1),
    "none": broadcast(0, 0),
    "flag": broadcast(3, 1, flags=[7]),
    "samples": broadcast(3, 1, float("nan")),
    "cut": broadcast(3, 1)[:-3],
}.items():
    put("broadcast", name, data)

for kind, texts in enumerate(
    [
        ["linear", "poly:2", "rff:8,gamma=0.1,seed=7", "spline:4,degree=2"],
        ["auto", "left-out", "0.5", "1e-300"],
        ["samples", "equal", "decay:0.5", "latest"],
        ["ledger", "compact"],
        ["squared", "huber:1.5", "poisson", "gaussian", "logistic"],
        ["gaussian shrinkage=0.1", "logistic curvature=sharp", "gaussian temperature=2"],
    ]
):
    for k, text in enumerate(texts):
        put("options", f"{kind}-{k}", bytes([kind]) + text.encode())

SCHEMA = b'{"columns":[{"name":"a","kind":"number"}],"inputs":[{"number":0}],"targets":["y"]}'
SETTINGS = (
    b'{"loss":"squared","kind":"regression","fixed_classes":null,"basis":"BASIS","intercept":true,"ridge":"auto",'
    b'"standardize":false,"memory":"ledger","accumulator":"qr","prefer":"samples"}'
)
for which in range(4):
    put("agreement", f"honest-{which}", bytes([which]))
    put("agreement", f"schema-{which}", bytes([which]) + SCHEMA)
    put("agreement", f"wide-{which}", bytes([which]) + b"\0" + SETTINGS.replace(b"BASIS", b"rff:999999,gamma=1"))
    put("agreement", f"numbers-{which}", bytes([which]) + b"\0\0" + struct.pack("<5d", 0, 0, 1, 1, 1))


def names(*parts):
    return b"\xff".join(part.encode() for part in parts)


put("output", "plain", names("rentals", "january", "february", "hours", "bikes"))
put("output", "script", names("<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "</title>", "<b", "<!--"))
put("output", "quotes", names('"', "'", '" onload="x', "\\", "\\u003c"))
put("output", "entities", names("&lt;script&gt;", "&amp;", "&#60;", "&", "a<b"))
put("output", "lines", names("a\nb", "a\rb", "a\tb", "\u2028", "]]>"))
put("output", "wide", names("ä", "日本", "🐟", "\u202e", "e\u0301"))
put("output", "empty", names("", "a", "b", "", ""))
