"""Questions about what a Lisp has loaded: its namespaces that are of files below a folder, and what lives on in them.

The code that answers is compiled once and kept in the REPL, as compiling takes longer than all that the code does.
"""

from __future__ import annotations

import hashlib
from functools import cache
from typing import TYPE_CHECKING, Final

from codriver.repls.contract.drift_values import LivesOn, Loaded, LoadedNamespace, LoadedVar
from codriver.repls.programs import Written, program

if TYPE_CHECKING:
    from collections.abc import Mapping

_LOADED: Final = program("clojure/loaded.clj")


@cache
def _kept() -> str:
    """The name under which the code is kept. A REPL outlives its server, and the next one may ask with other code."""
    return f"loaded-{hashlib.blake2b(str(_LOADED).encode(), digest_size=6).hexdigest()}"


ASK_CLOJURE: Final = Written(
    lambda: f"(if-let [f (ns-resolve (create-ns 'codriver.kept) '{_kept()})] (f $known $root) {{:absent true}})"
)
KEEP_CLOJURE: Final = Written(lambda: f"(do (intern (create-ns 'codriver.kept) '{_kept()} {_LOADED}) nil)")


def read_loaded(data: Mapping[str, object]) -> Loaded:
    """The loaded code that an answer tells of."""
    began = str(data.get("began") or "0")
    spaces = (_namespace(one) for one in _rows(data.get("spaces")) if isinstance(one, dict))
    lists = [[str(word) for word in one] for one in _rows(data.get("old")) if isinstance(one, list) and len(one) == 4]
    counted = [one for one in _rows(data.get("instances")) if isinstance(one, list) and len(one) == 3]
    old = [LivesOn(home, name, "former" if kind == "former" else "old", of) for home, name, kind, of in lists]
    old += [LivesOn(str(home), str(name), "instances", str(count)) for home, name, count in counted]
    return Loaded(
        int(began) if began.isdigit() else 0,
        frozenset(str(data.get("names") or "").split()),
        tuple(spaces),
        tuple(old),
    )


def _rows(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _namespace(one: Mapping[str, object]) -> LoadedNamespace:
    found = [_var(row) for row in _rows(one.get("vars")) if isinstance(row, list) and len(row) == 5]
    files = tuple(str(file) for file in _rows(one.get("files")))
    return LoadedNamespace(str(one.get("ns")), str(one.get("mark")), files, tuple(found))


def _var(row: list[object]) -> LoadedVar:
    name, file, line, root, stamp = row
    place = file if isinstance(file, str) else "", (line or None) if isinstance(line, int) else None
    return LoadedVar(str(name), *place, str(root), str(stamp))
