"""Find definitions in Lisp code, and compare them between versions of a file.

Two definitions are equal if their tokens are equal. Comments, forms after `#_`, whitespace and commas do not count. No
code is run. A call to an unknown macro whose name starts with `def` is assumed to define the name after it, but the
definition is not marked as sure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from hashlib import blake2b
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from codriver_lisp.reader import Positions, read_forms, tokens

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from codriver_lisp.reader import Form

    Aliases = Mapping[tuple[str, str], str]

DEFINING_HEADS: Final = frozenset({"def", "defn", "defn-", "defmacro", "defmulti", "defonce", "deftest"})
"""Heads of forms that always define a var whose name is the next item."""
TYPE_HEADS: Final = frozenset({"defrecord", "deftype", "defprotocol", "definterface"})
"""Heads of forms that define a type or a protocol."""
ONCE_HEADS: Final = ("defonce", "defmulti")
"""Heads of forms that, in Clojure, leave an existing definition unchanged."""
TOP_LEVEL_HEADS: Final = frozenset({"do", "let", "letfn", "binding"})
"""Heads of lists whose inner forms are evaluated as top-level forms."""
CONDITIONAL_HEADS: Final = frozenset({"when", "when-not", "if", "if-not", "when-let", "if-let", "cond", "try"})
"""Heads of lists whose inner forms are at the top level, but are not always evaluated."""
OTHER_TOP_LEVEL_HEADS: Final = frozenset(
    {"ns", "in-ns", "comment", "declare", "require", "use", "import", "refer", "set!", "defmethod"}
)
"""Other heads that are common at the top level and define no var with a generated name."""
REBINDING_HEADS: Final = frozenset({"alter-var-root", "intern", ".bindRoot"})
"""Heads that change the root value of a var but not its recorded file and line."""
EXTENDING_HEADS: Final = frozenset({"defmethod", "remove-method", "extend-type", "extend-protocol", "extend"})
"""Heads that add or remove methods of multimethods and protocols, and create no var."""
VARLESS_HEADS: Final = EXTENDING_HEADS | {"definterface"}
"""Heads of definitions that create no var."""
ACTION_HEADS: Final = frozenset({
    "swap!", "reset!", "vswap!", "vreset!", "println", "prn", "print", "pr", "printf", "derive", "underive",
    "prefer-method", "alter-meta!", "add-watch", "set-validator!", "send", "send-off", "assert", "add-tap", "gen-class",
    "load", "load-file", "run!", "reset-meta!", "compare-and-set!", "shutdown-agents",
})  # fmt: skip
"""Names of functions and macros in Clojure's core that create no var."""
MAX_FORMS: Final = 200_000
"""Maximum number of forms in a source text that is searched for definitions."""
NS_FORM_NAME: Final = "ns form"
"""The name under which a file's `ns` form is recorded. No var can have this name."""
MIN_NAME_PART_CHARACTERS: Final = 3
"""Minimum length of a macro's argument to be considered a part of a generated var name."""
NO_ALIASES: Final[Aliases] = MappingProxyType({})
_REMOVING_HEADS: Final = ("ns-unmap", "remove-ns")
"""First symbols of forms that remove definitions."""


@dataclass(frozen=True, slots=True)
class ForeignMethod:
    """A method for a multimethod or protocol in another namespace.

    `name` and `digest` are those that the method would have if it were written in that namespace.
    """

    namespace: str
    name: str
    digest: bytes


@dataclass(frozen=True, slots=True)
class Definition:
    """A definition in source code.

    `digest` is equal for forms with equal tokens. `head` is the defining word without its namespace. `name` is the name
    of the var or type; for a method, it includes the dispatch value or the types. `makes` lists the vars that the form
    creates: none for a method, several for a record or protocol. A form with the head `ns-unmap` or `remove-ns` removes
    definitions. If its name is empty, it removes all definitions in the namespace.
    """

    namespace: str
    name: str
    head: str
    digest: bytes
    line: int
    makes: tuple[str, ...] = ()
    is_sure: bool = False
    """Whether a complete run of the text certainly defines the name."""
    foreign: ForeignMethod | None = None

    @property
    def is_removal(self) -> bool:
        """Return whether the form removes a definition instead of creating one."""
        return self.head in _REMOVING_HEADS


@dataclass(frozen=True, slots=True)
class UnknownMacroCall:
    """A top-level call to an unknown macro, which may define names derived from its arguments."""

    line: int
    last_line: int
    words: frozenset[str]
    """All the words in the call except the name of the macro."""
    arguments: frozenset[str]
    """The words among the direct arguments of the call, all the words in vectors, and the first word of each list."""

    def may_define(self, name: str) -> bool:
        """Return whether the macro may define `name`, because the name resembles the call.

        This is the case if `name` is a part of a word in the call, or if an argument is a part of `name`.
        """
        plain = plain_name(name)
        parts = (word for word in self.arguments if len(word) >= MIN_NAME_PART_CHARACTERS)
        return any(plain in word for word in self.words) or any(word in plain for word in parts)

    def defines(self, name: str) -> bool:
        """Return whether the macro probably defines `name`, because one of the arguments is exactly this name."""
        return plain_name(name) in self.arguments


@dataclass(frozen=True, slots=True)
class Definitions:
    """The definitions in source code, in order.

    `namespace` is the namespace of the first `ns` form, or empty if there is none. For each top-level form, `ends`
    contains the number of definitions up to the end of the form.
    """

    found: tuple[Definition, ...]
    namespace: str = ""
    requires: tuple[str, ...] = ()
    """The namespaces that the last `ns` form requires or uses."""
    ends: tuple[int, ...] = ()
    unknown: tuple[UnknownMacroCall, ...] = ()
    """The top-level calls to macros that are not part of Clojure."""
    declared: frozenset[str] = frozenset()
    """The names that the text only declares. A declaration creates a var without a value."""
    ns_forms: tuple[Definition, ...] = ()
    """The `ns` forms, each recorded under the name `NS_FORM_NAME`."""
    is_sound: bool = True
    """Whether the brackets balance. If not, the forms found may differ from those that the author intended."""
    aliases: Aliases = field(default_factory=lambda: NO_ALIASES)
    """The aliases passed to `read_definitions`, with those that the text adds."""


def read_definitions(
    text: str, namespace: str = "", features: Sequence[str] = ("clj",), aliases: Aliases = NO_ALIASES
) -> Definitions:
    """Find the definitions in a source text whose code starts in `namespace`.

    `features` are the dialect's features, which select the branches of reader conditionals. `aliases` maps known
    aliases to namespaces. Its keys are pairs of the namespace that declares the alias, and the alias.

    Raises:
        TooManyFormsError: the text has more than `MAX_FORMS` forms.
    """
    return _Finder(text, namespace, features, aliases).run()


class _Finder:
    """Finds definitions in the top-level forms of source code."""

    def __init__(self, text: str, namespace: str, features: Sequence[str], aliases: Aliases) -> None:
        self._text = text
        self._positions = Positions(text)
        self._features = {f":{feature}" for feature in (*features, "default")}
        self._current = namespace
        self._first = ""
        self._requires: tuple[str, ...] = ()
        self._aliases = dict(aliases)
        self._found: list[Definition] = []
        self._unknown: list[UnknownMacroCall] = []
        self._declared: set[str] = set()
        self._ns_forms: list[Definition] = []

    def run(self) -> Definitions:
        """Find all definitions in the text."""
        ends = []
        reading = read_forms(self._text, most_forms=MAX_FORMS)
        for form in reading.forms:
            if form.kind != "discard":
                self._record_top_level(form, b"")
                ends.append(len(self._found))
        return Definitions(
            tuple(self._found), self._first, self._requires, tuple(ends), tuple(self._unknown),
            frozenset(self._declared), tuple(self._ns_forms), reading.imbalance is None, self._aliases,
        )  # fmt: skip

    def _record_top_level(self, form: Form, digest: bytes, *, is_sure: bool = True) -> None:
        """Record the definitions in a top-level form, or in a form inside `do` and similar top-level forms.

        `digest` is the digest of the enclosing form, or empty.
        """
        if form.kind == "prefixed":
            self._record_prefixed(form, digest, is_sure=is_sure)
            return
        items = _items(form)
        if form.kind != "list" or not items or items[0].kind != "atom":
            return
        head = self._source_text(items[0]).rpartition("/")[2] or "/"
        if head in TOP_LEVEL_HEADS or head in CONDITIONAL_HEADS:
            # A `do` does not change the meaning of the forms in it, while other lists may bind names that they use.
            form_digest = digest if head == "do" or digest else _digest(self._text, form)
            for inner in items[1:]:
                self._record_top_level(inner, form_digest, is_sure=is_sure and head in TOP_LEVEL_HEADS)
        elif head == "ns" and len(items) > 1:
            self._current = self._name(items[1])
            self._first = self._first or self._current
            self._requires = tuple(self._required_namespaces(items[2:]))
            form_digest, line = _digest(self._text, form), self._positions.line(form.start)
            self._ns_forms.append(Definition(self._current, NS_FORM_NAME, "ns", form_digest, line, is_sure=is_sure))
        elif head == "in-ns" and len(items) > 1:
            self._current = self._name(items[1])
            self._first = self._first or self._current
        elif head in _REMOVING_HEADS and len(items) > 1:
            self._record_removal(head, items)
        elif head in REBINDING_HEADS:
            self._record_rebinding(form, head, items, digest, is_sure=is_sure)
        elif head in EXTENDING_HEADS and len(items) > 2:
            self._record_methods(form, head, items, digest, is_sure=is_sure)
        else:
            if head in ("require", "use"):
                for item in items[1:]:
                    list(self._required_names(self._select_branch(item), ""))
            self._record_definition(form, head, items, digest, is_sure=is_sure)

    def _record_methods(self, form: Form, head: str, items: Sequence[Form], digest: bytes, *, is_sure: bool) -> None:
        """Record a method, or the methods with which a type implements a protocol."""
        words = items[1:3] if head != "extend-protocol" else items[1:2]
        start = "" if head in ("defmethod", "remove-method") else f"{head} "
        name = start + " ".join(word for part in words for word in _tokens(self._text, part))
        owner = items[2] if head in ("extend-type", "extend") else items[1]
        raw = self._source_text(owner) if owner.kind == "atom" else ""
        space, _, plain = raw.rpartition("/")
        foreign = None
        if space and plain:
            found_tokens = _tokens(self._text, form)
            found_tokens[found_tokens.index(raw)] = plain
            home = self._aliases.get((self._current, space), space)
            foreign = ForeignMethod(
                home, start + name.removeprefix(start).replace(raw, plain, 1), _digest_tokens(found_tokens)
            )
        self._add(form, head, name, digest, (), is_sure=is_sure, foreign=foreign)

    def _record_prefixed(self, form: Form, digest: bytes, *, is_sure: bool) -> None:
        """Record the definitions in a form with a prefix, such as a reader conditional."""
        items = _items(form)
        start = self._text[form.start : form.start + 2]
        if start == "#?" and items:
            pairs = _items(items[-1])
            for feature, branch in zip(pairs[::2], pairs[1::2], strict=False):
                if self._source_text(feature) in self._features:
                    inner = _items(branch) if self._text.startswith("#?@", form.start) else [branch]
                    for child in inner:
                        self._record_top_level(child, digest, is_sure=is_sure)
                    return
        elif (start[:1] == "^" or start == "#^") and len(items) > 1:
            self._record_top_level(items[-1], digest, is_sure=is_sure)

    def _record_removal(self, head: str, items: Sequence[Form]) -> None:
        """Record a form that removes definitions."""
        home, name = (self._name(items[1]), "") if head == "remove-ns" else ("", "")
        if head == "ns-unmap" and len(items) > 2:
            home = self._current if self._source_text(items[1]) == "*ns*" else self._name(items[1])
            name = self._name(items[2])
        line = self._positions.line(items[0].start)
        self._found.append(Definition(home, name, head, b"", line))

    def _record_rebinding(self, form: Form, head: str, items: Sequence[Form], digest: bytes, *, is_sure: bool) -> None:
        """Record a form that changes the root value of a var."""
        home, name = self._current, ""
        if head == "intern" and len(items) > 3:
            home = home if self._source_text(items[1]) == "*ns*" else self._name(items[1])
            name = self._name(items[2])
        elif head != "intern" and len(items) > 2:
            space, _, name = self._name(items[1]).rpartition("/")
            home = self._aliases.get((self._current, space), space) or home
        if name:
            # The value also depends on the form before it, which it hides.
            known = [each.digest for each in self._found if (each.namespace, each.name) == (home, name)]
            if known:
                form_digest = digest or _digest(self._text, form)
                digest = _digest_tokens([known[-1].hex(), form_digest.hex()])
            self._add(form, head, name, digest, (name,), is_sure=is_sure, home=home)

    def _add(
        self, form: Form, head: str, name: str, digest: bytes, made: tuple[str, ...], *, is_sure: bool, home: str = "",
        foreign: ForeignMethod | None = None,
    ) -> None:  # fmt: skip
        """Record a definition. `home` is its namespace if that is not the current one."""
        form_digest, line = digest or _digest(self._text, form), self._positions.line(form.start)
        self._found.append(
            Definition(home or self._current, name, head, form_digest, line, made, is_sure=is_sure, foreign=foreign)
        )

    def _record_definition(self, form: Form, head: str, items: Sequence[Form], digest: bytes, *, is_sure: bool) -> None:
        """Record the definition of a var or type, or a call to a macro that may define names."""
        name = self._name(items[1]) if len(items) > 1 else ""
        if not head.startswith("def") or not name or name[0] in ':"\\0123456789':
            is_call = head.startswith(".") or head.endswith(".") or head in ACTION_HEADS
            if head == "declare":
                self._declared.update(self._name(item) for item in items[1:])
            elif not (is_call or head in OTHER_TOP_LEVEL_HEADS or head in DEFINING_HEADS):
                self._record_unknown(form, items)
            return
        if head in ("def", "defonce", "defmulti") and len(items) < 3:
            self._declared.add(name)
            return
        made: tuple[str, ...] = (name,)
        if head in ("defrecord", "deftype"):
            made = (f"->{name}", *((f"map->{name}",) if head == "defrecord" else ()))
        elif head == "definterface":
            made = ()
        elif head == "defprotocol":
            made = (name, *(self._name(_items(item)[0]) for item in items[2:] if item.kind == "list" and _items(item)))
        is_known = head in DEFINING_HEADS or head in TYPE_HEADS
        if not (is_known or head in OTHER_TOP_LEVEL_HEADS):
            self._record_unknown(form, items)
        form_digest = digest or _digest(self._text, form)
        line = self._positions.line(form.start)
        self._found.append(Definition(self._current, name, head, form_digest, line, made, is_sure=is_sure and is_known))

    def _record_unknown(self, form: Form, items: Sequence[Form]) -> None:
        """Record a call to an unknown macro."""
        words = frozenset(word for item in items[1:] for word in _tokens(self._text, item))
        arguments: set[str] = set()
        for item in items[1:]:
            inner = _items(item)[: None if item.kind == "vector" else 1] if item.kind in ("vector", "list") else []
            arguments |= {self._name(word).lstrip(":") for word in (item, *inner)}
        line, last = self._positions.line(form.start), self._positions.line(form.end)
        self._unknown.append(UnknownMacroCall(line, last, words, frozenset(arguments - {""})))

    def _required_namespaces(self, clauses: Sequence[Form]) -> Iterator[str]:
        """Yield the namespaces that clauses of an `ns` form require."""
        for clause in clauses:
            items = _items(self._select_branch(clause))
            if items and self._source_text(items[0]) in (":require", ":use", ":require-macros", "require", "use"):
                for item in items[1:]:
                    yield from self._required_names(self._select_branch(item), "")

    def _select_branch(self, form: Form) -> Form:
        """Return the form that a reader conditional selects, or `form` itself if it is not a reader conditional."""
        if form.kind != "prefixed" or self._text[form.start : form.start + 2] != "#?":
            return form
        pairs = _items(_items(form)[-1]) if _items(form) else []
        chosen = (
            branch
            for word, branch in zip(pairs[::2], pairs[1::2], strict=False)
            if self._source_text(word) in self._features
        )
        return next(chosen, form)

    def _required_names(self, form: Form, prefix: str) -> Iterator[str]:
        """Yield the namespaces that a libspec requires. `prefix` is the prefix of a prefix list."""
        if form.kind == "atom" and not self._source_text(form).startswith(":"):
            yield prefix + self._source_text(form)
        items = _items(form)
        if form.kind == "prefixed" and items:
            yield from self._required_names(items[-1], prefix)
        elif form.kind == "vector" and items:
            library = prefix + self._name(items[0])
            words = list(map(self._source_text, items))
            for word, alias in zip(words[1::2], words[2::2], strict=False):
                if word in (":as", ":as-alias"):
                    self._aliases[self._current, alias] = library
            yield library
        elif form.kind == "list" and items:
            for item in items[1:]:
                yield from self._required_names(item, f"{self._name(items[0])}.")

    def _name(self, form: Form) -> str:
        """Return the name that a form consists of, or "" if it is not a name.

        Metadata, a quote, `(quote …)` and `(var …)` around the name are ignored.
        """
        while form.kind == "prefixed":
            items = _items(form)
            if not items or self._text.startswith("#?", form.start):
                return ""
            form = items[-1]
        inner = _items(form) if form.kind == "list" else []
        if len(inner) == 2 and self._source_text(inner[0]) in ("quote", "var"):
            return self._name(inner[1])
        return self._source_text(form) if form.kind == "atom" else ""

    def _source_text(self, form: Form) -> str:
        return self._text[form.start : form.end]


def _items(form: Form) -> list[Form]:
    """Return the children of a form, excluding discarded ones."""
    return [child for child in form.children if child.kind != "discard"]


def _digest(text: str, form: Form) -> bytes:
    return _digest_tokens(_tokens(text, form))


def _digest_tokens(words: Sequence[str]) -> bytes:
    return blake2b("\0".join(words).encode("utf-8", "surrogatepass"), digest_size=12).digest()


def _tokens(text: str, form: Form) -> list[str]:
    """Return the tokens of a form, excluding whitespace, comments and discarded forms."""
    found = [token for token in tokens(text[form.start : form.end]) if token.lastgroup not in ("space", "comment")]
    if not any(match.lastgroup == "discard" for match in found):
        return [match[0] for match in found]
    discarded = [(discard.start - form.start, discard.end - form.start) for discard in _discarded_forms(form)]
    return [match[0] for match in found if not any(begin <= match.start() < end for begin, end in discarded)]


def _discarded_forms(form: Form) -> Iterator[Form]:
    for child in form.children:
        if child.kind == "discard":
            yield child
        else:
            yield from _discarded_forms(child)


def defines_within(text: str, name: str) -> bool:
    """Return whether any form in a source text, however deeply nested, looks like a definition of `name`."""
    plain = re.escape(plain_name(name))
    end = r"(?![^\s()\[\]{}\"'`~@^;,])"
    return re.search(rf"\((?:[^\s()]*/)?def[^\s()]*\s+(?:\^\S+\s+)*{plain}{end}", text) is not None


def plain_name(name: str) -> str:
    """Return the type's name for a constructor such as `->T`, and any other name unchanged."""
    return name.removeprefix("map->").removeprefix("->")
