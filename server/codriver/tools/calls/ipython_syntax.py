"""Recognize IPython's commands and magics, which plain Python cannot parse, and suggest equivalents."""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


MAGIC_EQUIVALENTS: Mapping[str, str] = MappingProxyType(
    {
        "%timeit": "use timeit.timeit(...)",
        "%time": "use time.perf_counter() before and after",
        "%run": "use load_file",
        "%cd": "use os.chdir(...)",
        "%pwd": "use os.getcwd()",
        "%pip": "use subprocess.run([sys.executable, '-m', 'pip', ...])",
        "%bash": "use subprocess.run(script, shell=True, check=True)",
        "%sh": "use subprocess.run(script, shell=True, check=True)",
        "%load_ext": "use import",
        "%autoreload": "leave it out, because edit_files and load_file load changes",
        "%who": "use dir()",
        "%env": "use os.environ",
        "%matplotlib": "leave it out, because figures need no setting",
    }
)
"""The advice for each IPython magic on what to do instead."""
_ASSIGNMENT_START_PATTERN = re.compile(r"[^=!%]+=\s*(?=[!%])")
"""Matches the start of a line that assigns the result of an IPython command."""
_STATEMENTS_BEFORE_PATTERN = re.compile(r"[^!%]*;\s*(?=[!%])")
"""Matches the statements that precede an IPython command on the same line."""
_LOOKUP_PATTERN = re.compile(r"\?{1,2}([\w.]+)|([\w.]+)\?{1,2}")
"""Matches a name with question marks before or after it, which display its documentation or source."""


def python_equivalent(line: str) -> str | None:
    """Suggest a Python equivalent for a line with IPython syntax. Return None for any other line."""
    text = line.strip()
    capture_arguments = ""
    if lookup := _LOOKUP_PATTERN.fullmatch(text):
        return f"{text} is IPython syntax: call symbol_info with the symbol {lookup[1] or lookup[2]!r}"
    if before := _STATEMENTS_BEFORE_PATTERN.match(text):
        text = text[before.end() :]
    if assigned := _ASSIGNMENT_START_PATTERN.match(text):
        text, capture_arguments = text[assigned.end() :], ", capture_output=True, text=True"
    if text.startswith("!"):
        command = text[1:].strip()
        return (
            f"!command is IPython syntax: call subprocess.run({command!r}, shell=True, check=True{capture_arguments})"
        )
    if text.startswith("%"):
        magic = "%" + text.lstrip("%").partition(" ")[0]
        return f"{magic} is an IPython magic: {MAGIC_EQUIVALENTS.get(magic, 'use plain Python')}"
    return None
