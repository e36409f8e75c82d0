"""The digest for an agent that begins, or has forgotten: REPLs, what is defined in no file, failures, who is here."""

from __future__ import annotations

import re
import time
from functools import partial
from typing import TYPE_CHECKING, Final

from codriver.core.values import NOT_LISP
from codriver.files import KIBIBYTE, MEBIBYTE, Links, Rules, read
from codriver.files.workspace_walk import files_of
from codriver.net.seen_clients import OWN_NAMES
from codriver.repls.kinds import dialects_by_suffix
from codriver.tools.base import client_slug

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from codriver.core.state import Repl
    from codriver.core.values import Evaluation
    from codriver.tools.base import Call

MOST_CHARACTERS: Final = 1500
LINE_CHARACTERS: Final = 400
MOST_ENTRIES: Final = 400
"""Of the log, the newest evaluations that are looked through for definitions."""
MOST_FAILURES: Final = 3
SEARCH_SHARE: Final = 0.7
"""Of the time that the answer may take."""
SEARCH_BYTES: Final = 8 * MEBIBYTE
SEARCH_ENTRIES: Final = 20_000
RULES: Final = Rules(Links.WITHIN, 512 * KIBIBYTE)
LISP_NAME: Final = re.compile(r"^\s*\([^\s()]*def[^\s()]*\s+(?:\^\S+\s+)*([^\s()\[\]{}\"';,@^`~]+)", re.MULTILINE)
PYTHON_NAME: Final = re.compile(r"^(?:async\s+)?(?:def|class)\s+(\w+)", re.MULTILINE)


async def digest(call: Call, who: str, *, wait_s: float) -> str:
    """How the REPLs stand, for the caller `who`, in 1,500 characters at most; empty where there is nothing to tell."""
    state, services = call.state, call.services
    lines = [_listed("REPLs", map(_repl, state.repls.values()))]
    defined = _defined(call)
    if defined:
        on_disk = await services.work.files.run(
            call.client, partial(_names_on_disk, services.workspace, set(defined), SEARCH_SHARE * wait_s)
        )
        lines.append(_listed("Defined and in no file", (name for name in defined if name not in on_disk)))
    over = [one for one in state.evaluations.values() if one.over]
    failed = sorted((one for one in over if one.failure), key=lambda one: one.number)
    lines.append(_listed("Failed last", map(_failed, reversed(failed[-MOST_FAILURES:]))))
    lines.append(_listed("Running", map(_running, state.unfinished())))
    lines.append(_listed("Also here", _others(call, who)))
    told = [line for line in lines if line]
    return "\n".join(["Codriver:", *told])[:MOST_CHARACTERS] if told else ""


def _listed(title: str, parts: Iterable[str]) -> str:
    """A line, cut to its share of the digest; empty where there is nothing on it."""
    text = "; ".join(parts)
    if not text:
        return ""
    line = f"{title}: {text}".replace("\n", " ")
    return line if len(line) <= LINE_CHARACTERS else f"{line[: LINE_CHARACTERS - 1]}…"


def _repl(repl: Repl) -> str:
    generation = f", generation {repl.generation}" if repl.generation else ""
    return f"{repl.key} ({repl.dialect}, {repl.phase}{generation})"


def _failed(evaluation: Evaluation) -> str:
    failure = evaluation.failure
    words = failure.message.strip().partition("\n")[0][:120] if failure else ""
    return f"{evaluation.id} of {evaluation.who}: {words}"


def _running(evaluation: Evaluation) -> str:
    return f"{evaluation.id} of {evaluation.who}, {evaluation.status}: {evaluation.head[:80]}"


def _others(call: Call, who: str) -> list[str]:
    """The other clients by their callers' names, each once; our own commands are none.

    Where a hook's program asks, one of the clients named `who` is the one that it asks for.
    """
    rows = call.services.client_counters()
    names = [str(row["name"]) for row in rows if row["id"] != call.client and row["name"]]
    found = [client_slug(name) for name in names if not name.startswith(OWN_NAMES)]
    if call.client_name.startswith(OWN_NAMES) and who in found:
        found.remove(who)
    return sorted(set(found))


def _defined(call: Call) -> tuple[str, ...]:
    """The names that evaluations defined in REPLs as they live now, as far as the log tells; the newest first."""
    state, names = call.state, []
    for entry in reversed(call.services.log.entries(category=("evaluatedCode",), limit=MOST_ENTRIES)):
        evaluation = state.evaluations.get(entry.evaluation or "")
        repl = None if evaluation is None else state.repls.get(evaluation.repl)
        if evaluation is None or repl is None or (evaluation.kind, evaluation.status) != ("evaluate", "done"):
            continue
        if evaluation.generation == repl.generation:
            pattern = PYTHON_NAME if repl.dialect in NOT_LISP else LISP_NAME
            names += pattern.findall(entry.text)
    return tuple(dict.fromkeys(names))


def _names_on_disk(workspace: Path, wanted: set[str], search_s: float) -> set[str]:
    """Those of the names that a source file of the workspace defines, as far as time and size allow. Blocks.

    Where they do not allow it to look everywhere, all of them: nothing is said that may be wrong.
    """
    found: set[str] = set()
    ends_at, left = time.monotonic() + search_s, SEARCH_BYTES
    for path in files_of(workspace, tuple(dialects_by_suffix()), max_entries=SEARCH_ENTRIES):
        if time.monotonic() > ends_at or left <= 0:
            return wanted
        try:
            text = read(path, RULES, root=workspace).decode("utf-8", "replace")
        except OSError:
            continue
        left -= len(text)
        found.update((PYTHON_NAME if path.suffix == ".py" else LISP_NAME).findall(text))
        if wanted <= found:
            break
    return found
