"""Runs a command of Flower that gives the process of a task ten minutes to start.

    python patient.py .venv/bin/flower-supernode ...

Flower takes a task away from a process that is not heard of for 30 s after its start, and starts another. Where a processor is shared
with other tests, importing Flower takes longer than that: every process came too late, and the run had no end.
"""

import runpy
import sys

from flwr.supercore.corestate import in_memory_corestate, sql_corestate

for state in (in_memory_corestate, sql_corestate):
    assert state.HEARTBEAT_DEFAULT_INTERVAL == 30, "Flower has another limit now: see whether this is still needed"
    state.HEARTBEAT_DEFAULT_INTERVAL = 600
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
