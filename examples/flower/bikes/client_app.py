"""A client: reads its own rows, sends summaries of them."""

import time
from pathlib import Path

import pandas as pd
from pmfcl.flower import client_app

from .table import rows


def part(context):
    """The file with this client's rows: on a node the one in its configuration, in a simulation one of a directory."""
    if "data" in context.node_config:
        return Path(context.node_config["data"])
    return sorted(Path(context.run_config["parts"]).glob("*.csv"))[context.node_config["partition-id"]]


def load(context, step):
    """Rows to learn from."""
    time.sleep(context.run_config["pause"])
    return rows(part(context), step)


def test(context, step):
    """Rows of all quarters so far that nobody learns from."""
    found = [rows(part(context), earlier, "test") for earlier in range(step + 1)]
    found = [one for one in found if one is not None]
    return (pd.concat([X for X, _ in found]), pd.concat([y for _, y in found])) if found else None


app = client_app(load, test=test, name=lambda context: part(context).stem)
