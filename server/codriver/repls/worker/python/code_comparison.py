"""Comparison of code objects by what they do: comments, layout and places do not count."""

from __future__ import annotations

import types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def is_same_code(one: types.CodeType, other: types.CodeType) -> bool:
    """Whether two codes do the same."""
    one, other = own_code(one), own_code(other)
    if one is other:
        return True
    if _shape(one) != _shape(other) or len(one.co_consts) != len(other.co_consts):
        return False
    return all(_is_same_constant(a, b) for a, b in zip(one.co_consts, other.co_consts))


def own_code(code: types.CodeType) -> types.CodeType:
    """The code itself, where the seam of an application put a copy in its place to capture calls."""
    last = code.co_consts[-1] if code.co_consts else None
    is_copy = type(last).__module__ == "codriver_seam.copies"
    return last.code if is_copy else code  # type: ignore[union-attr]  # it is a class of an application's


def _shape(code: types.CodeType) -> tuple[Any, ...]:
    return (
        code.co_code, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars, code.co_argcount,
        code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags,
    )  # fmt: skip


def _is_same_constant(one: object, other: object) -> bool:
    if isinstance(one, types.CodeType) and isinstance(other, types.CodeType):
        return is_same_code(one, other)
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(_is_same_constant, one, other))
    is_same = one == other if isinstance(one, frozenset) else repr(one) == repr(other)
    return is_same and type(one) is type(other)
