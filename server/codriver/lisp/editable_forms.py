"""Editable forms of a text: which they are, and the comments, separators and branches around each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codriver.lisp.reader import Form
    from codriver.lisp.tokens import Places

HOLDERS = frozenset({"comment", "clojure.core/comment", "cljs.core/comment", "basilisp.core/comment", "do"})
"""What begins a list whose forms stand there as at the top level: a comment, or what is run one after the other."""


@dataclass(frozen=True, slots=True)
class Unit:
    """A form that can be edited: a top-level form, also a discarded one, or one that stands directly in such a form.

    A form holds others in that way if it is a `(comment …)`, a `(do …)`, or a reader conditional, which holds the forms
    of its branches; and the form of a branch of `#?@` holds those that it splices in.

    Between `floor` and `ceiling` stand the form, space and comments, and nothing else. `floor` is where the sibling
    before ends (or the word `comment`, or a branch's feature, or where the text begins), `ceiling` where the sibling
    behind begins, or the closer stands (`ceiling_closes`), or the text ends. A form that `is_branch` has no siblings to
    be: a branch is a feature and one form.
    """

    start: int
    end: int
    line: int
    floor: int
    ceiling: int
    has_elder: bool
    is_nested: bool
    is_branch: bool
    ceiling_closes: bool


@dataclass(frozen=True, slots=True)
class _Group:
    """Forms side by side, between `floor` and `ceiling`; in a reader conditional features and forms in turn."""

    forms: Sequence[Form]
    floor: int
    ceiling: int
    is_nested: bool = True
    are_branches: bool = False
    are_spliced: bool = False


def units(text: str, forms: Sequence[Form], places: Places) -> tuple[Unit, ...]:
    """All forms of `text`, whose top `forms` are given, that can be edited: in its order, a form before those in it."""
    found: list[Unit] = []
    groups = [_Group(forms, 0, len(text), is_nested=False)]
    while groups:
        group = groups.pop()
        floor, is_feature = group.floor, True
        starts = [*(form.start for form in group.forms[1:]), group.ceiling]
        for index, form in enumerate(group.forms):
            is_last = index == len(group.forms) - 1
            if not group.are_branches or not (is_feature or form.kind == "discard"):
                found.append(
                    Unit(
                        form.start,
                        form.end,
                        places.line(form.start),
                        floor,
                        starts[index],
                        has_elder=index > 0,
                        is_nested=group.is_nested,
                        is_branch=group.are_branches,
                        ceiling_closes=group.is_nested and is_last,
                    )
                )
                held = _spliced(text, form) if group.are_spliced else _held(text, form)
                if held is not None:
                    groups.append(held)
            is_feature ^= form.kind != "discard"
            floor = form.end
    return tuple(sorted(found, key=lambda unit: (unit.start, -unit.end)))


def _held(text: str, form: Form) -> _Group | None:
    """The forms that stand directly in `form`, if it is one that others stand in as at the top level."""
    if form.kind == "prefixed" and text.startswith("#?", form.start):
        taken = [child for child in form.children if child.kind != "discard"]
        if taken and taken[-1].kind == "list":
            is_splicing = text.startswith("#?@", form.start)
            return _within(text, taken[-1], are_branches=True, are_spliced=is_splicing)
    elif form.kind == "list":
        children = form.children
        head = children[0] if children else None
        if head is not None and head.kind == "atom" and text[head.start : head.end] in HOLDERS:
            return _within(text, form, skip=1)
    return None


def _spliced(text: str, form: Form) -> _Group | None:
    """The forms that `form`, of a branch of `#?@`, puts in its place."""
    return _within(text, form) if form.kind in ("vector", "list") and text[form.start] != "#" else None


def _within(
    text: str, form: Form, *, skip: int = 0, are_branches: bool = False, are_spliced: bool = False
) -> _Group | None:
    """The forms in a bracket but for the first `skip`; none if one would take what comes behind it."""
    children = form.children
    if len(children) <= skip or _is_incomplete(text, children[-1]):
        return None
    floor = children[skip - 1].end if skip else form.start + 1
    return _Group(children[skip:], floor, form.end - 1, are_branches=are_branches, are_spliced=are_spliced)


def _is_incomplete(text: str, form: Form) -> bool:
    """Whether a prefix lacks what it takes: it would take a form that comes behind it."""
    while form.kind in ("prefixed", "discard"):
        taken = [child for child in form.children if child.kind != "discard"]
        if len(taken) < (2 if text.startswith(("^", "#^"), form.start) else 1):
            return True
        form = taken[-1]
    return False
