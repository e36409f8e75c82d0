"""Look up a ClojureDocs entry with the REPL's own operation if it has one, or else in the public export."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from codriver.errors import CodriverError, RefusedError, refused
from codriver.features.clojuredocs.download import ClojureDocsExport
from codriver.features.clojuredocs.entries import CLOJUREDOCS_CAPABILITY, LookupEntry
from codriver.features.clojuredocs.settings import MAX_AGE_DAYS_SETTING, URL_SETTING
from codriver.repls.contract.queries import Lookup
from codriver.tools.answers.answer_budget import cut_to_head
from codriver.tools.calls.session_choice import resolve_session

if TYPE_CHECKING:
    from codriver.features.clojuredocs.entries import Entry
    from codriver.tools.calls.call import Services
    from codriver.tools.calls.session_choice import Target

CLOJUREDOCS_URL: Final = "https://clojuredocs.org"
CORE_NAMESPACE: Final = "clojure.core"
"""The namespace of Clojure's core library."""
CLOJURE_PREFIXES: Final = {"cljs.core": CORE_NAMESPACE, "basilisp.": "clojure.", "cljs.": "clojure."}
"""Maps prefixes of namespaces to the prefixes of Clojure's namespaces with the same vars. The first match is used."""
SECONDS_PER_DAY: Final = 86_400


async def describe_entry(services: Services, key: str | None, symbol: str) -> dict[str, object]:
    """Return the entry for a symbol as fields of the tool's answer.

    A symbol without a namespace, or with a namespace alias, is first resolved in the session `key`, or in the only
    session if `key` is None.

    Raises:
        RefusedError: the symbol has no entry, or the export cannot be downloaded.
    """
    target = _find_session(services, key)
    qualified = clojuredocs_name(await _qualify(services, target, symbol))
    settings = services.live.settings
    if target is not None and CLOJUREDOCS_CAPABILITY.name in _capabilities(target):
        with suppress(CodriverError):  # the export may have an entry that the operation lacks
            entry = await services.repls.adapter(target.repl.id).query(LookupEntry(symbol=qualified))
            if entry is not None:
                return {**entry_json(entry, settings.max_text_bytes), "source": "repl"}
    max_age_s = settings.value_of(MAX_AGE_DAYS_SETTING) * SECONDS_PER_DAY
    found = await services.part(ClojureDocsExport).find(
        qualified, url=settings.value_of(URL_SETTING), max_age_s=max_age_s
    )
    if found.entry is None:
        hint = "ClojureDocs covers Clojure and its own libraries. For everything else, use symbol_info"
        if found.others:
            hint = f"call again with one of: {', '.join(found.others)}"
        raise refused(
            "unknown-symbol",
            f"ClojureDocs has no entry for {qualified!r}",
            hint=hint,
            details={"others": list(found.others)},
        )
    fetched_at = datetime.fromtimestamp(found.fetched_at, UTC).isoformat(timespec="seconds")
    fields = {**entry_json(found.entry, settings.max_text_bytes), "source": "export", "fetchedAt": fetched_at}
    return {**fields, "note": found.note} if found.note else fields


def clojuredocs_name(qualified: str) -> str:
    """Return the name that ClojureDocs uses for a symbol qualified in a Clojure dialect."""
    namespace, slash, name = qualified.rpartition("/")
    if not slash or not namespace:
        return f"{CORE_NAMESPACE}/{qualified}"
    # In the symbol for division, the name is the same character as the separator.
    if not name:
        namespace, name = namespace.removesuffix("/"), "/"
    for start, clojure in CLOJURE_PREFIXES.items():
        if namespace.startswith(start):
            namespace = clojure + namespace.removeprefix(start)
            break
    return f"{namespace}/{name}"


def entry_json(entry: Entry, max_bytes: int) -> dict[str, object]:
    """Convert an entry to fields of the tool's answer. Texts that exceed `max_bytes` are omitted and counted."""
    left = max_bytes
    fitting: dict[str, list[str]] = {"examples": [], "notes": []}
    omitted = 0
    for key, strings in (("examples", entry.examples), ("notes", entry.notes)):
        for text in strings:
            fitting_text = cut_to_head(text, max(0, left)).text
            left -= len(text.encode("utf-8", "replace"))
            if fitting_text:
                fitting[key].append(fitting_text)
            else:
                omitted += 1
    fields: dict[str, object] = {
        "name": entry.name,
        "ns": entry.namespace,
        **({"doc": entry.doc} if entry.doc else {}),
        "examples": fitting["examples"],
        "seeAlsos": list(entry.see_alsos),
        "notes": fitting["notes"],
        "count": len(fitting["examples"]),
    }
    if entry.href and entry.href.startswith("/"):
        fields["url"] = f"{CLOJUREDOCS_URL}{entry.href}"
    return {**fields, "omitted": omitted} if omitted else fields


def _find_session(services: Services, key: str | None) -> Target | None:
    """Return the session with this key.

    Without a key, return the only session, or None if there is not exactly one.
    """
    if key is not None:
        return resolve_session(services.core.state, key)
    with suppress(RefusedError):
        return resolve_session(services.core.state, None)
    return None


async def _qualify(services: Services, target: Target | None, symbol: str) -> str:
    """Return the qualified name of a symbol in a session, or the symbol itself if it cannot be resolved."""
    if target is None or Lookup.capability not in _capabilities(target) or target.repl.dialect == "python":
        return symbol
    with suppress(CodriverError):
        found = await services.repls.adapter(target.repl.id).query(Lookup(symbol=symbol, session=target.session.name))
        if found is not None and found.namespace:
            return f"{found.namespace}/{found.name.rpartition('/')[2] or '/'}"
    return symbol


def _capabilities(target: Target) -> frozenset[str]:
    return frozenset(target.repl.profile.capabilities) if target.repl.profile else frozenset()
