"""`what_changed`: where the loaded code differs from the files, and which objects of a former load live on."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from codriver.core.values import NOT_LISP
from codriver.tools.answers.answer_budget import budget, fit
from codriver.tools.calls.base import TEXTS, Answer, Arguments, Call, Tool, answer_schema
from codriver.tools.calls.session_choice import chosen
from codriver.tools.truth.drift_notes import STALE, drift_of, few, stale_line

if TYPE_CHECKING:
    from collections.abc import Iterable

    from codriver.core.state import Repl
    from codriver.repls.contract.drift_values import Difference

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


class DriftArguments(Arguments):
    """Arguments of `what_changed`."""

    repl_session_key: str | None = None


async def what_changed(call: Call, arguments: DriftArguments) -> Answer:
    """Every difference between what is loaded and the files, a line for each module and object."""
    repl = chosen(call, arguments.repl_session_key, call.who(arguments.who)).repl
    found = await drift_of(call, repl)
    lines = [*_of_modules(call, repl, found), *(stale_line(one) for one in found if one.kind in STALE)]
    shown, note, omitted = fit(lines, budget(call))
    fields: dict[str, object] = {"differences": shown, "count": len(lines), "sessionKey": repl.key}
    if omitted:
        fields["omitted"] = omitted
    return Answer({**fields, "notes": [note]} if note else fields)


def _of_modules(call: Call, repl: Repl, found: Iterable[Difference]) -> list[str]:
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


def _defined_by(call: Call, repl: Repl, name: str) -> str:
    """The caller and the evaluation that defined a name, in words, as far as the log tells."""
    last = re.escape(name.rpartition(".")[2])
    defines = re.compile(rf"\b(?:def|class)\s+{last}\b|\b{last}\s*=")
    for entry in reversed(call.services.log.entries(category=("evaluatedCode",), limit=ENTRIES)):
        evaluation = call.state.evaluations.get(entry.evaluation or "")
        is_here = evaluation is not None and (evaluation.repl, evaluation.generation) == (repl.id, repl.generation)
        if is_here and evaluation is not None and evaluation.kind == "evaluate" and defines.search(entry.text):
            return f" ({evaluation.who}, {evaluation.id})"
    return ""


TOOLS = (
    Tool(
        name="what_changed",
        title="What changed",
        description="Where loaded code differs from its files: edited, redefined, old objects.",
        arguments=DriftArguments,
        output=answer_schema(differences=TEXTS, count="integer", omitted="integer", sessionKey="string", notes=TEXTS),
        run=what_changed,
        needs=("drift",),
        read_only=True,
        idempotent=True,
        search_hint="drift stale reload outdated definitions",
    ),
)
