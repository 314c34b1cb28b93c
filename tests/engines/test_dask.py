"""`pmfcl.dask` on a local cluster of two worker processes."""

import dask.dataframe as dd
import numpy as np
import pytest
from conftest import CASES, FEATURES, assert_same, made
from dask.distributed import Client, LocalCluster
from pmfcl import dask, load


@pytest.fixture(scope="module")
def client():
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, memory_limit="700MB", dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        yield client


@pytest.mark.parametrize(
    ("target", "settings", "tolerance", "partitions"),
    [*((*case, 11) for case in CASES[:2]), *((*case, 3) for case in CASES[2:])],
)
def test_any_partitioning_gives_the_model_of_one_process(client, table, target, settings, tolerance, partitions):
    frame = dd.from_pandas(table.to_pandas(), npartitions=partitions)
    model = dask.learn(frame, made(target, settings), target=target, task="month", features=FEATURES)
    assert_same(model, table, target, settings, tolerance)


def test_a_file_is_made_and_goes_on(client, table, tmp_path):
    frame = dd.from_pandas(table.to_pandas(), npartitions=3)
    first, second = frame[frame["month"] < 2], frame[frame["month"] >= 2]
    for part in (first, second):
        dask.learn(part, tmp_path / "m.pmf", target="cost", task="month", features=FEATURES, ridge=0.01)
    assert_same(load(tmp_path / "m.pmf"), table, "cost", {"ridge": 0.01}, 1e-10)


def test_bad_rows_are_one_error_that_names_the_place(client, table, tmp_path):
    rows = table.to_pandas()
    rows.loc[1700, "a"] = np.nan
    frame = dd.from_pandas(rows, npartitions=4)
    with pytest.raises(ValueError, match=r"partition 3 on .*column 'a' has no value in row 200"):
        dask.learn(frame, tmp_path / "m.pmf", target="cost", features=FEATURES)
    with pytest.raises(ValueError, match="no column 'price'"):
        dask.learn(frame, tmp_path / "m.pmf", target="price")
    assert not (tmp_path / "m.pmf").exists()
    model = dask.learn(frame, tmp_path / "m.pmf", target="cost", features=FEATURES, missing="drop")
    assert model.n_samples_ == 1999
