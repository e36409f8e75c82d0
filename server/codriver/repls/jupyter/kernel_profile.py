"""The profile of a kernel: its abilities, by its quirks and by what it answers, never by what its kernelspec says."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from codriver.core.values import Capability, Profile
from codriver.repls.contract.errors import OpTimedOutError
from codriver.repls.jupyter.finding.kernel_process import KernelProcess
from codriver.repls.jupyter.questions.kernel_introspection import abilities
from codriver.repls.seam import seam_providers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codriver.repls.jupyter.running.kernel import Kernel

USAGE_S: Final = 0.5
"""How long a kernel may take to tell its process id: most leave the request unanswered."""

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
    "clojuredocs": "it is about Clojure: of a name that Clojure has too, clojuredocs_info tells from the export",
    "macroexpand": "kernels have no way to expand macros",
    "frame": "only Python kernels keep the frames of an error",
    "try": "a kernel is not forked: use edit_files with onFailure: restore",
    "drift": "only Python kernels tell what they loaded: load the file again to be sure",
    "restore": "only Python kernels keep former definitions",
}
NO_INPUT: Final = "code that reads from stdin gets nothing in this kernel, and may wait for ever: interrupt it then"


async def profile_of(kernel: Kernel, *, answers_expressions: bool, seam: tuple[str, Capability] | None) -> Profile:
    """The profile of a kernel that is connected. Asks it for its process, if nothing else tells.

    `seam`: the session id of the application's, if one was found in it, and how it is asked.
    """
    information, channel = kernel.info, kernel.channel
    process = channel.process_id or await _told_process(kernel)
    is_python = information.language == PYTHON
    capabilities, missing = _abilities(kernel, is_python=is_python)
    asked, not_asked = abilities(kernel, is_python=answers_expressions)
    capabilities, missing = {**capabilities, **asked}, {**missing, **not_asked}
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
        reads_itself=information.quirks.gate != "none",
        isolation="none",
        is_serial=True,
        process_id=process,
        project_root=KernelProcess(process, leads=False).folder if process else None,
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


async def _told_process(kernel: Kernel) -> int | None:
    """The process id as the kernel tells it, where it does and is on this machine."""
    if not kernel.info.quirks.tells_process or not kernel.channel.is_local:
        return None
    with suppress(OpTimedOutError):
        reply = await kernel.ask("usage_request", {}, socket="control", timeout_s=USAGE_S)
        process = reply.content.get("pid")
        return process if isinstance(process, int) else None
    return None
