"""The benchmark runs, on a size that takes no time; what it prints is not judged here."""

import pytest
from pmfcl import bench


def test_ways_run_in_processes_of_their_own(capsys):
    bench.main(
        ["--tasks", "3", "--rows", "1200", "--columns", "6", "--repeats", "1", "--only", "gram,sums,RecursiveLS"]
    )
    told = capsys.readouterr().out
    for name in ("pmfcl, gram", "NumPy, sums", "condition 1e7", "Summary.from_data"):
        assert name in told
    assert "RecursiveLS" in told  # measured, or named among those left out


@pytest.mark.parametrize(
    "name", [name for name in bench.WAYS if name.startswith(("NumPy", "pmfcl", "Ridge", "Linear"))]
)
def test_exact_ways_agree(name):
    assert bench.measure(name, 3, 200, 5, 0.1, 1)["gap"] < 1e-10
