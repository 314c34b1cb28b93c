"""Names and spellings that models, files and workers share. Nothing here needs scikit-learn."""

import numpy as np

# The name of the task that rows without a name begin.
STREAM = "stream"


def setting(value: object) -> str:
    """A parameter as the command line and the model file spell it."""
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, float | np.floating):
        return repr(float(value))
    if isinstance(value, list | tuple | np.ndarray) and np.ndim(value) > 0:
        return ",".join(repr(float(one)) for one in np.ravel(value))
    return str(value)


def parameter(value: object) -> object:
    """A setting of a model file as a parameter: a boolean, a number, or what it is."""
    if value in ("true", "false"):
        return value == "true"
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value
