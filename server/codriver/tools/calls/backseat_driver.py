"""Names and arguments of Backseat Driver, which many agents know: answered here, though never listed."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

if TYPE_CHECKING:
    from collections.abc import Mapping

NAMES: Mapping[str, str] = MappingProxyType(
    {
        "clojure_evaluate_code": "evaluate_code",
        "clojure_load_file": "load_file",
        "clojure_edit_files": "edit_files",
        "clojure_balance_brackets": "balance_brackets",
        "clojure_repl_output_log": "repl_output_log",
        "clojure_symbol_info": "symbol_info",
        "clojure_list_sessions": "list_sessions",
        "clojuredocs_info": "clojuredocs_info",
    }
)
"""Its tools, and ours that do what they do."""
ARGUMENTS: Mapping[str, str] = MappingProxyType({"clojureSymbol": "symbol"})
"""Its arguments, where ours have other names."""
WITHOUT_MEANING = frozenset({"targetRuntimeId", "includeAllRuntimes"})
"""Its arguments that choose between the windows of an editor, of which there are none here."""
SKILLS: Mapping[str, str] = MappingProxyType(
    {"backseat-driver": "live-repl", "editing-clojure-files": "editing-lisp-files"}
)
"""Its skills, and ours."""


PAGES: Mapping[str, str] = MappingProxyType({"references/output-log-queries.md": "REFERENCE.md"})
"""The page of its skill, and ours that says the same."""
SYMBOL_PARTS = 3


def translated(name: str, arguments: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Our tool that a call means, and its arguments; those of a name that is not of Backseat Driver as they are."""
    ours = NAMES.get(name)
    if ours is None:
        return name, arguments
    kept = {ARGUMENTS.get(key, key): value for key, value in arguments.items() if key not in WITHOUT_MEANING}
    return ours, kept


def address(uri: str) -> str:
    """The address of ours that one of Backseat Driver means; any other as it is.

    Source: Backseat Driver, `resources/templates/list`: `/symbol-info/{symbol}@{session-key}@{namespace}`,
    `/clojuredocs/{symbol}`, `/skills/{name}/{file}`.
    """
    scheme, _, rest = uri.partition("://")
    if scheme == "skill":
        name, slash, path = rest.partition("/")
        return f"skill://{SKILLS.get(name, name)}{slash}{PAGES.get(path, path)}"
    kind, _, rest = uri.removeprefix("/").partition("/") if uri.startswith("/") else ("", "", "")
    if kind == "skills":
        return address(f"skill://{rest}")
    if kind == "clojuredocs" and rest:
        return f"codriver://clojuredocs/{_part(rest)}"
    if kind == "symbol-info":
        parts = rest.rsplit("@", 2)
        if len(parts) == SYMBOL_PARTS:
            symbol, key, namespace = map(_part, parts)
            return f"codriver://symbol/{key}/{namespace}/{symbol}"
    return uri


def _part(text: str) -> str:
    """A part of an address of ours, in which slashes are encoded; what was encoded already stays."""
    return quote(unquote(text), safe="")
