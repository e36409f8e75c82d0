"""Generate the forms that call a ClojureScript or Clojure framework in a running application.

The sources are the Clojure files in `re_frame_forms`: ordinary namespaces that are never loaded, with a function for
each accessor of the seam. A form contains the accessor's function, the functions that it needs, and a map from roles to
functions in the framework. Evaluating the form resolves these functions. A function that was renamed upstream is found
under any of its names, and a missing one is reported. Compiling a form takes a third of a second on the JVM, so it is
stored in the namespace `codriver.forms`.
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


_FORMS_DIRECTORY: Final = Path(__file__).parent / "re_frame_forms"
_TOP_LEVEL_BREAK: Final = re.compile(r"\n(?=\()")
"""Matches the line break before a top-level form."""
_FUNCTION_DEFINITION: Final = re.compile(r'\(defn (\S+)\s+(?:"(?:[^"\\]|\\.)*"\s+)?(\[.*)', re.DOTALL)
"""Matches a `defn` form. The groups are its name, and everything from its parameters on."""
_COMMENT_LINE: Final = re.compile(r"^\s*;.*\n?", re.MULTILINE)
_INDENTED_LINE_BREAK: Final = re.compile(r"\n\s*")
_SYMBOL: Final = re.compile(r"""[^\s()\[\]{}"';,`@#^~]+""")
_ACCESSOR_PREFIX: Final = "ask-"
"""The prefix of the names of accessor functions in the files."""
_ENTRY_FUNCTION: Final = "answering"
"""The function in the files that calls an accessor function and returns its answer."""
_JSON_CODE_BY_DIALECT: Final = {
    dialect.name: dialect.as_json_code for dialect in (dialects.CLOJURE, dialects.CLOJURESCRIPT)
}
"""Functions that wrap an expression in code that converts its value to JSON, by dialect."""
BROWSER_DIALECT: Final = "clojurescript"
"""The dialect in which code cannot resolve or define names at run time."""


@dataclass(frozen=True, slots=True)
class Implementation:
    """An implementation of a role, such as reading the state, with functions and variables of a framework."""

    names: tuple[str, ...]
    """The functions and variables that the code uses. All of them must exist. Macros are not allowed."""
    code: str = "{0}"
    """An expression for the role, usually a function. `{0}`, `{1}` and so on are replaced by what `names` refers to."""


Roles = Mapping[str, tuple[Implementation, ...]]
"""Maps each role to its implementations, in order of preference. Versions of a framework need different ones."""


def letfn_clauses(text: str) -> dict[str, str]:
    """Return the functions in a source text by name, each as a clause of `letfn`."""
    found = (_FUNCTION_DEFINITION.match(form.strip()) for form in _TOP_LEVEL_BREAK.split(_COMMENT_LINE.sub("", text)))
    return {match[1]: _INDENTED_LINE_BREAK.sub(" ", f"({match[1]} {match[2]}") for match in found if match}


def names_with_dependencies(defined: Mapping[str, str], names: Iterable[str]) -> list[str]:
    """Return `names` and the functions that they use, directly or indirectly, in the order of the file."""
    needed: set[str] = set()
    left = list(names)
    while left:
        name = left.pop()
        if name not in needed:
            needed.add(name)
            left += [word for word in _SYMBOL.findall(defined[name]) if word in defined]
    return [name for name in defined if name in needed]


def implementation_code(implementation: Implementation, dialect: str) -> str:
    """Return code that evaluates to an implementation, or to nil if the framework lacks one of its names."""
    bound = " ".join([f"v{number} (known {_name(name, dialect)})" for number, name in enumerate(implementation.names)])
    variables = [f"v{number}" for number in range(len(implementation.names))]
    values = variables if dialect == BROWSER_DIALECT else [f"@{number}" for number in variables]
    return f"(let [{bound}] (when (and {' '.join(variables)}) {implementation.code.format(*values)}))"


KNOWN_DEFINITIONS: Final = {
    BROWSER_DIALECT: "(known [name] (js/goog.getObjectByName name))",
    "clojure": "(known [name] (when-let [found (resolve name)] (when-not (:macro (meta found)) found)))",
}
"""Definitions of the function `known`, by dialect. It looks up another function by name at run time.

A direct reference to a missing function would make the compiler emit a warning.
"""
_MUNGED_CHARACTERS: Final = {"-": "_", "!": "_BANG_", "?": "_QMARK_", "*": "_STAR_", ">": "_GT_", "/": "."}
"""Replacements for characters in names that ClojureScript compiles to JavaScript."""


def to_javascript_name(name: str) -> str:
    """Convert a ClojureScript name to the name in the compiled JavaScript."""
    return "".join([_MUNGED_CHARACTERS.get(char, char) for char in name])


def _name(name: str, dialect: str) -> str:
    return json.dumps(to_javascript_name(name)) if dialect == BROWSER_DIALECT else f"'{name}"


class Forms(Mapping[str, str]):
    """A mapping from accessor names to the code that calls a framework. The source files are read on first access."""

    def __init__(
        self, files: Sequence[str], roles: Roles, missing: Mapping[str, str], accessors: Iterable[str], dialect: str
    ) -> None:
        self._files, self._roles, self._missing, self._dialect = files, roles, missing, dialect
        self._accessors = tuple(accessors)
        self._defined: dict[str, str] = {}

    def __getitem__(self, accessor: str) -> str:
        """Return the form of an accessor.

        Raises:
            KeyError: no accessor has this name.
        """
        if accessor not in self._accessors:
            raise KeyError(accessor)
        self._defined = self._defined or letfn_clauses(
            "\n".join([(_FORMS_DIRECTORY / file).read_text("utf-8") for file in self._files])
        )
        code = self._code(_ACCESSOR_PREFIX + accessor)
        return f"({code} $args $origin)" if self._dialect == BROWSER_DIALECT else _cached_form(accessor, code)

    def __iter__(self) -> Iterator[str]:
        """Yield the names of the accessors."""
        return iter(self._accessors)

    def __len__(self) -> int:
        """Return the number of accessors."""
        return len(self._accessors)

    def _code(self, name: str) -> str:
        clauses = [
            self._defined[function] for function in names_with_dependencies(self._defined, [name, _ENTRY_FUNCTION])
        ]
        roles = [f":{role} {self._role_code(implementations)}" for role, implementations in self._roles.items()]
        missing = [f":{role} {json.dumps(words)}" for role, words in self._missing.items()]
        return (
            f"(fn [args origin] (letfn [{' '.join([KNOWN_DEFINITIONS[self._dialect], *clauses])}]\n"
            f"(let [rf {{{' '.join(roles)} :missing {{{' '.join(missing)}}}}}\n"
            f'args ((:read rf) args) origin ((:read rf) (or origin "nil"))]\n'
            f"{_JSON_CODE_BY_DIALECT[self._dialect](f'({_ENTRY_FUNCTION} rf args (fn [] ({name} rf args origin)))')})))"
        )

    def _role_code(self, implementations: tuple[Implementation, ...]) -> str:
        return f"(or {' '.join([implementation_code(choice, self._dialect) for choice in implementations])})"


FORMS_NAMESPACE: Final = "codriver.forms"
"""The namespace in which compiled forms are stored."""


def _cached_form(accessor: str, code: str) -> str:
    """Return a form whose function is compiled only on its first evaluation.

    All names are qualified, because the current namespace may exclude names in `clojure.core`.
    """
    name = f"{accessor}-{hashlib.sha256(code.encode()).hexdigest()[:12]}"
    return (
        f"((clojure.core/deref (clojure.core/or (clojure.core/resolve '{FORMS_NAMESPACE}/{name}) (clojure.core/intern "
        f"(clojure.core/create-ns '{FORMS_NAMESPACE}) '{name} "
        "(clojure.core/binding [clojure.core/*ns* (clojure.core/the-ns 'clojure.core)] (clojure.core/eval "
        f"(clojure.core/read-string {{:read-cond :allow}} {json.dumps(code)})))))) $args $origin)"
    )
