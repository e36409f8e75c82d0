"""Recognise IPython's commands and magics, which plain Python cannot parse, and suggest equivalents."""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


MAGIC_EQUIVALENTS: Mapping[str, str] = MappingProxyType({
    "%timeit": "timeit.timeit(...)", "%time": "time.perf_counter() before and after", "%run": "load_file",
    "%cd": "os.chdir(...)", "%pwd": "os.getcwd()", "%pip": "subprocess.run([sys.executable, '-m', 'pip', ...])",
    "%load_ext": "import", "%who": "dir()", "%env": "os.environ", "%matplotlib": "nothing: figures need no setting",
})  # fmt: skip
"""Python's equivalents of the magics of IPython."""
_ASSIGNMENT_START = re.compile(r"[^=!%]+=\s*(?=[!%])")
"""Matches the start of a line that assigns the result of a command of IPython."""


def python_equivalent(line: str) -> str | None:
    """Return Python's equivalent of a line with IPython's syntax, or None for any other line."""
    text = line.strip()
    capture_arguments = ""
    if assigned := _ASSIGNMENT_START.match(text):
        text, capture_arguments = text[assigned.end() :], ", capture_output=True, text=True"
    if text.startswith("!"):
        command = text[1:].strip()
        return (
            f"!command is IPython syntax: call subprocess.run({command!r}, shell=True, check=True{capture_arguments})"
        )
    if text.startswith("%"):
        magic = "%" + text.lstrip("%").partition(" ")[0]
        return f"{magic} is an IPython magic: use {MAGIC_EQUIVALENTS.get(magic, 'plain Python')}"
    return None
