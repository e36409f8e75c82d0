"""The seam as the doctor sees it: by which frames the application in a REPL shows itself, else why not, and the cure.

Nothing is evaluated for it: the server is asked about a name of the seam's, and about errors that were told already.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from codriver.errors import CodriverError
from codriver.repls.seam.seam_providers import CONTRACT, NO_WAY, STEPS, WAYS, Steps
from codriver.setup.doctor_report import Row

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from codriver.setup.doctor_report import Support

    Ask = Callable[[str, dict[str, Any]], dict[str, Any]]

SEAM: Final = "seam"
ERRORS: Final = 200
"""Errors of the log among which that of an import is looked for, the newest ones."""
REASON_CHARACTERS: Final = 160
_OURS: Final = re.compile(r"codriver[._/]seam")


def seam_row(session: Mapping[str, Any], support: Support | None, ask: Ask) -> Row | None:
    """The row of a session, `support` being that of its REPL; None where its REPL is not there and had no place.

    `ask`: see `codriver.setup.doctor`.
    """
    way = STEPS.get(str(session.get("dialect")))
    if session.get("phase") != "connected":
        return _left_behind(session)
    if support is not None:
        return Row(SEAM, support, _told(session, way))
    if way is None:
        return Row(SEAM, "missing", NO_WAY)
    for why in (_switched_off, _failed_import):
        if reason := why(session, way, ask):
            return Row(SEAM, "missing", reason)
    return Row(SEAM, "missing", WAYS[str(session.get("dialect"))])


def _told(session: Mapping[str, Any], way: Steps | None) -> str:
    """The seam that is there: its provider, its frames by name, and what is wrong with it."""
    support, shown = session["capabilities"][SEAM], session.get(SEAM)
    by = f"by {support.get('op')}"
    if not isinstance(shown, dict):
        return by
    if (contract := shown.get("contract")) is not None:
        return (
            f"{by}, of another version: it answers by contract {contract}, and this codriver asks by {CONTRACT}; renew "
            "it (codriver seam copy DIR, or the package in its environment) and start the application again"
        )
    if frames := shown.get("frames"):
        return f"{by}; frames: {', '.join(map(str, frames))}"
    cure = f": evaluate {way.code}" if way is not None else ""
    return f"{by}, which names no frame, so that no state is shown{cure}"


def _left_behind(session: Mapping[str, Any]) -> Row | None:
    """A port file that leads to no REPL, by which an application was found that has ended."""
    if session.get("kind") != "port-file":
        return None
    file = session.get("origin")  # the check of the REPL says why
    cure = f"start the application again, or rm {file} if it was left behind"
    return Row(SEAM, "missing", f"{file} leads to no REPL: {cure}")


def _switched_off(session: Mapping[str, Any], way: Steps, ask: Ask) -> str:
    """The reason why an imported seam is off; empty if the seam was not imported, or nobody knows."""
    found = _answer(ask, "symbol_info", {"symbol": way.function, "namespace": way.module, **_of(session)})
    if "arglists" not in found:
        return ""
    file = f" from {found['file']}" if found.get("file") else ""
    return f"{way.module} was imported{file} and is not switched on: evaluate {way.code}"


def _failed_import(session: Mapping[str, Any], way: Steps, ask: Ask) -> str:
    """The reason where an import of the seam failed in an evaluation; empty where none is in the log."""
    told = _answer(ask, "repl_output_log", {"category": ["evaluationErrorOutput"], "limit": ERRORS})
    for entry in reversed(told.get("result") or ()):
        lines = [line for line in str(entry.get("text")).splitlines() if line.strip()]
        if entry.get("repl-session-key") == session.get("key") and lines and _OURS.search(lines[-1]):
            said = lines[-1][:REASON_CHARACTERS]
            return f"an import of it failed ({said}): load_file {way.file}, then evaluate {way.code}"
    return ""


def _of(session: Mapping[str, Any]) -> dict[str, Any]:
    return {"replSessionKey": session.get("key")}


def _answer(ask: Ask, tool: str, arguments: dict[str, Any]) -> Mapping[str, Any]:
    """The answer of a tool; empty where there is none."""
    try:
        answer = ask(tool, arguments)
    except (CodriverError, OSError, LookupError, ValueError):  # the row then tells how, and not why
        return {}
    return answer if answer.get("ok", True) else {}
