"""What is in a message, under which names."""

from logging import getLogger
from typing import Any

from flwr.app import Array, ArrayRecord

log = getLogger("flwr").log

# Records, and what is in them.
ARRAYS, CONFIG, METRICS = "arrays", "config", "metrics"
AGREEMENT, PARAMETERS, PAYLOAD, REQUEST = "agreement", "parameters", "payload", "request"


def packed(data: bytes) -> Array:
    """Bytes as an array, which Flower sends in pieces however many there are."""
    return Array(dtype="uint8", shape=(len(data),), stype="pmfcl", data=bytes(data))


def uploads(reply: Any, most: int) -> tuple[list[bytes], int]:
    """The updates in a reply, whatever else a node has put there: the first `most` of them, and how many more there are."""
    record = reply.content.get(ARRAYS)
    found = list(record.values()) if isinstance(record, ArrayRecord) else []
    return [array.data for array in found[:most]], len(found) - len(found[:most])
