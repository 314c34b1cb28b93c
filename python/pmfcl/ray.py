"""Learning from Ray Data (`pip install pmfcl[ray]`): every block is summarized where it lies, and parts are merged here.

    from pmfcl import ray
    ray.learn(dataset, "sales.pmf", target="revenue", task="month")

The model is that of one process up to rounding. squared and gaussian take one pass over the data set; logistic, huber and
poisson take the passes their fits ask for. Every worker needs the same version of pmfcl and pyarrow.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from . import distributed
from .distributed import ModelLike

try:
    import ray as _ray  # noqa: F401
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError("Ray is not installed: pip install pmfcl[ray]", name="ray") from missing

if TYPE_CHECKING:
    import pyarrow as pa
    from ray.data import Dataset

__all__ = ["learn"]


def learn(
    dataset: "Dataset",
    model: ModelLike,
    *,
    target: str | Sequence[str],
    task: str | None = None,
    features: Sequence[str] | None = None,
    exclude: Sequence[str] = (),
    weight: str | None = None,
    missing: str = "error",
    progress: bool | None = None,
    **settings: Any,
) -> Any:
    """Learns a Ray data set: one task for each value of the column `task`, or rows added to the current task.

    Parameters are those of `pmfcl.spark.learn`: `model` is the path of a model file, made if there is none, or an estimator.
    A data set is read once for every pass: `materialize` it for losses that look at rows again, if it fits into the object
    store. Returns the estimator. Where anything is refused, neither the file nor the estimator is changed.
    """
    return distributed.learn_table(
        model,
        _schema(dataset),
        lambda count: _table(dataset.limit(count)),
        lambda names: _everywhere(dataset.select_columns(names)),
        target=target,
        settings=settings,
        progress=progress,
        task=task,
        weight=weight,
        features=features,
        exclude=exclude,
        missing=missing,
    )


def _schema(dataset: "Dataset") -> "pa.Schema":
    import pyarrow as pa

    found = dataset.schema()
    if found is None:
        raise ValueError("the data set has no rows")
    return found.base_schema if isinstance(found.base_schema, pa.Schema) else _table(dataset.limit(100)).schema


def _table(dataset: "Dataset") -> "pa.Table":
    import pyarrow as pa

    batches = list(dataset.iter_batches(batch_size=None, batch_format="pyarrow"))
    return pa.concat_tables(batches, promote_options="default")


def _everywhere(dataset: "Dataset") -> distributed.Everywhere:
    """Runs work on every block. Blocks arrive in any order; sorted by their bytes, the same blocks give the same bits."""

    def run(work: distributed.Work) -> bytes:
        blocks = dataset.map_batches(_block(work.runner()), batch_size=None, batch_format="pyarrow")
        found = sorted((row["state"], row["error"]) for row in blocks.take_all())
        return distributed.collected((state or None, error or None) for state, error in found)

    return run


def _block(work: Callable[..., Any]) -> Callable[[Any], Any]:
    """A function made here travels by value, so that a worker without pmfcl can say so."""

    def run(block: Any) -> Any:
        import socket

        import pyarrow as pa

        state, error = work([block], f"a block of {block.num_rows} rows on {socket.gethostname()}")
        return pa.table({"state": pa.array([state or b""], pa.binary()), "error": pa.array([error or ""])})

    return run
