"""List the loaded namespaces of a Lisp REPL.

The program takes longer to compile than to run, so it is compiled once and stored in the REPL.
"""

from __future__ import annotations

import hashlib
from functools import cache
from typing import TYPE_CHECKING, Final

from codriver.repls.contract.loaded_code import LoadedCode, LoadedNamespace, LoadedVar, SurvivingObject
from codriver.repls.programs import GeneratedCode, program
from codriver.wire.untrusted import list_or_empty

if TYPE_CHECKING:
    from collections.abc import Mapping


_LOADED_PROGRAM: Final = program("clojure/loaded.clj")


@cache
def _cached_program_name() -> str:
    """Return the name under which the program is stored in the REPL.

    The name depends on the code, because several versions of Codriver may use the same REPL.
    """
    return f"loaded-{hashlib.blake2b(str(_LOADED_PROGRAM).encode(), digest_size=6).hexdigest()}"


CALL_LOADED_CODE: Final = GeneratedCode(
    lambda: (
        f"(if-let [f (ns-resolve (create-ns 'codriver.kept) '{_cached_program_name()})] "
        "(f $known $root) {:absent true})"
    )
)
"""Code that calls the stored program, or returns `absent` if it is not stored."""


CACHE_LOADED_CODE: Final = GeneratedCode(
    lambda: f"(do (intern (create-ns 'codriver.kept) '{_cached_program_name()} {_LOADED_PROGRAM}) nil)"
)
"""Code that stores the program in the REPL."""


def parse_loaded_code(data: Mapping[str, object]) -> LoadedCode:
    """Parse the reply from the program that lists loaded code."""
    started = str(data.get("began") or "0")
    spaces = (_namespace(item) for item in list_or_empty(data.get("spaces")) if isinstance(item, dict))
    lists = [
        [str(word) for word in item]
        for item in list_or_empty(data.get("old"))
        if isinstance(item, list) and len(item) == 4
    ]
    counted = [item for item in list_or_empty(data.get("instances")) if isinstance(item, list) and len(item) == 3]
    old = [SurvivingObject(home, name, "former" if kind == "former" else "old", of) for home, name, kind, of in lists]
    old += [SurvivingObject(str(home), str(name), "instances", str(count)) for home, name, count in counted]
    return LoadedCode(
        int(started) if started.isdigit() else 0,
        frozenset(str(data.get("names") or "").split()),
        tuple(spaces),
        tuple(old),
    )


def _namespace(described: Mapping[str, object]) -> LoadedNamespace:
    found = [_var(row) for row in list_or_empty(described.get("vars")) if isinstance(row, list) and len(row) == 5]
    files = tuple(str(file) for file in list_or_empty(described.get("files")))
    return LoadedNamespace(str(described.get("ns")), str(described.get("mark")), files, tuple(found))


def _var(row: list[object]) -> LoadedVar:
    name, file, line, root, stamp = row
    position = file if isinstance(file, str) else "", (line or None) if isinstance(line, int) else None
    return LoadedVar(str(name), *position, str(root), str(stamp))
