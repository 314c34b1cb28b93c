"""Learning from Dask DataFrames (`pip install pmfcl[dask]`): partitions are summarized where they lie, parts merged in order.

    from pmfcl import dask
    dask.learn(frame, "sales.pmf", target="revenue", task="month")

The model is that of one process up to rounding, and the same to the bit for the same partitions. squared and gaussian take one
pass over the frame; logistic, huber and poisson take the passes their fits ask for. Every worker needs the same version of pmfcl
and pyarrow.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from . import distributed
from .distributed import ModelLike

try:
    import dask as _dask
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError("Dask is not installed: pip install pmfcl[dask]", name="dask") from missing

if TYPE_CHECKING:
    import pyarrow as pa
    from dask.dataframe import DataFrame

__all__ = ["learn"]

# Parts that one task of the cluster merges.
GROUP = 8


def learn(
    frame: "DataFrame",
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
    """Learns a Dask DataFrame: one task for each value of the column `task`, or rows added to the current task.

    Parameters are those of `pmfcl.spark.learn`: `model` is the path of a model file, made if there is none, or an estimator. A
    frame that is read from files is read once for every pass: `persist` it for losses that look at rows again, if it fits into
    the memory of the cluster. Returns the estimator. Where anything is refused, neither the file nor the estimator is changed.
    """
    return distributed.learn_table(
        model,
        _head(frame, 100).schema,
        lambda count: _head(frame, count),
        lambda names: _everywhere(frame[names]),
        target=target,
        settings=settings,
        progress=progress,
        task=task,
        weight=weight,
        features=features,
        exclude=exclude,
        missing=missing,
    )


def _head(frame: "DataFrame", count: int) -> "pa.Table":
    """The first rows; their types are those of the table."""
    import pyarrow as pa

    rows = frame.head(count, npartitions=-1, compute=True)
    if not len(rows):
        raise ValueError("the frame has no rows")
    return pa.Table.from_pandas(rows, preserve_index=False)


def _everywhere(frame: "DataFrame") -> distributed.Everywhere:
    """Runs work on every partition; neighbours are merged on the workers."""

    def run(work: distributed.Work) -> bytes:
        one, some = _dask.delayed(_partition(work.runner()), pure=False), _dask.delayed(_group(), pure=False)
        parts = [one(partition, number) for number, partition in enumerate(frame.to_delayed())]
        while len(parts) > GROUP:
            parts = [some(parts[at : at + GROUP]) for at in range(0, len(parts), GROUP)]
        return distributed.collected(_dask.compute(*parts))

    return run


def _partition(work: Callable[..., Any]) -> Callable[[Any, int], Any]:
    """A function made here travels by value, so that a worker without pmfcl can say so."""

    def run(partition: Any, number: int) -> Any:
        import socket

        return work([partition], f"partition {number} on {socket.gethostname()}")

    return run


def _group() -> Callable[[Any], Any]:
    """Merges neighbouring parts; the first error goes on."""

    def run(parts: Any) -> Any:
        errors = [error for _, error in parts if error is not None]
        if errors:
            return None, errors[0]
        from pmfcl import distributed

        try:
            return distributed.merge(state for state, _ in parts), None
        except ValueError as failed:
            return None, str(failed)

    return run
