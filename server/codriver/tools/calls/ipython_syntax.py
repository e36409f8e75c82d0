"""IPython's commands and magics, which plain Python cannot read, with Python's equivalents."""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


MAGICS: Mapping[str, str] = MappingProxyType({
    "%timeit": "timeit.timeit(...)", "%time": "time.perf_counter() before and after", "%run": "load_file",
    "%cd": "os.chdir(...)", "%pwd": "os.getcwd()", "%pip": "subprocess.run([sys.executable, '-m', 'pip', ...])",
    "%load_ext": "import", "%who": "dir()", "%env": "os.environ", "%matplotlib": "nothing: figures need no setting",
})  # fmt: skip
"""Python's own equivalents of IPython's magics."""
_ASSIGNED = re.compile(r"[^=!%]+=\s*(?=[!%])")
"""The beginning of a line that keeps the result of one of IPython's commands."""


def pythons_way(line: str) -> str | None:
    """Return Python's equivalent of a line that cannot be read, if it has IPython's syntax; else None."""
    text = line.strip()
    keeps = ""
    if assigned := _ASSIGNED.match(text):
        text, keeps = text[assigned.end() :], ", capture_output=True, text=True"
    if text.startswith("!"):
        return f"!command is IPython's: call subprocess.run({text[1:].strip()!r}, shell=True, check=True{keeps})"
    if text.startswith("%"):
        magic = "%" + text.lstrip("%").partition(" ")[0]
        return f"{magic} is a magic of IPython: use {MAGICS.get(magic, 'plain Python')}"
    return None
