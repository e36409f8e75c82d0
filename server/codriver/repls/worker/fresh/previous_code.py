"""Find functions, suspended generators and running frames with code that is no longer in their file.

Nothing is imported.
"""

from __future__ import annotations

import gc
import sys
import types

from .code_texts import code_digest, nested_codes
from .leaves import is_class, module_and_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
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
OBJECTS_PER_CHECK = 8192
"""Number of objects that a scan visits before it checks again whether the process is idle."""


def previous_code(sources: dict[str, bytes], is_idle: Callable[[], bool]) -> list[tuple[str, str, str]] | None:
    """Return the file, kind and qualified name of each object with code that is no longer in its file.

    `sources` maps files to their current sources. Methods are omitted, because instances of previous classes are
    reported separately. Returns None if the process is no longer idle.
    """
    known = {file: _source_digests(file, source) for file, source in sources.items()}
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


def _source_digests(file: str, source: bytes) -> set[str]:
    """Return the digests of all code objects in a source, or an empty set if the source cannot be compiled."""
    try:
        code = compile(source, file, "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return set()
    return {code_digest(one) for one in nested_codes(code)}


def _live_code(is_idle: Callable[[], bool]) -> Iterator[tuple[str, types.CodeType, Any] | None]:
    """Yield the kind, code and object of everything that has code. Yield None if the process is no longer idle."""
    for number, thing in enumerate(gc.get_objects()):
        if not number % OBJECTS_PER_CHECK and not is_idle():
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
