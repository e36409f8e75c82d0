"""Drift in lines: what of a REPL's code is not what the files say, a line for each module and object."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from codriver.core.values import NOT_LISP
from codriver.tools.truth.drift_notes import STALE, few, stale_line

if TYPE_CHECKING:
    from collections.abc import Iterable

    from codriver.core.state import Repl
    from codriver.repls.contract.drift_values import Difference
    from codriver.tools.calls.base import Asker

HEADS: Final = {
    "edited": "edited in the file since",
    "docstring": "docstring edited in the file since",
    "order": "in another order in the file since",
    "deleted": "deleted",
    "unparsable": "does not parse any more",
    "redefined": "redefined in the REPL",
    "gone": "only in the REPL",
    "missing": "only in the file",
    "unknown": "not known, as their load was not seen",
}
MOST_NAMES: Final = 20
ENTRIES: Final = 1000
"""Of the log, those in which the evaluation that defined a name is looked for."""


def drift_lines(call: Asker, repl: Repl, found: Iterable[Difference]) -> list[str]:
    """Every difference, those of one module in one line; who evaluated a definition as far as the log tells."""
    found = tuple(found)
    return [*_of_modules(call, repl, found), *(stale_line(one) for one in found if one.kind in STALE)]


def _of_modules(call: Asker, repl: Repl, found: Iterable[Difference]) -> list[str]:
    modules: dict[str, dict[str, list[str]]] = {}
    for one in found:
        if one.kind in HEADS:
            is_searched = one.evaluated and repl.dialect in NOT_LISP
            by = f" ({one.by})" if one.by else _defined_by(call, repl, one.name) if is_searched else ""
            part = f" ({one.of})" if one.of and not by else ""
            modules.setdefault(one.module, {}).setdefault(one.kind, []).append(one.name + part + by)
    return [
        f"{module}: " + "; ".join(f"{HEADS[kind]}: {few(kinds[kind], MOST_NAMES)}" for kind in HEADS if kind in kinds)
        for module, kinds in modules.items()
    ]


def _defined_by(call: Asker, repl: Repl, name: str) -> str:
    """The caller and the evaluation that defined a name, in words, as far as the log tells."""
    last = re.escape(name.rpartition(".")[2])
    defines = re.compile(rf"\b(?:def|class)\s+{last}\b|\b{last}\s*=")
    for entry in reversed(call.services.log.entries(category=("evaluatedCode",), limit=ENTRIES)):
        evaluation = call.state.evaluations.get(entry.evaluation or "")
        is_here = evaluation is not None and (evaluation.repl, evaluation.generation) == (repl.id, repl.generation)
        if is_here and evaluation is not None and evaluation.kind == "evaluate" and defines.search(entry.text):
            return f" ({evaluation.who}, {evaluation.id})"
    return ""
