"""The two bundled sets in random splits, as they are and with columns and rows that are known to be difficult."""

import numpy as np
import pytest

from . import tables
from .sweep import Findings, Plan, sweep

SEED = 1
ROWS = 400
# Every way is tried for every variation, in turn: 15 through Python, 7 through commands.
PLAIN = Plan(splits=20, command_splits=7, logistic_splits=2, ways_each=5, command_ways_each=2)
VARIED = Plan(splits=3, command_splits=1, logistic_splits=1, ways_each=5, command_ways_each=2, most_tasks=12)


@pytest.mark.parametrize("variation", tables.VARIATIONS, ids=lambda variation: variation.__name__)
@pytest.mark.parametrize("which", [0, 1], ids=["rentals", "weather"])
def test_task_by_task_is_one_fit(which, variation):
    table = tables.bundled(np.random.default_rng(SEED), ROWS)[which]
    findings = Findings()
    plan = PLAIN if variation is tables.as_it_is else VARIED
    other = sweep(findings, table, variation, plan, SEED)
    assert other is None or findings.lines
    assert not findings.wrong(), "\n".join(findings.wrong())
