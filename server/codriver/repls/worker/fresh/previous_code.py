"""Find functions, suspended generators and running frames with code that is no longer in their file.

Nothing is imported.
"""

from __future__ import annotations

import sys
import types

from .code_texts import code_digest
from .collected_objects import collected_objects
from .leaves import is_class, module_and_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping
    from typing import Any

_CODE_ATTRIBUTE_BY_TYPE = {
    id(types.FunctionType): "__code__",
    id(types.GeneratorType): "gi_code",
    id(types.CoroutineType): "cr_code",
    id(types.AsyncGeneratorType): "ag_code",
}
_WORD_BY_TYPE = {
    id(types.FunctionType): "function",
    id(types.GeneratorType): "generator",
    id(types.CoroutineType): "coroutine",
    id(types.AsyncGeneratorType): "generator",
}
"""The word used for an object with code, by the id of its type."""
FRAME_WORD = "frame"
"""The word used for a running call."""


def previous_code(
    known: Mapping[str, Collection[str]], is_idle: Callable[[], bool]
) -> list[tuple[str, str, str]] | None:
    """Return the file, kind and qualified name of each object with code that is no longer in its file.

    `known` maps files to the digests of all code in their current sources. Methods are omitted, because instances of
    previous classes are reported separately. Returns None if the process is no longer idle.
    """
    found: dict[tuple[str, str, str], None] = {}
    for live in _live_code(is_idle):
        if live is None:
            return None
        kind, code, thing = live
        codes = known.get(code.co_filename)
        if codes is None or code.co_name == "<module>" or code_digest(code) in codes:
            continue
        name = getattr(code, "co_qualname", None) or _qualified_name(thing, code)
        if kind != "function" or not _is_method(name):
            found[code.co_filename, kind, name] = None
    return sorted(found)


def _live_code(is_idle: Callable[[], bool]) -> Iterator[tuple[str, types.CodeType, Any] | None]:
    """Yield the kind, code and object of everything that has code. Yield None if the process is no longer idle."""
    for thing in collected_objects(is_idle):
        if thing is None:
            yield None
        name = _CODE_ATTRIBUTE_BY_TYPE.get(id(type(thing)))
        if name is not None:
            code = getattr(thing, name)
            if code is not None:
                yield _WORD_BY_TYPE[id(type(thing))], code, thing
    for frame in list(sys._current_frames().values()):  # noqa: SLF001  # no other way to it
        current: types.FrameType | None = frame
        while current is not None:
            yield FRAME_WORD, current.f_code, None
            current = current.f_back


def _qualified_name(thing: Any, code: types.CodeType) -> str:
    """Return the qualified name of code. Before Python 3.11, code objects do not have one."""
    if type(thing) is types.FunctionType and not is_class(thing):
        return module_and_name(thing)[1] or code.co_name
    return code.co_name


def _is_method(name: str) -> bool:
    return "." in name.rpartition("<locals>.")[2] if "<locals>" in name else "." in name
