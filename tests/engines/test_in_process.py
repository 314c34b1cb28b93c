"""The recipes for DuckDB and Polars in docs/scale.md, as they stand there."""

import re
from pathlib import Path

import numpy as np
import pytest
from conftest import assert_same
from pmfcl import load

DOCUMENT = Path(__file__).parents[2] / "docs" / "scale.md"


def recipe(word):
    """The code of the document that imports a module."""
    blocks = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), flags=re.DOTALL)
    (block,) = [block for block in blocks if f"import {word}" in block]
    return block


@pytest.mark.parametrize("engine", ["duckdb", "polars"])
def test_a_table_is_learned_task_by_task_without_leaving_the_engine(engine, table, tmp_path, monkeypatch):
    import pyarrow.parquet as pq

    monkeypatch.chdir(tmp_path)
    for number in range(3):
        pq.write_table(
            table[number * 700 : (number + 1) * 700].select(["a", "b", "day", "site", "cost", "month"]),
            f"{number}.parquet",
        )
    exec(recipe(engine), {})  # noqa: S102 - the document's own lines
    assert_same(load("sales.pmf"), table, "cost", {"ridge": 0.01}, 1e-10)
    assert np.isfinite(load("sales.pmf").predict(table)).all()
