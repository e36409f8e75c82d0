"""Find the function to display for a failed Lisp test: the one that raised, or one that the check called."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio

from codriver.errors import CodriverError
from codriver.repls.contract.queries import FindSource, Lookup
from codriver.tools.answers.source_lines import numbered_definition
from codriver.wire.untrusted import list_or_empty, mapping_or_empty, text_or_none
from codriver_lisp.reader import top_level_forms

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from codriver.core.state import Repl
    from codriver.tools.calls.call import Call

SEARCH_TIMEOUT_S: Final = 2.0
"""Time limit for finding a function, in seconds."""
MAX_SYMBOLS: Final = 5
"""Maximum number of symbols to look up in the search for a function."""
MAX_FUNCTION_CHARACTERS: Final = 2400
"""Maximum number of characters of a displayed function."""
CALLED_FUNCTION_PATTERN: Final = re.compile(r"\((?P<symbol>[^\s()\[\]{}\"';`~@^]+)")
"""Matches the start of a call, up to the end of the function's name."""


async def find_failure_source(call: Call, repl: Repl, session: str, row: Mapping[str, object]) -> str:
    """Return the location and source of the function that most likely made a Lisp test fail.

    `row` is the failed test in a report. For an error, the function is the innermost one outside the test's namespace.
    For a wrong value, it is the first function that the check called. Returns an empty string if the function is not
    found in the workspace.
    """
    namespace = text_or_none(row.get("ns")) or ""
    symbols = list(dict.fromkeys(_suspect_symbols(row, namespace)))[:MAX_SYMBOLS]
    with anyio.move_on_after(SEARCH_TIMEOUT_S), suppress(CodriverError):
        adapter = call.services.repls.adapter(repl.id)
        for symbol in symbols:
            query = FindSource(symbol, namespace=namespace, session=session)
            found = await adapter.query(query)
            if found is None or not found.file or not found.line:
                continue
            file = Path(found.file)
            if not file.is_absolute():  # it is relative to the class path
                about = await adapter.query(Lookup(symbol, namespace=namespace, session=session))
                file = Path(about.file if about is not None and about.file else file)
            if not file.is_relative_to(call.services.workspace):
                continue
            form = next(
                (
                    found.text[top_form.start : top_form.end]
                    for top_form in top_level_forms(found.text)
                    if top_form.line == 1
                ),
                "",
            )
            text = numbered_definition(form, found.line, lambda _: True, is_python=False) if form else ""
            if text and len(text) <= MAX_FUNCTION_CHARACTERS:
                where = f"{file.relative_to(call.services.workspace).as_posix()}:{found.line}"
                return call.services.log.redact(f"{where} in {symbol}\n{text}")
    return ""


def _suspect_symbols(row: Mapping[str, object], namespace: str) -> Iterator[str]:
    """Yield the symbols of functions that may have made a test fail, most likely first."""
    for frame in map(mapping_or_empty, list_or_empty(row.get("frames"))):
        owner, slash, name = (text_or_none(frame.get("function")) or "").partition("/")
        if slash and owner != namespace and not frame.get("tooling"):
            yield f"{owner}/{name.partition('/')[0]}"
    if not row.get("frames"):
        # The outermost call of a check compares values.
        yield from (
            found["symbol"]
            for found in list(CALLED_FUNCTION_PATTERN.finditer(text_or_none(row.get("expected")) or ""))[1:]
        )
