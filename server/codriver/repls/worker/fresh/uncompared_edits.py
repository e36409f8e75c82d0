"""What the loads of a module changed since it was last compared with a fresh import."""

from __future__ import annotations

from .code_texts import code_digest, nested_codes
from .leaf_rules import changed_leaves

TYPE_CHECKING = False
if TYPE_CHECKING:
    import types
    from collections.abc import Mapping

MAX_WATCHED_PATHS = 2000
"""Maximum number of compared paths to values that loads have changed."""
CODE_NUMBER_PREFIX = "\0"
"""The prefix of the number that represents a code object in a description until its digest is needed."""


class Edit:
    """All loads of one module since the module was last compared, combined into a single edit."""

    def __init__(self, name: str, file: str, previous: bytes) -> None:
        self.name, self.file = name, file
        self.previous = previous
        """The source before the first of these loads."""
        self.before: dict[str, str] | None = None
        self.after: dict[str, str] | None = None
        """Descriptions of all values in the module, by path, before the loads and after them.

        They are None while the loads have only defined functions and classes.
        """
        self.codes: dict[str, types.CodeType] = {}
        """The code objects to which the descriptions refer by number."""
        self.code: types.CodeType | None = None
        """The compiled current source, until `code_digests` has used it. None if the load did not compile it."""
        self._code_digests: frozenset[str] | None = None

    def code_digests(self, source: bytes) -> frozenset[str]:
        """Return the digests of all code objects in the current source, compiling it if the load did not."""
        if self._code_digests is None:
            code = self.code or compile(source, self.file, "exec", dont_inherit=True)
            self._code_digests = frozenset(map(code_digest, nested_codes(code)))
            self.code = None
        return self._code_digests

    def merge_with(self, other: Edit) -> Edit:
        """Return a single edit that combines this edit with a later one of the same module."""
        both = Edit(self.name, self.file, self.previous)
        both.before = other.before if self.before is None else self.before
        both.after = other.after if other.after is not None else self.after
        both.codes = {**self.codes, **other.codes}
        both.code, both._code_digests = other.code, other._code_digests
        return both

    def resolve_code_numbers(self) -> None:
        """Replace the numbers of code objects in the descriptions with digests of the code."""
        codes, self.codes = self.codes, {}

        def text_of(text: str) -> str:
            head, mark, number = text.partition(CODE_NUMBER_PREFIX)
            return head + code_digest(codes[mark + number]) if mark else text

        if codes and self.before is not None and self.after is not None:
            self.before = {path: text_of(text) for path, text in self.before.items()}
            self.after = {path: text_of(text) for path, text in self.after.items()}

    @property
    def undone(self) -> list[str]:
        """Return the paths of values that were changed or removed by the loads."""
        if self.before is None or self.after is None:
            return []
        return list(changed_leaves(self.before, self.after))[:MAX_WATCHED_PATHS]


def merge_edits(first: Mapping[str, Edit], later: Mapping[str, Edit]) -> dict[str, Edit]:
    """Return the edits of all modules. If a module has an edit in both mappings, the two are merged."""
    both = {name: first[name].merge_with(edit) if name in first else edit for name, edit in later.items()}
    return {**first, **both}
