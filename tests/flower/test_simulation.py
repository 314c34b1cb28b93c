"""The simulation engine: the same apps, many clients on few processes."""

import sys

import numpy as np
from flwr.simulation import run_simulation
from pmfcl import ContinualRegressor, load
from pmfcl.federated import Agreement
from pmfcl.flower import client_app, server_app
from ray import cloudpickle
from sklearn.linear_model import Ridge

# Other processes do not find this file.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

CLIENTS, STEPS, RIDGE = 6, 2, 1e-3


def rows(client, step):
    """Rows of a client's step."""
    draw = np.random.default_rng([client, step])
    X = draw.normal(size=(20 + client, 3))
    return X, X @ [1.0, -2.0, 3.0] + client + 0.1 * draw.normal(size=len(X))


def test_a_simulation_gives_the_pooled_model(tmp_path):
    path = tmp_path / "joint.pmf"

    def agree(context):
        return Agreement(ContinualRegressor(ridge=RIDGE), 3)

    app = client_app(lambda context, step: rows(context.node_config["partition-id"], step))
    server = server_app(agree, path=path, steps=STEPS, min_nodes=CLIENTS)
    resources = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}, "init_args": {"num_cpus": 2}}
    run_simulation(server, app, num_supernodes=CLIENTS, backend_config=resources)
    X, y = (
        np.concatenate(part)
        for part in zip(*(rows(client, step) for client in range(CLIENTS) for step in range(STEPS)), strict=True)
    )
    pooled = Ridge(alpha=RIDGE * len(y)).fit(X, y)
    model = load(path)
    assert len(model.tasks_) == CLIENTS * STEPS
    assert np.abs(model.predict(X) - pooled.predict(X)).max() <= 1e-9 * y.std()
