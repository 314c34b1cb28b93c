"""Federated learning on Flower, exact in one round: `pip install pmfcl[flower]`.

The server sends what was agreed on and the current parameters; every client answers with the summary of its new rows, and of the
rows of earlier steps the server does not have yet. The server's memory is a model file: a server that is started again goes on
where it was. An app is two calls:

    # client_app.py
    def load(context, step):                       # rows of a step, or None
        return X, y
    app = pmfcl.flower.client_app(load)

    # server_app.py
    def agree(context):
        return pmfcl.federated.Agreement(ContinualRegressor(), features=["age", "dose"])
    app = pmfcl.flower.server_app(agree)

`examples/flower` runs, with TLS and authenticated nodes too.
"""

try:
    import flwr  # noqa: F401
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError("Flower is not installed: pip install pmfcl[flower]", name="flwr") from missing

from .client import Secure, client_app
from .secure import SecureStrategy
from .server import PmfStrategy, server_app

__all__ = ["PmfStrategy", "Secure", "SecureStrategy", "client_app", "server_app"]
