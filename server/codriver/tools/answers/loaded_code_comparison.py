"""Find drift, which is any difference between the code loaded in a REPL and its files."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import anyio

from codriver.core.profiles import NON_LISP_DIALECTS
from codriver.errors import CodriverError
from codriver.repls.contract.queries import Drift
from codriver.tools.answers.lisp_comparison import find_differences

if TYPE_CHECKING:
    from codriver.core.state import Repl
    from codriver.repls.contract.drift import Difference, OnlyOf
    from codriver.tools.calls.call import Call, ReplUser


LOAD_WORDS_PATTERN: Final = re.compile(r"\b(?:require|use|load|reload|load-file|refresh|requiring-resolve)\b")
"""Matches words in Lisp code that may load files."""
COMPARE_TIMEOUT_S: Final = 3.0
"""Maximum time to compare loaded code with its files, in seconds."""


async def record_loaded_code(call: Call, repl: Repl, code: str) -> None:
    """Compare loaded code with its files before or after code that may load files.

    The log contains the code that callers send, but not the files that this code loads. Comparing records their
    contents. Code that loads no files is ignored.
    """
    if LOAD_WORDS_PATTERN.search(code) is not None:
        with anyio.move_on_after(COMPARE_TIMEOUT_S):
            await drift_or_none(call, repl, "old")


async def find_drift(call: ReplUser, repl: Repl, only: OnlyOf = "") -> tuple[Difference, ...]:
    """Return the differences between a REPL's loaded code and its files.

    In Python, `only` limits the comparison to one kind of difference. It has no effect in Lisp.

    Raises:
        CapabilityMissingError, EvaluationFailedError, OpTimedOutError, ReplDisconnectedError: the REPL cannot compare
            them.
    """
    if repl.dialect not in NON_LISP_DIALECTS:
        found = await find_differences(call, repl)
        if found is not None:
            return found
    return await call.services.repls.adapter(repl.id).query(Drift(call.services.workspace, only))


async def drift_or_none(call: Call, repl: Repl, only: OnlyOf) -> tuple[Difference, ...]:
    """Return the differences like `find_drift`, or an empty tuple if the REPL cannot compare its code with files."""
    if repl.profile is not None and "drift" in repl.profile.capabilities:
        with suppress(CodriverError):
            return await find_drift(call, repl, only)
    return ()
