"""Clients that draw rows of many columns."""

import numpy as np
from pmfcl import ContinualRegressor
from pmfcl.federated import Agreement
from pmfcl.flower import client_app, server_app


def drawn(client, rows, columns):
    """Rows of a client."""
    draw = np.random.default_rng(sum(map(ord, client)))
    X = draw.normal(size=(rows, columns))
    return X, X[:, 0] - X[:, -1] + 0.1 * draw.normal(size=rows)


def name(context):
    """The name of the node's file."""
    return context.node_config["data"].rsplit("/", 1)[-1]


def load(context, step):
    """Rows."""
    return drawn(name(context), context.run_config["rows"], context.run_config["columns"])


def agree(context):
    """A ridge, so that as many columns as rows are no trouble."""
    return Agreement(ContinualRegressor(ridge=1e-2, accumulator="gram"), context.run_config["columns"])


client = client_app(load, name=name)
server = server_app(agree)
