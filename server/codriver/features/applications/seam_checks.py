"""Check for `codriver doctor` whether an application exposes its state to agents.

Nothing is evaluated. The server only looks up a function of the seam, and searches the log for failed imports.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from codriver.errors import CodriverError
from codriver.features.applications.seam import SEAM_CAPABILITY
from codriver.features.applications.seam_setup import (
    CONTRACT_VERSION,
    SETUP_HINTS,
    SETUP_STEPS,
    UNSUPPORTED_LANGUAGE_HINT,
    SetupSteps,
)
from codriver.setup.doctor_checks import CapabilityRow, FeatureChecks
from codriver.wire.untrusted import mapping_or_empty

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from codriver.setup.doctor_checks import Support

    CallTool = Callable[[str, dict[str, Any]], dict[str, Any]]

MAX_SEARCHED_ERRORS: Final = 200
"""Maximum number of logged errors to search for a failed import."""
MAX_ERROR_CHARACTERS: Final = 160
"""Maximum length of an import's error in the report."""
_SEAM_NAME: Final = re.compile(r"codriver[._/]seam")
"""Matches the name of the seam's module in code or output."""


def seam_row(session: Mapping[str, Any], support: Support | None, call_tool: CallTool) -> CapabilityRow | None:
    """Return the row about the seam in a session's report, or None if the session is not connected.

    If a stale port file was found, the row describes it. `support` is None if the REPL has no seam. `call_tool` calls a
    tool of the server.
    """
    steps = SETUP_STEPS.get(str(session.get("dialect")))
    if session.get("phase") != "connected":
        return _stale_port_file(session)
    if support is not None:
        return CapabilityRow(SEAM_CAPABILITY, support, _seam_detail(session, steps))
    if steps is None:
        return CapabilityRow(SEAM_CAPABILITY, "missing", UNSUPPORTED_LANGUAGE_HINT)
    for find_reason in (_inactive_seam, _failed_import):
        if reason := find_reason(session, steps, call_tool):
            return CapabilityRow(SEAM_CAPABILITY, "missing", reason)
    return CapabilityRow(SEAM_CAPABILITY, "missing", SETUP_HINTS[str(session.get("dialect"))])


def _seam_detail(session: Mapping[str, Any], steps: SetupSteps | None) -> str:
    """Describe a seam by its provider and its exposed frames, or the reason why it exposes none."""
    support, exposed = session["capabilities"][SEAM_CAPABILITY], session.get(SEAM_CAPABILITY)
    provider = f"by {support.get('op')}"
    if not isinstance(exposed, dict):
        return provider
    if (contract := exposed.get("contract")) is not None:
        return (
            f"{provider}; the seam uses contract {contract}, but this version of Codriver uses {CONTRACT_VERSION}. "
            "Update the seam (codriver seam copy DIR, or the package in its environment) and restart the application"
        )
    if frames := exposed.get("frames"):
        return f"{provider}; frames: {', '.join(map(str, frames))}"
    fix = f": evaluate {steps.code}" if steps is not None else ""
    return f"{provider}; the seam has no frames, so no state is visible{fix}"


def _stale_port_file(session: Mapping[str, Any]) -> CapabilityRow | None:
    """Return a row about a port file whose application has exited, or None for other sessions."""
    if session.get("kind") != "port-file":
        return None
    file = session.get("origin")  # the row of the REPL explains why it is not connected
    fix = f"restart the application, or rm {file} if you no longer need it"
    return CapabilityRow(SEAM_CAPABILITY, "missing", f"no REPL listens on the port in {file}: {fix}")


def _inactive_seam(session: Mapping[str, Any], steps: SetupSteps, call_tool: CallTool) -> str:
    """Return a hint on activating a seam that was only imported, or an empty string if it was not imported."""
    symbol = _call_for_answer(
        call_tool, "symbol_info", {"symbol": steps.function, "namespace": steps.module, **_session_argument(session)}
    )
    if "arglists" not in symbol or mapping_or_empty(symbol.get("extra")).get("imported") == "no":
        return ""
    file = f" from {symbol['file']}" if symbol.get("file") else ""
    return f"{steps.module} was imported{file} but is not active: evaluate {steps.code}"


def _failed_import(session: Mapping[str, Any], steps: SetupSteps, call_tool: CallTool) -> str:
    """Return a hint on fixing a failed import of the seam, or an empty string if the log contains none."""
    answer = _call_for_answer(
        call_tool, "repl_output_log", {"category": ["evaluationErrorOutput"], "limit": MAX_SEARCHED_ERRORS}
    )
    for entry in reversed(answer.get("result") or ()):
        lines = [line for line in str(entry.get("text")).splitlines() if line.strip()]
        if entry.get("repl-session-key") == session.get("key") and lines and _SEAM_NAME.search(lines[-1]):
            output = lines[-1][:MAX_ERROR_CHARACTERS]
            return f"importing {steps.module} failed ({output}): load_file {steps.file}, then evaluate {steps.code}"
    return ""


def _session_argument(session: Mapping[str, Any]) -> dict[str, Any]:
    return {"replSessionKey": session.get("key")}


def _call_for_answer(call_tool: CallTool, tool: str, arguments: dict[str, Any]) -> Mapping[str, Any]:
    """Return the answer of a tool, or an empty mapping if the call failed."""
    try:
        answer = call_tool(tool, arguments)
    except (CodriverError, OSError, LookupError, ValueError):  # without an answer, the row has the fix but no reason
        return {}
    return answer if answer.get("ok", True) else {}


CHECKS: Final = FeatureChecks(rows={SEAM_CAPABILITY: seam_row})
