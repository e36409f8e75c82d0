"""Failures of evaluations in namespaces that a REPL does not have."""

from __future__ import annotations

from codriver.core.evaluations import Failure
from codriver.repls.contract.events import NAMESPACE_MISSING_TYPE


def missing_namespace_failure(name: str) -> Failure:
    """Create the failure of an evaluation in a missing namespace. The message is the same for every REPL."""
    return Failure(
        NAMESPACE_MISSING_TYPE,
        f"nothing was evaluated, because there is no namespace {name!r}. Load or require it first",
    )


def single_namespace_failure(name: str) -> Failure:
    """Create the failure of an evaluation that requests a namespace from a REPL with only one."""
    words = f"nothing was evaluated, because this REPL evaluates in one namespace only, and not in {name!r}"
    return Failure(NAMESPACE_MISSING_TYPE, words)
