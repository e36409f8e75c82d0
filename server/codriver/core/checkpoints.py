"""Checkpoints: evaluations that callers have described as `checkpoint: NAME`."""

from __future__ import annotations

CHECKPOINT_PREFIX = "checkpoint"
"""Prefix of descriptions that set a checkpoint, followed by a colon. Also the kind of the stored document."""


def checkpoint_name(description: str) -> str:
    """Return the name of the checkpoint that an evaluation's description sets, or an empty string."""
    word, _, name = description.partition(":")
    return " ".join(name.split()) if word.strip().lower() == CHECKPOINT_PREFIX else ""
