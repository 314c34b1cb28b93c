"""The server: adds up what clients send, in a model file."""

from pmfcl import ContinualRegressor
from pmfcl.federated import Agreement
from pmfcl.flower import server_app

from .table import FEATURES


def agree(context):
    """What all sides hold in common."""
    return Agreement(ContinualRegressor(ridge=context.run_config["ridge"]), FEATURES, ["rentals"])


app = server_app(agree)
