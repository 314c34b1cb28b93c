"""`pmfcl.ray` on a local cluster of Ray with two processors."""

import numpy as np
import pyarrow as pa
import pytest
import ray as engine
from conftest import CASES, FEATURES, assert_same, made
from pmfcl import load, ray


@pytest.fixture(scope="module", autouse=True)
def cluster():
    engine.init(
        num_cpus=2,
        object_store_memory=200 << 20,
        include_dashboard=False,
        log_to_driver=False,
    )
    engine.data.DataContext.get_current().enable_progress_bars = False
    yield
    engine.shutdown()


@pytest.mark.parametrize(("target", "settings", "tolerance"), CASES)
def test_blocks_give_the_model_of_one_process(table, target, settings, tolerance):
    dataset = engine.data.from_arrow([table[at : at + 300] for at in range(0, 2000, 300)]).materialize()
    model = ray.learn(dataset, made(target, settings), target=target, task="month", features=FEATURES)
    assert_same(model, table, target, settings, tolerance)


def test_a_file_is_made_and_bad_rows_are_one_error(table, tmp_path):
    path = tmp_path / "m.pmf"
    ray.learn(engine.data.from_arrow(table), path, target="cost", task="month", features=FEATURES, ridge=0.01)
    assert_same(load(path), table, "cost", {"ridge": 0.01}, 1e-10)
    before = path.read_bytes()
    gap = table.set_column(0, "a", pa.array([None, *np.array(table["a"])[1:]], pa.float64()))
    later = gap.set_column(gap.column_names.index("month"), "month", pa.array(np.full(2000, 9)))
    with pytest.raises(ValueError, match=r"a block of 2000 rows on .*column 'a' has no value in row 0"):
        ray.learn(engine.data.from_arrow(later), path, target="cost", task="month")
    assert path.read_bytes() == before
