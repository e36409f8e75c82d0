"""The doctor's check of the seam: the frames that an application exposes, or why there are none.

Nothing is evaluated for that. The server is only asked about a name of the seam and about logged errors.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from codriver.errors import CodriverError
from codriver.features.applications.seam_answers import SEAM
from codriver.repls.dialects.seam_providers import CONTRACT, NO_WAY, STEPS, WAYS, Steps
from codriver.setup.doctor_checks import FeatureChecks, Row
from codriver.wire.untrusted import as_map

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from codriver.setup.doctor_checks import Support

    CallTool = Callable[[str, dict[str, Any]], dict[str, Any]]

ERRORS: Final = 200
"""Maximum number of logged errors that are searched for a failed import."""
REASON_CHARACTERS: Final = 160
"""Maximum length of an error in the report."""
_SEAM_NAME: Final = re.compile(r"codriver[._/]seam")


def seam_row(session: Mapping[str, Any], support: Support | None, call_tool: CallTool) -> Row | None:
    """Return the row for the seam in a session's report, or None if there is no REPL.

    `support` is None if the REPL has no seam. For `call_tool`, see `codriver.setup.doctor`.
    """
    way = STEPS.get(str(session.get("dialect")))
    if session.get("phase") != "connected":
        return _left_behind(session)
    if support is not None:
        return Row(SEAM, support, _seam_detail(session, way))
    if way is None:
        return Row(SEAM, "missing", NO_WAY)
    for why in (_switched_off, _failed_import):
        if reason := why(session, way, call_tool):
            return Row(SEAM, "missing", reason)
    return Row(SEAM, "missing", WAYS[str(session.get("dialect"))])


def _seam_detail(session: Mapping[str, Any], way: Steps | None) -> str:
    """Describe a loaded seam: its provider, and its frames or why there are none."""
    support, exposed = session["capabilities"][SEAM], session.get(SEAM)
    by = f"by {support.get('op')}"
    if not isinstance(exposed, dict):
        return by
    if (contract := exposed.get("contract")) is not None:
        return (
            f"{by}, of another version: it uses contract {contract}, and this codriver uses {CONTRACT}; update "
            "it (codriver seam copy DIR, or the package in its environment) and start the application again"
        )
    if frames := exposed.get("frames"):
        return f"{by}; frames: {', '.join(map(str, frames))}"
    cure = f": evaluate {way.code}" if way is not None else ""
    return f"{by}, which has no frames, so that no state is visible{cure}"


def _left_behind(session: Mapping[str, Any]) -> Row | None:
    """Return the row for a port file without a REPL, whose application has ended."""
    if session.get("kind") != "port-file":
        return None
    file = session.get("origin")  # the check of the REPL has the reason
    cure = f"start the application again, or rm {file} if it has ended"
    return Row(SEAM, "missing", f"{file} leads to no REPL: {cure}")


def _switched_off(session: Mapping[str, Any], way: Steps, call_tool: CallTool) -> str:
    """Return why a seam that was imported is not active, or an empty string if unknown."""
    found = _answer(call_tool, "symbol_info", {"symbol": way.function, "namespace": way.module, **_of(session)})
    if "arglists" not in found or as_map(found.get("extra")).get("imported") == "no":
        return ""
    file = f" from {found['file']}" if found.get("file") else ""
    return f"{way.module} was imported{file} but is not active: evaluate {way.code}"


def _failed_import(session: Mapping[str, Any], way: Steps, call_tool: CallTool) -> str:
    """Return the error with which an import of the seam failed, or an empty string if the log has none."""
    answer = _answer(call_tool, "repl_output_log", {"category": ["evaluationErrorOutput"], "limit": ERRORS})
    for entry in reversed(answer.get("result") or ()):
        lines = [line for line in str(entry.get("text")).splitlines() if line.strip()]
        if entry.get("repl-session-key") == session.get("key") and lines and _SEAM_NAME.search(lines[-1]):
            output = lines[-1][:REASON_CHARACTERS]
            return f"an import of it failed ({output}): load_file {way.file}, then evaluate {way.code}"
    return ""


def _of(session: Mapping[str, Any]) -> dict[str, Any]:
    return {"replSessionKey": session.get("key")}


def _answer(call_tool: CallTool, tool: str, arguments: dict[str, Any]) -> Mapping[str, Any]:
    """Return the answer of a tool, or an empty mapping if there is none."""
    try:
        answer = call_tool(tool, arguments)
    except (CodriverError, OSError, LookupError, ValueError):  # the row then has the fix without the reason
        return {}
    return answer if answer.get("ok", True) else {}


CHECKS: Final = FeatureChecks(rows={SEAM: seam_row})
