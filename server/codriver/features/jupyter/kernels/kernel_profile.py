"""The profile of a connected kernel: the operations that it supports, and alternatives to those that it lacks.

A capability is listed if the kernel's quirks and answers show that the kernel has it. The claims of its kernelspec are
ignored.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from codriver.core.profiles import Capability, Profile
from codriver.features.jupyter.kernels.kernel_processes import KernelProcess
from codriver.features.jupyter.kernels.silent_expressions import evaluate_expression
from codriver.features.jupyter.kernels.subshell_evaluations import has_subshells
from codriver.repls.contract.adapter import OpTimedOutError
from codriver.wire.untrusted import mapping_at, text_at

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codriver.features.jupyter.kernels.kernel import Kernel


PROCESS_ID_TIMEOUT_S: Final = 0.5
"""Maximum time to wait for a kernel's process id. Most kernels do not answer the request."""

PYTHON_LANGUAGE: Final = "python"
ONE_NAMESPACE_HINT: Final = "a kernel has only one namespace. For another namespace, start another kernel"
RESTART_HINT: Final = (
    "restart the kernel where it was started, for example in the notebook. Codriver restarts only kernels that it "
    "started"
)
MISSING_CAPABILITY_HINTS: Final = {
    "complete": "this kernel does not complete names",
    "lookup": "this kernel does not describe names",
    "test": "kernels of this language cannot report tests. Evaluate code that runs them",
    "stacktrace": "the error's stack trace is in the evaluation's answer",
    "restart": RESTART_HINT,
    "sessions": ONE_NAMESPACE_HINT,
    "print-limits": "a kernel prints its values itself, and they are truncated at maxValueBytes",
    "macroexpand": "kernels cannot expand macros",
    "frame": "only Python kernels retain the frames of an error",
    "drift": "only Python kernels report what they have loaded. To be sure, load the file again",
    "restore": "only Python kernels retain old definitions",
}
"""Hints on what to use instead of capabilities that most kernels lack."""
NO_INPUT_NOTE: Final = "in this kernel, code that reads from stdin gets no input and may wait forever. Interrupt it"
PROBE_TIMEOUT_S: Final = 0.5
"""Maximum time for an unknown kernel to demonstrate that it can evaluate Python expressions."""
EXPRESSIONS_CAPABILITY: Final = Capability("user_expressions", adapted=True)
PYTHON_CAPABILITIES: Final = ("complete", "lookup", "test", "stacktrace", "frame", "drift", "restore")
"""Capabilities that are implemented with Python expressions."""
NO_NAMES_HINT: Final = "this kernel does not describe names. Evaluate code in its language that does"
ONLY_PYTHON_TESTS_HINT: Final = "only Python tests can be run in a kernel. Evaluate code that runs the tests"


async def build_profile(kernel: Kernel, *, has_expressions: bool) -> Profile:
    """Return the profile of a connected kernel.

    If the kernel's process id is unknown, the kernel is queried for it.
    """
    info, channel = kernel.info, kernel.channel
    process_id = channel.process_id or await _reported_process(kernel)
    is_python = info.language == PYTHON_LANGUAGE
    capabilities, missing = _protocol_capabilities(kernel, is_python=is_python)
    added_capabilities, added_hints = query_capabilities(kernel, is_python=has_expressions)
    capabilities, missing = {**capabilities, **added_capabilities}, {**missing, **added_hints}
    return Profile(
        dialect=PYTHON_LANGUAGE if is_python else "unknown",
        versions={
            info.implementation or "kernel": info.implementation_version,
            info.language or "language": info.language_version,
        },
        capabilities=capabilities,
        missing={name: hint for name, hint in missing.items() if name not in capabilities},
        queued=frozenset({"test", "cells"}),
        reads_itself=info.quirks.syntax_check != "none",
        isolation="none",
        is_serial=True,
        runs_concurrently=has_subshells(kernel),
        process_id=process_id,
        project_root=KernelProcess(process_id, leads_group=False).directory if process_id else None,
        document=channel.notebook,
        notes=info.quirks.notes,
    )


def _protocol_capabilities(kernel: Kernel, *, is_python: bool) -> tuple[Mapping[str, Capability], Mapping[str, str]]:
    quirks = kernel.info.quirks
    capabilities = {
        "evaluate": Capability("execute_request"),
        "load-file": Capability("execute_request", adapted=True),
        "cells": Capability("execute_request"),
    }
    missing = dict(MISSING_CAPABILITY_HINTS)
    if kernel.channel.can_restart:
        capabilities["restart"] = Capability("its server's")
        del missing["restart"]
    is_interrupted_by_message = quirks.interrupt_by == "message"
    if is_interrupted_by_message or (quirks.interrupt_by == "signal" and kernel.channel.can_interrupt):
        capabilities["interrupt"] = Capability(
            "interrupt_request" if is_interrupted_by_message else "SIGINT", adapted=not is_interrupted_by_message
        )
    else:
        missing["interrupt"] = quirks.interrupt_note or "this kernel cannot be interrupted"
    if quirks.reads_input:
        capabilities["stdin"] = Capability("input_reply")
    else:
        missing["stdin"] = NO_INPUT_NOTE
    if is_python:
        missing["macroexpand"] = "Python has no macros"
    return capabilities, missing


async def _reported_process(kernel: Kernel) -> int | None:
    """Query a kernel on this machine for its process id."""
    if not kernel.info.quirks.reports_process or not kernel.channel.is_local:
        return None
    with suppress(OpTimedOutError):
        reply = await kernel.request("usage_request", {}, socket="control", timeout_s=PROCESS_ID_TIMEOUT_S)
        process_id = reply.content.get("pid")
        return process_id if isinstance(process_id, int) else None
    return None


async def supports_expressions(kernel: Kernel) -> bool:
    """Return whether the kernel runs Python and evaluates `user_expressions`.

    If the implementation is unknown, a test expression is evaluated.
    """
    if kernel.info.language != "python" or kernel.info.quirks.supports_expressions:
        return kernel.info.quirks.supports_expressions
    try:
        value = await evaluate_expression(kernel, "1", timeout_s=PROBE_TIMEOUT_S)
    except OpTimedOutError:
        return False
    return text_at(mapping_at(value, "data"), "text/plain") == "1"


def query_capabilities(kernel: Kernel, *, is_python: bool) -> tuple[Mapping[str, Capability], Mapping[str, str]]:
    """Return the capabilities that queries provide, and hints for the ones that are missing."""
    capabilities = {
        "complete": Capability("complete_request"),
        "lookup": Capability("inspect_request"),
        "stacktrace": Capability("error", adapted=True),
    }
    if is_python:
        return {**capabilities, **dict.fromkeys(PYTHON_CAPABILITIES, EXPRESSIONS_CAPABILITY)}, {}
    missing = {"test": ONLY_PYTHON_TESTS_HINT}
    if not kernel.info.quirks.supports_inspect:
        del capabilities["lookup"]
        missing["lookup"] = NO_NAMES_HINT
    return capabilities, missing
