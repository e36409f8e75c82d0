"""Describe the effects of running a statement: what it reads, calls, fills and may do outside the process."""

from __future__ import annotations

from ...basics.definition_access import defining_module_name, order_of, qualified_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ast
    from collections.abc import Iterable
    from typing import Any, Tuple

    Read = Tuple[str, str]

    """A name that is read: the module, and the dotted name in it."""


class Effects:
    """The effects of running a statement.

    - `reads` contains the names that the statement reads, including the names read by functions that it calls.
    - `calls` contains the ids of the functions that it calls.
    - `defaults` contains the ids of the default values that these calls receive.
    - `fills` contains the ids of the existing objects that it changes.
    - `added` contains the ids of those that it changes in a way that depends on their contents, such as by adding to
      them.
    - `attributes` contains the attributes that it sets on existing objects, by id and name. `*` means an unknown
      name.
    - `effect` is a description of the first call that may have other effects, or None.
    - `guesses` contains names that may be read, because an object or function is unknown.
    - `created` is the class that is being created.
    - `objects` contains the named objects by id.

    `reads` may contain special names:

    - `C.*` means all attributes of the class `C`.
    - `C.+` means the names of all attributes of `C`.
    - `C.=` means all attributes of `C` except its methods.
    - `f(...)` means the signature of the function `f`.
    - `**` means all names in a module that refer to data.

    In `guesses`, `**` means all names in a module, `C.%` means any code in the class `C`, and the module `*` with
    `.name` means the attribute `name` of any class.
    """

    def __init__(self) -> None:
        self.reads: set[Read] = set()
        self.guesses: set[Read] = set()
        self.calls: set[int] = set()
        self.fills: set[int] = set()
        self.added: set[int] = set()
        self.attributes: set[tuple[int, str]] = set()
        self.defaults: set[int] = set()
        self.created: Any = None
        self.objects: dict[int, Any] = {}
        self.effect: str | None = None
        self.nodes = 0

    def record_effect(self, node: ast.AST | None) -> None:
        """Record that a statement may have external effects, unless an earlier statement was recorded."""
        if self.effect is None:
            self.effect = f"line {getattr(node, 'lineno', 0)}"

    def record_addition(self, roots: Iterable[int]) -> None:
        """Record that a statement changes existing objects, and that running it again may change them again."""
        self.fills.update(roots)
        self.added.update(roots)

    @property
    def accumulated(self) -> set[int]:
        """Return the ids of the objects that running the statement a second time may change again.

        Setting an attribute of a known object a second time changes nothing.
        """
        return self.added | (self.fills & {0})

    def read_class(self, kind: Any, word: str = "*") -> None:
        """Record that all attributes of a class are read. With the word `+`, only their names are read."""
        for base in order_of(kind):
            if base is not object:
                self.reads.add(class_read(base, word))

    def guess_code_of_classes(self, kinds: Any) -> None:
        """Record that any code in these classes may be called."""
        self.guesses.update(class_read(kind, "%") for kind in kinds)


def is_repeatable_call(effects: Effects) -> bool:
    """Return whether a call only computes a value, so that a later call can take its place."""
    return effects.effect is None and not effects.fills


def class_read(kind: Any, name: str) -> Read:
    """Return the entry with which `Effects` records that an attribute of a class is read."""
    return str(defining_module_name(kind)), f"{qualified_name(kind)}.{name}"


def function_read(function: Any, part: str) -> Read:
    """Return the entry with which `Effects` records a read of a part of a function: `()`, `(...)` or an attribute."""
    return str(function.__module__), function.__qualname__ + part


def code_position_name(node: Any) -> str:
    """Return a name for the code of a function or lambda, based on its position in the source."""
    return f"<{node.lineno}:{node.col_offset}>()"
