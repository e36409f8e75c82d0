"""Code that takes a name out of a namespace, by dialect."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

from codriver.repls.programs import program

if TYPE_CHECKING:
    from codriver.repls.programs import Code

_REMOVE: Final = program("lisp/remove.cljc")
REMOVALS: Final[dict[str, Code]] = {
    "clojure": _REMOVE,
    "babashka": _REMOVE,
    "nbb": _REMOVE,
    "basilisp": program("basilisp/remove.lpy"),
    "hy": '(do (.pop (globals) ((. (__import__ "hy") mangle) $name) None) None)',
    "squint": program("squint/objects.cljs", BODY=program("squint/remove.cljs")),
}


def removal(dialect: str, namespace: str, name: str, home: str) -> tuple[str, str] | None:
    """Code that takes `name` out of a namespace where it is that of `home`, and the same in a few words for the log.

    None where the dialect has no way to.
    """
    texts = {"$ns": namespace, "$name": name, "$home": home}
    code = REMOVALS.get(dialect)
    # In one pass: a name may look like a place for another.
    if code is None:
        return None
    said = f"(del {name})" if dialect == "hy" else f"(ns-unmap '{namespace} '{name})"
    whole = re.sub(r"\$(?:ns|name|home)\b", lambda found: json.dumps(texts[found[0]], ensure_ascii=False), str(code))
    return whole, said
