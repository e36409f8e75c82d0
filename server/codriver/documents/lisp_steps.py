"""Steps of Lisp code, by the reader's forms and symbols; what a symbol means, nobody here knows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codriver.documents.steps import Step
from codriver.lisp.reader import read

if TYPE_CHECKING:
    from collections.abc import Iterator

    from codriver.documents.steps import Role
    from codriver.lisp.reader import Form

_IMPORTS: Final = frozenset({"ns", "require", "use", "import", "in-ns", "require-macros", "refer"})
_DEFINITIONS: Final = frozenset(
    {"defn", "defn-", "defmacro", "defrecord", "deftype", "defprotocol", "definterface", "defclass", "defasync"}
)
_METHODS: Final = frozenset({"defmethod", "extend-type", "extend-protocol", "extend", "defmulti"})
_ASSIGNMENTS: Final = frozenset({"def", "defonce", "setv", "declare"})
LAST_VALUES: Final = frozenset({"*1", "*2", "*3", "*e"})
"""What a REPL alone has: its last values, and its last error."""


def lisp_steps(code: str) -> tuple[Step, ...]:
    """The top-level forms of `code`; none where its brackets do not balance."""
    reading = read(code)
    if reading.fault is not None:
        return ()
    return tuple(_step(form, code) for form in reading.forms if form.kind != "discard")


def _step(form: Form, code: str) -> Step:
    text = code[form.start : form.end]
    symbols = frozenset(_symbols(form, code))
    role, given = _role(form, code)
    # A function mentions more than it needs, a macro may need it when it is expanded: those are told by running them.
    needs = frozenset[str]() if role == "definition" else symbols
    return Step(text, role, gives=frozenset(given), uses=symbols - set(given), needs=needs)


def _role(form: Form, code: str) -> tuple[Role, tuple[str, ...]]:
    words = [code[child.start : child.end] for child in form.children[:1]]
    if form.kind != "list" or not words:
        return "expression", ()
    head = words[0].rpartition("/")[2] or words[0]
    if head in _IMPORTS:
        return "import", ()
    named = (_name(form.children[1], code),) if len(form.children) > 1 else ()
    if head in _DEFINITIONS:
        extra = tuple(f"{before}{name}" for name in named for before in ("->", "map->"))
        return "definition", (*named, *extra) if head in {"defrecord", "deftype"} else named
    if head in _METHODS:
        return "statement", named
    if head in _ASSIGNMENTS:
        return "assignment", named
    return "expression", ()


def _name(form: Form, code: str) -> str:
    """The symbol that a definition names, without its metadata."""
    while form.kind == "prefixed" and form.children:
        form = form.children[-1]
    return code[form.start : form.end]


def _symbols(form: Form, code: str) -> Iterator[str]:
    if form.kind == "atom":
        yield code[form.start : form.end].lstrip("@'`~#").partition("/")[0] or "/"
        yield code[form.start : form.end].rstrip(".")
    for child in form.children:
        yield from _symbols(child, code)


def namespace_of(code: str) -> str:
    """The namespace that the first `ns` form of a file's text makes; blank where there is none."""
    for form in read(code).forms:
        children = form.children
        if form.kind == "list" and len(children) > 1 and code[children[0].start : children[0].end] == "ns":
            return _name(children[1], code)
    return ""
