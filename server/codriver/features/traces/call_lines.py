"""Format recorded calls as lines of text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from codriver.features.traces.recorded_runs import CallRecord

MAX_LINE_CHARACTERS: Final = 88
"""Maximum length of a line about a call."""
INDENT: Final = "  "
"""Indentation of a call below its caller."""
LINE_OVERHEAD_BYTES: Final = 2
"""Bytes that each line adds to an answer in addition to its text."""


def format_call(call: CallRecord, indent: str = "", times: int = 1) -> str:
    """Return a line about a call. `times` is the number of repeated calls that it represents."""
    number = f"#{call.number}" if times == 1 else f"#{call.number} x{times}"
    return shorten_to_line(f"{indent}{number} {call.source}{format_outcome(call)}")


def format_outcome(call: CallRecord) -> str:
    """Return a call's result or error, to be appended to the call's text."""
    if call.error is not None:
        return f" raised {call.error}"
    if call.yields:
        return f" yielded {call.yields}x" + (
            f", then {call.result}" if call.duration_us >= 0 else f", last {call.result}"
        )
    return " goes on" if call.duration_us < 0 else f" -> {call.result}"


def shorten_to_line(text: str) -> str:
    """Put a string on one line. A long string is shortened in the middle, because a call's outcome is at the end."""
    text = text.replace("\n", " ")
    if len(text) <= MAX_LINE_CHARACTERS:
        return text
    return f"{text[: MAX_LINE_CHARACTERS * 2 // 3]}…{text[-MAX_LINE_CHARACTERS // 3 + 1 :]}"


def format_whole_call(call: CallRecord) -> str:
    """Return a line about a call with its complete arguments, outcome, duration, position and caller."""
    function = call.function
    named = [f"{name}={text}" for name, text in function.pair_with_parameters(call.arguments)]
    whole = (
        f"{function.name}({', '.join(named)})" if function.arities is None else f"({' '.join([function.name, *named])})"
    )
    caller = f", under #{call.parent.number} {call.parent.function.short_name}" if call.parent else ""
    duration = f", {call.duration_us / 1000:g} ms" if call.duration_us >= 0 else ""
    location = f", {function.file.rpartition('/')[2]}:{function.line}"
    return f"#{call.number} {whole}{format_outcome(call)}{duration}{location}{caller}"
