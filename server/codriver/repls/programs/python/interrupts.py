"""Interrupts of a test run, which is over before it can be told."""

from __future__ import annotations

import signal


def be_deaf() -> None:
    """Take no further interrupt until the run is told: the worker hears again afterwards.

    Who interrupts goes on until all is over, and what passed is yet to be told.
    """
    if getattr(signal.getsignal(signal.SIGINT), "__name__", "") == "_on_signal":
        signal.signal(signal.SIGINT, signal.SIG_IGN)
