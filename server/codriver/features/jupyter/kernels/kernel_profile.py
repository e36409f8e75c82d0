"""The profile of a connected kernel: what it can do, and what to do instead of what it cannot do.

A capability is listed if the kernel's quirks and its answers show it, never because its kernelspec claims it.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from codriver.core.values import Capability, Profile
from codriver.features.jupyter.kernels.kernel_processes import KernelProcess
from codriver.features.jupyter.kernels.silent_expressions import expression
from codriver.features.jupyter.kernels.subshell_evaluations import has_subshells
from codriver.repls.contract.adapter import OpTimedOutError
from codriver.repls.dialects import seam_providers
from codriver.wire.untrusted import mapping_of, text_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codriver.features.jupyter.kernels.kernel import Kernel


USAGE_S: Final = 0.5
"""The time for a kernel to tell its process id: most leave the request unanswered."""

PYTHON: Final = "python"
ONE_NAMESPACE: Final = "a kernel has one namespace: start a second kernel for a second one"
RESTART: Final = "restart it where it was started, in the notebook say: what codriver started it can restart"
MISSING: Final = {
    "complete": "this kernel completes nothing",
    "lookup": "this kernel tells nothing of its names",
    "test": "run the tests by code, as on a terminal: kernels of this language have no way to tell of them",
    "stacktrace": "the error's own trace is in the answer of its evaluation",
    "restart": RESTART,
    "sessions": ONE_NAMESPACE,
    "print-limits": "a kernel prints its values itself: they are cut at maxValueBytes",
    "macroexpand": "kernels have no way to expand macros",
    "frame": "only Python kernels keep the frames of an error",
    "drift": "only Python kernels tell what they loaded: load the file again to be sure",
    "restore": "only Python kernels keep former definitions",
}
NO_INPUT: Final = "code that reads from stdin gets nothing in this kernel, and may wait for ever: interrupt it then"


async def build_profile(kernel: Kernel, *, answers_expressions: bool, seam: tuple[str, Capability] | None) -> Profile:
    """The profile of a connected kernel. Asks the kernel for its process, if nothing else tells.

    `seam`: the session id of the application's seam, if one was found, and the way to ask it.
    """
    information, channel = kernel.info, kernel.channel
    process = channel.process_id or await _reported_process(kernel)
    is_python = information.language == PYTHON
    capabilities, missing = _abilities(kernel, is_python=is_python)
    by_query, not_by_query = abilities(kernel, is_python=answers_expressions)
    capabilities, missing = {**capabilities, **by_query}, {**missing, **not_by_query}
    missing["seam"] = seam_providers.WAYS[PYTHON] if answers_expressions else seam_providers.NO_WAY
    if seam is not None:
        capabilities["seam"] = seam[1]
    return Profile(
        dialect=PYTHON if is_python else "unknown",
        versions={
            information.implementation or "kernel": information.implementation_version,
            information.language or "language": information.language_version,
        },
        capabilities=capabilities,
        missing={name: words for name, words in missing.items() if name not in capabilities},
        queued=frozenset({"test", "cells"}),
        reads_itself=information.quirks.syntax_check != "none",
        isolation="none",
        is_serial=True,
        runs_concurrently=has_subshells(kernel),
        process_id=process,
        project_root=KernelProcess(process, leads_group=False).directory if process else None,
        notebook=channel.notebook,
        notes=information.quirks.notes,
        seam=seam[0] if seam else None,
    )


def _abilities(kernel: Kernel, *, is_python: bool) -> tuple[Mapping[str, Capability], Mapping[str, str]]:
    quirks = kernel.info.quirks
    capabilities = {
        "evaluate": Capability("execute_request"),
        "load-file": Capability("execute_request", adapted=True),
        "cells": Capability("execute_request"),
    }
    missing = dict(MISSING)
    if kernel.channel.can_restart:
        capabilities["restart"] = Capability("its server's")
        del missing["restart"]
    by_message = quirks.interrupt_by == "message"
    if by_message or (quirks.interrupt_by == "signal" and kernel.channel.can_interrupt):
        capabilities["interrupt"] = Capability("interrupt_request" if by_message else "SIGINT", adapted=not by_message)
    else:
        missing["interrupt"] = quirks.interrupt_note or "this kernel cannot be interrupted"
    if quirks.reads_input:
        capabilities["stdin"] = Capability("input_reply")
    else:
        missing["stdin"] = NO_INPUT
    if is_python:
        missing["macroexpand"] = "Python has no macros"
    return capabilities, missing


async def _reported_process(kernel: Kernel) -> int | None:
    """The process id told by a kernel on this machine."""
    if not kernel.info.quirks.reports_process or not kernel.channel.is_local:
        return None
    with suppress(OpTimedOutError):
        reply = await kernel.request("usage_request", {}, socket="control", timeout_s=USAGE_S)
        process = reply.content.get("pid")
        return process if isinstance(process, int) else None
    return None


PROBE_S: Final = 0.5
"""The time for an unknown kernel to show that it runs Python expressions."""
BY_EXPRESSIONS: Final = Capability("user_expressions", adapted=True)
OF_PYTHON: Final = ("complete", "lookup", "test", "stacktrace", "frame", "drift", "restore")
NO_NAMES: Final = "this kernel tells nothing about names: evaluate code of its own language that does"
ONLY_PYTHON: Final = "in a kernel only Python's tests are run: evaluate the code that runs them"


async def supports_expressions(kernel: Kernel) -> bool:
    """Whether the kernel runs Python and answers expressions; an unknown kernel is asked."""
    if kernel.info.language != "python" or kernel.info.quirks.supports_expressions:
        return kernel.info.quirks.supports_expressions
    try:
        value = await expression(kernel, "1", timeout_s=PROBE_S)
    except OpTimedOutError:
        return False
    return text_of(mapping_of(value, "data"), "text/plain") == "1"


def abilities(kernel: Kernel, *, is_python: bool) -> tuple[Mapping[str, Capability], Mapping[str, str]]:
    """The capabilities that questions give, and for missing ones the way to get them."""
    found = {
        "complete": Capability("complete_request"),
        "lookup": Capability("inspect_request"),
        "stacktrace": Capability("error", adapted=True),
    }
    if is_python:
        return {**found, **dict.fromkeys(OF_PYTHON, BY_EXPRESSIONS)}, {}
    missing = {"test": ONLY_PYTHON}
    if not kernel.info.quirks.supports_inspect:
        del found["lookup"]
        missing["lookup"] = NO_NAMES
    return found, missing
