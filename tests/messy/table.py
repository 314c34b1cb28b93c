"""Writes docs/messy.md: sixty messy files, and what pmfcl, pandas and Polars make of each.

    PMFCL_MESSY=/tmp/messy cargo test -p pmfcl-cli --test cli messy
    python tests/messy/table.py /tmp/messy [--check]

The first command makes the files, learns each with the real program, compares what happens with what is expected, and leaves files
and list behind; this script reads the same files with pandas and Polars as they do by default, and writes the table. With --check
it compares the table with docs/messy.md instead.
"""

import argparse
import json
import sys
import warnings
from pathlib import Path

import pandas as pd
import polars as pl

PAGE = Path(__file__).resolve().parents[2] / "docs/messy.md"

HEAD = """# Messy files, and what becomes of each

pmfcl learns each, prints what it took every column for, or refuses it with one line that says where
and what to do. Next to it stands what `pandas.read_csv` ({pandas}) and `polars.read_csv` ({polars}) make
of the same file without options: the rows, and what each column holds. Texts that were meant as
numbers (percent signs, hexadecimal numbers) are categories for pmfcl too, where there are few.

The files are made and learned by `crates/pmfcl-cli/tests/cli/messy.rs`; `tests/messy/table.py`
writes this page.

| file | options of pmfcl | pmfcl | pandas | Polars |
| --- | --- | --- | --- | --- |
"""

KINDS = {"i": "whole", "u": "whole", "f": "number", "b": "boolean", "O": "text", "M": "date"}


def cell(text):
    """A text that is safe in a cell of a table."""
    return (
        text.replace("\\", "\\\\")
        .replace("|", "\\|")
        .replace("\n", "⏎")
        .replace("\0", "␀")
        .replace("\t", "⇥")
        .replace("\ufeff", "␣")
    )


def shortened(text, most=44):
    """The first line of a text, cut."""
    lines = text.strip().splitlines() or [""]
    return lines[0] if len(lines[0]) <= most else lines[0][: most - 1] + "…"


def columns(names, kinds, gaps):
    """What each column holds, and how many of its cells are empty."""
    parts = [
        f"`{shortened(str(name), 14)}` {kind}" + (f" ({gap} empty)" if gap else "")
        for name, kind, gap in zip(names, kinds, gaps, strict=True)
    ]
    return ", ".join(parts[:4]) + (", …" if len(parts) > 4 else "")


def by_pandas(path):
    """What pandas makes of a file."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            table = pd.read_csv(path)
    except Exception as error:  # noqa: BLE001  any error is the answer
        return f"error: {shortened(str(error))}"
    kinds = [KINDS.get(kind.kind, "text") for kind in table.dtypes]
    rows = f"{len(table)} rows: " + columns(table.columns, kinds, table.isna().sum())
    return rows + ("; the first column became the index" if not isinstance(table.index, pd.RangeIndex) else "")


def by_polars(path):
    """What Polars makes of a file."""
    try:
        table = pl.read_csv(path)
    except Exception as error:  # noqa: BLE001  any error is the answer
        return f"error: {shortened(str(error))}"
    names = {"Int64": "whole", "Float64": "number", "Boolean": "boolean", "String": "text", "Date": "date"}
    kinds = [names.get(str(kind), str(kind)) for kind in table.dtypes]
    return f"{len(table)} rows: " + columns(table.columns, kinds, [table[name].null_count() for name in table.columns])


def main():
    """Writes or compares the page."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    page = HEAD.format(pandas=pd.__version__, polars=pl.__version__)
    for case in json.loads((arguments.folder / "cases.json").read_text(encoding="utf-8")):
        path = arguments.folder / case["file"]
        options = f"`{case['options']}`" if case["options"] else ""
        row = [case["what"], options, case["outcome"], by_pandas(path), by_polars(path)]
        page += "| " + " | ".join(map(cell, row)) + " |\n"
    if not arguments.check:
        PAGE.write_text(page, encoding="utf-8")
    elif PAGE.read_text(encoding="utf-8") != page:
        sys.exit(f"{PAGE} is not what the files give; run this script without --check")


if __name__ == "__main__":
    main()
