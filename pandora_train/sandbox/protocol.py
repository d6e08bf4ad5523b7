"""The seam of the sandbox: a BOX set and code go in, an Execution comes out."""

from __future__ import annotations

from typing import Protocol

from pandora_train.box.box import BoxSet
from pandora_train.records import Execution


class Runner(Protocol):
    """Runs untrusted code over BOX sets, from several threads at once."""

    def run(self, boxes: BoxSet, code: str, wall: float | None = None) -> Execution:
        """Run ``code`` with each BOX predefined under its name beside ``pd`` and ``np``.

        ``wall`` is the limit in seconds (``None``: the configured one). Whatever the code does is in the
        returned record; raises :class:`~pandora_train.errors.MachineryError` only when our own machinery
        fails after retries.
        """
        ...

    def close(self) -> None:
        """End all processes of the sandbox."""
        ...
