"""Find the source code at a location: a line in a file, or a frame of the last error."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Final

from codriver.errors import format_count, refused
from codriver.repls.contract.queries import LastError
from codriver.tools.answers.answer_budget import cut_to_head, default_budget
from codriver.tools.answers.source_lines import excerpt, split_lines
from codriver.tools.execution.source_files import read_source

if TYPE_CHECKING:
    from codriver.tools.calls.call import Call
    from codriver.tools.calls.session_choice import Target

DEFINITION_PREFIXES: Final = ("def ", "async def ", "@")
"""Prefixes of the first line of a Python function."""
MAX_WHOLE_CHARACTERS: Final = 3000
"""Maximum number of characters of a function that is returned in full if any of its lines is requested."""
LOCATION_PATTERN: Final = re.compile(r"@?(?P<file>[^:]+\.\w+):(?P<line>\d+)(?: in .*)?")
"""Matches a file and a line, with or without the notation for frames."""


async def describe_location(call: Call, target: Target, text: str) -> dict[str, object] | None:
    """Return the source around a `file:line` or around a numbered frame of the last error.

    Returns None if `text` names neither.

    Raises:
        RefusedError: the frame, file or line does not exist.
    """
    file, line = "", 0
    if text.isdecimal():
        query = LastError(session=target.session.name)
        trace = await call.services.repls.adapter(target.repl.id).query(query)
        frames = trace.frames if trace is not None else ()
        if int(text) >= len(frames):
            count = format_count(len(frames), "frame")
            known = f"the last error has {count}" if frames else "no error has happened in this session"
            raise refused(
                "unknown-symbol",
                f"there is no frame {text}: {known}",
                hint='Call status with about: "error" to see the frames.',
            )
        frame = frames[int(text)]
        file, line = frame.file or "", frame.line or 0
    elif found := LOCATION_PATTERN.fullmatch(text.strip()):
        file, line = found["file"], int(found["line"])
    else:
        return None
    path = call.services.workspace / file
    lines = split_lines(await call.services.work.files.run(call.client, partial(read_source, path)))
    # For the first line of a function, return all of it, and for any other line the code near it.
    is_definition = 0 < line <= len(lines) and lines[line - 1].lstrip().startswith(DEFINITION_PREFIXES)
    most = default_budget(call) if is_definition else MAX_WHOLE_CHARACTERS
    text = excerpt(lines, line, whole_characters=most, documented_characters=most)
    if not text:
        raise refused(
            "unknown-symbol",
            f"{file} has only {len(lines)} lines, so there is no line {line}",
            hint="Pass a line that is in the file.",
        )
    return {
        "file": file,
        "line": line,
        "source": cut_to_head(call.services.log.redact(text), default_budget(call)).text,
    }
