"""Programs that remove a name from a namespace."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

from codriver.repls.programs import program

if TYPE_CHECKING:
    from codriver.repls.programs import Code


_REMOVE_PROGRAM: Final = program("lisp/remove.cljc")


REMOVAL_PROGRAMS: Final[dict[str, Code]] = {
    "clojure": _REMOVE_PROGRAM,
    "babashka": _REMOVE_PROGRAM,
    "nbb": _REMOVE_PROGRAM,
    "basilisp": program("basilisp/remove.lpy"),
    "hy": '(do (.pop (globals) ((. (__import__ "hy") mangle) $name) None) None)',
}
"""Programs that remove a name, by dialect."""


def removal_code(dialect: str, namespace: str, name: str, home: str) -> tuple[str, str] | None:
    """Return code that removes a name from a namespace, and a short form of the code for the log.

    `home` is the namespace that defines the name. Returns None for a dialect in which names cannot be removed.
    """
    values = {"$ns": namespace, "$name": name, "$home": home}
    code = REMOVAL_PROGRAMS.get(dialect)
    # Substituting in one pass is necessary because a name may look like a placeholder.
    if code is None:
        return None
    description = f"(del {name})" if dialect == "hy" else f"(ns-unmap '{namespace} '{name})"
    whole = re.sub(r"\$(?:ns|name|home)\b", lambda found: json.dumps(values[found[0]], ensure_ascii=False), str(code))
    return whole, description
