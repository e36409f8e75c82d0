"""Compute digests of code objects that are equal for two compilations of a function, wherever it is in the file.

Comparing bytecode is not enough. CPython compiles the call `click.echo(n)` in two ways, depending on whether the
compiled text also contains `import click`, and a load compiles statements one by one.
"""

from __future__ import annotations

import functools
import opcode
import sys
import types
import zlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

BEHAVIOUR_FLAGS = 0x1 | 0x2 | 0x4 | 0x8 | 0x20 | 0x80 | 0x100 | 0x200
"""The code flags that describe arguments, generators and coroutines. Source: `Include/cpython/code.h`."""
OPTIMIZED_FLAG = 0x1
"""The flag `CO_OPTIMIZED`, which is set in the code of functions. Source: `inspect`."""
HAS_DOCSTRING_FLAG = 0x4000000
"""The flag of functions whose first constant is a docstring, since Python 3.14. Source: `Include/cpython/code.h`."""
MAX_CACHED_DIGESTS = 4096
"""Maximum number of code objects whose digests are cached."""

_EXTENDED_ARG = opcode.opmap["EXTENDED_ARG"]
_IGNORED_INSTRUCTIONS = frozenset(
    opcode.opmap[name] for name in ("CACHE", "NOP", "PUSH_NULL", "PRECALL") if name in opcode.opmap
)
_JUMP_INSTRUCTIONS = frozenset((*opcode.hasjrel, *opcode.hasjabs))
_ATTRIBUTE_INSTRUCTIONS = frozenset(opcode.opmap[name] for name in ("LOAD_ATTR", "LOAD_METHOD") if name in opcode.opmap)
_CALL_INSTRUCTIONS = frozenset(opcode.opmap[name] for name in ("CALL_METHOD", "CALL_FUNCTION") if name in opcode.opmap)
_ATTRIBUTE_SHIFT = 1 if "LOAD_METHOD" not in opcode.opmap or opcode.opmap["LOAD_METHOD"] > 255 else 0
"""Number of extra low bits in an attribute's index. From Python 3.12 on, one bit shows whether it is called."""

_LOAD_GLOBAL = opcode.opmap["LOAD_GLOBAL"]
_GLOBAL_SHIFT = 1 if sys.version_info >= (3, 11) else 0
"""Number of extra low bits in a global's index. From Python 3.11 on, one bit shows whether a call pushes NULL."""


@functools.lru_cache(maxsize=MAX_CACHED_DIGESTS)
def code_digest(code: types.CodeType) -> str:
    """Return a digest of a code object's instructions, names and constants. Docstrings and line numbers are ignored."""
    head = (
        code.co_name, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars,
        code.co_flags & BEHAVIOUR_FLAGS, code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount,
    )  # fmt: skip
    parts = head, list(_steps(code.co_code)), [_constant(constant) for constant in _constants(code)]
    return short_digest(repr(parts).encode("utf-8", "backslashreplace"))


def short_digest(data: bytes) -> str:
    """Return a short, non-cryptographic digest of data. Importing `hashlib` would take longer."""
    return f"{zlib.crc32(data):08x}{zlib.adler32(data):08x}"


def nested_codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """Yield a code object and all code objects nested in it."""
    waiting = [code]
    while waiting:
        item = waiting.pop()
        yield item
        waiting += (inner for inner in item.co_consts if type(inner) is types.CodeType)


def _steps(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield the instructions with their arguments. Jumps have the argument 0, because distances may differ."""
    extended = 0
    for position in range(0, len(data), 2):
        operation, argument = data[position], data[position + 1] | extended
        if operation == _EXTENDED_ARG:
            extended = argument << 8
            continue
        extended = 0
        if operation in _IGNORED_INSTRUCTIONS:
            continue
        if operation in _ATTRIBUTE_INSTRUCTIONS:
            yield -1, argument >> _ATTRIBUTE_SHIFT
        elif operation == _LOAD_GLOBAL:
            yield operation, argument >> _GLOBAL_SHIFT
        elif operation in _CALL_INSTRUCTIONS:
            yield -2, argument
        else:
            yield operation, 0 if operation in _JUMP_INSTRUCTIONS else argument


def _constants(code: types.CodeType) -> tuple[object, ...]:
    constants = code.co_consts
    if not constants or type(constants[0]) is not str or not code.co_flags & OPTIMIZED_FLAG or code.co_name[:1] == "<":
        return constants
    # Before Python 3.14, the first constant of a function is its docstring or None.
    is_marked = opcode.opmap.get("LOAD_SMALL_INT") is not None
    return constants[1:] if not is_marked or code.co_flags & HAS_DOCSTRING_FLAG else constants


def _constant(value: object) -> str:
    if type(value) is types.CodeType:
        return code_digest(value)
    if type(value) is frozenset:
        return "{" + ", ".join(sorted(map(_constant, value))) + "}"
    if type(value) is tuple:
        return "(" + ", ".join(map(_constant, value)) + ")"
    if type(value) is int:
        return hex(value)  # the decimal text of a huge number would raise an error
    return repr(value)
