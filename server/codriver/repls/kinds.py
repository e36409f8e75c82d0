"""The table of REPL kinds: the words after `--repl` that name a REPL that Codriver knows how to start."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Kind:
    """What a word after `--repl` starts: its session key and the dialect it will speak."""

    key: str
    dialect: str


KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "python": Kind("py", "python"),
        "lisp": Kind("lpy", "basilisp"),
        "basilisp": Kind("lpy", "basilisp"),
        "clojure": Kind("clj", "clojure"),
        "clj": Kind("clj", "clojure"),
        "lein": Kind("clj", "clojure"),
        "bb": Kind("bb", "babashka"),
        "nbb": Kind("nbb", "nbb"),
        "hy": Kind("hy", "hy"),
        "shadow-cljs": Kind("cljs", "clojure"),
    }
)

NO_REPL = "none"
"""The word for starting no REPL at all."""
