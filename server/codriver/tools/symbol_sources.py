"""Find the source code of a symbol, in its REPL or in the newest evaluated code that defines it."""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from codriver.repls.contract.queries import FindSource
from codriver.tools.answers.answer_budget import cut_to_head, default_budget, json_bytes
from codriver.tools.answers.source_lines import numbered_definition, without_numbers
from codriver.tools.symbol_fields import first_paragraph
from codriver_lisp.reader import top_level_forms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codriver.tools.calls.call import Call
    from codriver.tools.calls.session_choice import Target

_DEFINITION_PATTERN: Final = re.compile(r"\((?:\S+/)?(?:def\S*|setv)\s")
"""Matches the start of a form that defines a name."""
MAX_EVALUATED_CHARACTERS: Final = 100_000
"""Maximum number of characters of evaluated code searched for a definition."""


async def describe_source(
    call: Call, target: Target, namespace: str | None, symbol: str, known: dict[str, object]
) -> dict[str, object]:
    """Return the source code of a symbol as fields of an answer, together with its `known` fields.

    The source comes from the REPL, or from the newest evaluated code that defines the symbol. Lines of a Lisp file are
    numbered, because edits of Lisp forms name lines. Documentation that the source contains is removed
    from the known fields, and other documentation is reduced to its first paragraph.
    """
    query = FindSource(symbol, namespace=namespace, session=target.session.name)
    found = await call.services.repls.adapter(target.repl.id).query(query)
    is_lisp = target.repl.dialect != "python"
    text = None if found is None else _first_form(found.text, str(known.get("name", symbol))) if is_lisp else found.text
    if text is None and is_lisp:
        entries = call.services.log.entries(category={"evaluatedCode"})
        codes = [
            entry.text
            for entry in entries
            if len(entry.text) <= MAX_EVALUATED_CHARACTERS and _shares_definitions(entry.session_key, target)
        ]
        text = _newest_definition(codes, str(known.get("name", symbol)))
    if text is None:
        return {"notes": ["the source is unknown: the symbol is built in, or was not defined in a file"]}
    clean = call.services.log.redact(text)
    whole = clean.count("\n") + 1
    if found is not None and found.line and _is_path(found.file):
        clean = numbered_definition(
            clean, found.line, lambda text: json_bytes(text) <= default_budget(call), is_python=not is_lisp
        )
        clean = clean if is_lisp else without_numbers(clean)
        known["line"] = found.line
    cut = cut_to_head(clean, default_budget(call))
    fields: dict[str, object] = {"source": cut.text}
    if doc := str(known.pop("doc", "")):
        is_included = not cut.omitted and all(line.strip() in cut.text for line in doc.splitlines())
        known |= {} if is_included else {"doc": first_paragraph(doc)}
    if cut.omitted:
        included_lines = cut.text.count("\n")
        location = "the evaluated code, in the log"
        if found and found.file:
            location = f"{found.file} from line {(found.line or 1) + included_lines} on"
        fields["notes"] = [f"source has the first {included_lines} of {whole} lines. The rest is in {location}"]
    return fields


def _is_path(file: str | None) -> bool:
    """Return whether the name of a source is a path, and not the name of evaluated code or of a cell."""
    return file is not None and not file.startswith("<") and bool(PurePath(file).suffix)


def _shares_definitions(session_key: str | None, target: Target) -> bool:
    """Return whether the session with this key shares its definitions with the target, as all lanes of a REPL do."""
    key = target.repl.key
    return session_key in (target.key, key) or (session_key or "").startswith(f"{key}/")


def _first_form(text: str, name: str) -> str | None:
    """Return the form that starts on the first line of the text, or None.

    If several forms do, the one that defines the name is preferred.
    """
    forms = [text[span.start : span.end] for span in top_level_forms(text) if span.line == 1]
    return next((form for form in forms if _defines(form, name)), forms[0] if forms else None)


def _defines(form: str, name: str) -> bool:
    return _DEFINITION_PATTERN.match(form) is not None and name in form.split(maxsplit=4)[1:4]


def _newest_definition(codes: Sequence[str], name: str) -> str | None:
    """Return the last form that defines a name in evaluated code, which is ordered from oldest to newest, or None."""
    for code in reversed(codes):
        for span in reversed(top_level_forms(code) if name in code else ()):
            form = code[span.start : span.end]
            if _defines(form, name):
                return form
    return None
