"""What a client has put into masked sums, so that no step is ever in two that differ."""

import contextlib
import json
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

if sys.platform != "win32":  # one process per journal there
    import fcntl


class Journal:
    """Steps a client has joined, sent a masked sum of, and helped to open. Every change is on disk before a message is sent.

    A round that failed may be repeated. Whoever joins a round leaves all earlier ones of the step for good, so an earlier one
    that counted on `threshold` of its members cannot be opened once that many are members of the new one; with fewer, it may still
    be, and the difference of two sums would show whoever is in one of them.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None, kept: dict[str, Any] | None = None) -> None:
        """In a file, or in `kept`, a dictionary of the caller's."""
        self.path, self.kept = None if path is None else Path(path), kept if kept is not None else {}

    def is_answered(self, step: object) -> bool:
        """Whether a sum with this step has been opened with this client's help."""
        return bool(self._read().get(str(step), {}).get("answered", False))

    def join(self, step: object, name: str) -> None:
        """This client takes part in a round; it never answers in an earlier one again."""
        with self._changed() as noted:
            line = noted.setdefault(str(step), {"answered": False, "rounds": []})
            line["joined"] = name

    def send(self, step: object, name: str, threshold: int, members: Iterable[str]) -> None:
        """A masked sum is about to be sent."""
        members = sorted(members)
        with self._changed() as noted:
            line = self._line(noted, step, name)
            for earlier in line["rounds"]:
                if earlier["round"] == name:
                    raise ValueError(
                        f"this client has sent its sum of step {step} in round {name}, and sends one in a round: two under the same masks show "
                        "how they differ; repeat the round under another name"
                    )
                here = len(set(earlier["members"]) & set(members))
                if here < earlier["threshold"]:
                    raise ValueError(
                        f"an earlier round of step {step} could still be opened: {here} of its {len(earlier['members'])} clients are "
                        f"in this one too, and {earlier['threshold']} would have to be; repeat it with all of them"
                    )
            line["rounds"].append({"round": name, "threshold": threshold, "members": members})

    def answer(self, step: object, name: str) -> None:
        """A share of every mask is about to be sent; the step is over then."""
        with self._changed() as noted:
            self._line(noted, step, name)["answered"] = True

    def _line(self, noted: dict[str, Any], step: object, name: str) -> dict[str, Any]:
        line: dict[str, Any] = noted.get(str(step), {})
        if line.get("answered") or line.get("joined") != name:
            raise ValueError(f"this client has left round {name} of step {step}, and answers in one round of a step")
        return line

    def _read(self) -> dict[str, Any]:
        if self.path is None:
            return self.kept
        try:
            text = self.path.read_text()
        except FileNotFoundError:
            return {}
        if text.strip() and not text.lstrip().startswith("{"):
            # Of an earlier version: a line of fingerprint and step for each masked sum.
            steps = [line.split()[-1] for line in text.splitlines() if line.strip()]
            return {step: {"answered": True, "rounds": []} for step in steps}
        try:
            noted: dict[str, Any] = json.loads(text) if text.strip() else {}
            return noted
        except ValueError as error:
            raise ValueError(
                f"{self.path}: not a journal ({error}); restore it from a copy: without it a step could be summed twice"
            ) from error

    @contextlib.contextmanager
    def _changed(self) -> Iterator[dict[str, Any]]:
        """What is noted, to be changed; written whole, under another name first, and synced."""
        if self.path is None:
            yield self.kept
            return
        with open(f"{self.path}.lock", "a", opener=_private) as lock:
            if sys.platform != "win32":
                fcntl.flock(lock, fcntl.LOCK_EX)
            noted = self._read()
            yield noted
            draft = f"{self.path}.draft"
            with open(draft, "w", opener=_private) as file:
                json.dump(noted, file, indent=1)
                file.flush()
                os.fsync(file.fileno())
            os.replace(draft, self.path)
            if hasattr(os, "O_DIRECTORY"):
                directory = os.open(self.path.absolute().parent, os.O_RDONLY | os.O_DIRECTORY)
                try:
                    os.fsync(directory)
                finally:
                    os.close(directory)


def _private(path: str, flags: int) -> int:
    """For the owner alone: who took part with whom is nobody else's business."""
    return os.open(path, flags, 0o600)
