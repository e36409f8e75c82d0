"""Forms that ask an application of a framework, made from Clojure files beside this: an expression for each accessor.

The files are ordinary namespaces that are never loaded. A form is an accessor's function with those that it mentions,
and a map of the framework's functions by role. Each of these is looked up where and when the form is evaluated: what
was renamed upstream is found under any of its names, and what is missing is refused by name. On the JVM, where it takes
a third of a second to compile a form, it is kept under a name of its own in the namespace `codriver.forms`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from codriver.repls import dialects

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_HERE: Final = Path(__file__).parent
_TOP: Final = re.compile(r"\n(?=\()")
_DEFINED: Final = re.compile(r'\(defn (\S+)\s+(?:"(?:[^"\\]|\\.)*"\s+)?(\[.*)', re.DOTALL)
_COMMENT: Final = re.compile(r"^\s*;.*\n?", re.MULTILINE)
_INDENTED: Final = re.compile(r"\n\s*")
_SYMBOL: Final = re.compile(r"""[^\s()\[\]{}"';,`@#^~]+""")
_ASKS: Final = "ask-"
"""Functions of a file whose names begin so are accessors of the contract."""
_ENTRY: Final = "answering"
_JSON: Final = {one.name: one.as_json for one in (dialects.CLOJURE, dialects.CLOJURESCRIPT)}
BROWSER: Final = "clojurescript"
"""The dialect in which no name can be looked up while code runs, and none can be made."""


@dataclass(frozen=True, slots=True)
class Way:
    """One way to do what a role asks for."""

    names: tuple[str, ...]
    """Functions that all have to be there; no macros."""
    code: str = "{0}"
    """The function of the role, made of them by their places."""


Roles = Mapping[str, tuple[Way, ...]]
"""By role, the ways to it, the one to prefer first."""


def definitions(text: str) -> dict[str, str]:
    """The functions of a file by name, each as a clause of `letfn`."""
    found = (_DEFINED.match(form.strip()) for form in _TOP.split(_COMMENT.sub("", text)))
    return {match[1]: _INDENTED.sub(" ", f"({match[1]} {match[2]}") for match in found if match}


def closure(defined: Mapping[str, str], names: Iterable[str]) -> list[str]:
    """The functions that these mention, and those that they mention, and so on, in the order of the file."""
    needed: set[str] = set()
    left = list(names)
    while left:
        name = left.pop()
        if name not in needed:
            needed.add(name)
            left += [word for word in _SYMBOL.findall(defined[name]) if word in defined]
    return [name for name in defined if name in needed]


def way_code(way: Way, dialect: str) -> str:
    """The expression of a way: its function where all names are there, else nil."""
    bound = " ".join([f"v{place} (known {_name(name, dialect)})" for place, name in enumerate(way.names)])
    places = [f"v{place}" for place in range(len(way.names))]
    values = places if dialect == BROWSER else [f"@{place}" for place in places]
    return f"(let [{bound}] (when (and {' '.join(places)}) {way.code.format(*values)}))"


KNOWN: Final = {
    BROWSER: "(known [name] (js/goog.getObjectByName name))",
    "clojure": "(known [name] (when-let [found (resolve name)] (when-not (:macro (meta found)) found)))",
}
"""By dialect, the look-up of a function. A compiler would warn of a name that is not there, so its own is asked for."""
_MUNGED: Final = {"-": "_", "!": "_BANG_", "?": "_QMARK_", "*": "_STAR_", ">": "_GT_", "/": "."}


def munged(name: str) -> str:
    """A name of ClojureScript as JavaScript has it."""
    return "".join([_MUNGED.get(char, char) for char in name])


def _name(name: str, dialect: str) -> str:
    return json.dumps(munged(name)) if dialect == BROWSER else f"'{name}"


class Forms(Mapping[str, str]):
    """The forms of a framework by accessor. The files are read when the first of them is needed."""

    def __init__(
        self, files: Sequence[str], roles: Roles, missing: Mapping[str, str], accessors: Iterable[str], dialect: str
    ) -> None:
        self._files, self._roles, self._missing, self._dialect = files, roles, missing, dialect
        self._accessors = tuple(accessors)
        self._defined: dict[str, str] = {}

    def __getitem__(self, accessor: str) -> str:
        """The form of an accessor."""
        if accessor not in self._accessors:
            raise KeyError(accessor)
        self._defined = self._defined or definitions(
            "\n".join([(_HERE / file).read_text("utf-8") for file in self._files])
        )
        code = self._code(_ASKS + accessor)
        return f"({code} $args $origin)" if self._dialect == BROWSER else _kept(accessor, code)

    def __iter__(self) -> Iterator[str]:
        """The accessors that there are forms for."""
        return iter(self._accessors)

    def __len__(self) -> int:
        """The number of accessors."""
        return len(self._accessors)

    def _code(self, name: str) -> str:
        clauses = [self._defined[one] for one in closure(self._defined, [name, _ENTRY])]
        roles = [f":{role} {self._role(ways)}" for role, ways in self._roles.items()]
        missing = [f":{role} {json.dumps(words)}" for role, words in self._missing.items()]
        return (
            f"(fn [args origin] (letfn [{' '.join([KNOWN[self._dialect], *clauses])}]\n"
            f"(let [rf {{{' '.join(roles)} :missing {{{' '.join(missing)}}}}}\n"
            f'args ((:read rf) args) origin ((:read rf) (or origin "nil"))]\n'
            f"{_JSON[self._dialect](f'({_ENTRY} rf args (fn [] ({name} rf args origin)))')})))"
        )

    def _role(self, ways: tuple[Way, ...]) -> str:
        return f"(or {' '.join([way_code(way, self._dialect) for way in ways])})"


HOME: Final = "codriver.forms"
"""The namespace in which compiled forms are kept."""


def _kept(accessor: str, code: str) -> str:
    """The form that compiles its function at the first time alone.

    Its names are whole, as the namespace in which it is evaluated may have excluded any of them.
    """
    name = f"{accessor}-{hashlib.sha256(code.encode()).hexdigest()[:12]}"
    return (
        f"((clojure.core/deref (clojure.core/or (clojure.core/resolve '{HOME}/{name}) (clojure.core/intern "
        f"(clojure.core/create-ns '{HOME}) '{name} "
        "(clojure.core/binding [clojure.core/*ns* (clojure.core/the-ns 'clojure.core)] (clojure.core/eval "
        f"(clojure.core/read-string {{:read-cond :allow}} {json.dumps(code)})))))) $args $origin)"
    )
