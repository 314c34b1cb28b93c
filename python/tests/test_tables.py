"""Tables between the command line and pandas: what one writes, the other reads."""

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

pd = pytest.importorskip("pandas", reason="pandas is not installed")
pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
feather = pytest.importorskip("pyarrow.feather")

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(os.environ.get("PMFCL_PROGRAM", ROOT / "target/debug/pmfcl"))
READERS = {
    "csv": pd.read_csv,
    "csv.gz": pd.read_csv,
    "parquet": pd.read_parquet,
    "arrow": pd.read_feather,
    "feather": pd.read_feather,
    "jsonl": lambda path: pd.read_json(path, lines=True, precise_float=True),
}


def run(*arguments):
    """What the command line says; it must succeed."""
    done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture
def table(rng):
    """Features, a number and a class to predict; the index is a permutation."""
    frame = pd.DataFrame(rng.normal(size=(90, 2)), columns=["a", "b"])
    frame["y"] = 2 * frame.a - frame.b + rng.normal(scale=0.1, size=90)
    frame["kind"] = np.where(frame.a > 0.3, 'up, "steep"', "down")
    return frame.set_index(rng.permutation(90))


@pytest.mark.parametrize("flags", [["y", "--interval", "0.9"], ["kind", "--proba"]])
def test_pandas_reads_the_predictions_of_every_format(table, tmp_path, flags):
    target, *flags = flags
    model, data, gaps = (tmp_path / name for name in ("m.pmf", "t.parquet", "gaps.parquet"))
    table.to_parquet(data)
    run("learn", model, data, "--target", target, "--exclude", "kind" if target == "y" else "y")
    missing = table.copy()
    missing.iloc[[0, 41, 89], 1] = np.nan
    missing.to_parquet(gaps)
    tables = {}
    for ending, read in READERS.items():
        for name, source in (("whole", data), ("gaps", gaps)):
            out = tmp_path / f"{name}-out.{ending}"
            run("predict", model, source, "-o", out, "--missing", "drop", *flags)
            found = read(out)
            reasons = found.pop("reason")
            assert list(np.flatnonzero(reasons.notna())) == ([] if name == "whole" else [0, 41, 89])
            assert set(reasons.dropna()) <= {f"{table.columns[1]} is missing"}
            tables[name, ending] = found
    whole, holes = tables["whole", "csv"], tables["gaps", "csv"]
    assert whole.shape == holes.shape == (90, 3)
    # The rows of a table with gaps are those of the whole one, in their places.
    known = np.setdiff1d(np.arange(90), [0, 41, 89])
    pd.testing.assert_frame_equal(holes.iloc[known], whole.iloc[known])
    assert holes.iloc[[0, 41, 89]].isna().all(axis=None)
    if target == "y":
        assert np.corrcoef(whole.y, table.y)[0, 1] > 0.99
    else:
        assert set(whole.kind) == {'up, "steep"', "down"}
    for (name, ending), found in tables.items():
        # Numbers come back to the bit.
        pd.testing.assert_frame_equal(found, tables[name, "csv"], check_exact=True, obj=f"{name}.{ending}")


@pytest.mark.parametrize("names", [[None], ["customer"], ["region", "customer"]])
def test_the_index_of_a_table_is_no_feature(table, tmp_path, names):
    table.index = pd.MultiIndex.from_arrays([table.index % 3, table.index][-len(names) :])
    table.index = table.index.set_names(names) if len(names) > 1 else table.index.get_level_values(0).rename(names[0])
    table.to_parquet(tmp_path / "t.parquet")
    feather.write_feather(pa.Table.from_pandas(table), str(tmp_path / "t.feather"))
    table.reset_index(drop=True).to_parquet(tmp_path / "plain.parquet")
    for name in ("t.parquet", "t.feather", "plain.parquet"):
        model = tmp_path / f"{name}.pmf"
        said = run("learn", model, tmp_path / name, "--target", "y", "--exclude", "kind").stderr.splitlines()
        said = [line for line in said if "is the index of a pandas table" in line]
        told = [] if name == "plain.parquet" else [name or "__index_level_0__" for name in names]
        assert [line.split("'")[1] for line in said] == told
        assert json.loads(run("show", model, "--json").stdout)["features"] == ["a", "b"]
        assert run("predict", model, tmp_path / name).stdout.count("\n") == 91
