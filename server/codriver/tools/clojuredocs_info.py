"""`clojuredocs_info`: what ClojureDocs has about a var: examples, see-alsos and notes."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from pydantic import Field

from codriver.core.values import LISP
from codriver.errors import CodriverError, RefusedError, refused
from codriver.repls.contract.questions import Lookup
from codriver.tools.answers.answer_budget import head
from codriver.tools.calls.base import TEXTS, Answer, Arguments, Call, Services, Tool, answer_schema
from codriver.tools.calls.session_choice import Target, own, resolve

if TYPE_CHECKING:
    from codriver.repls.contract.adapter_values import ClojureDocs

SITE: Final = "https://clojuredocs.org"
CORE: Final = "clojure.core"
SAME: Final = {"cljs.core": CORE, "basilisp.": "clojure.", "cljs.": "clojure."}
"""Beginnings of namespaces whose vars are those of Clojure under another name; the first that fits holds."""
DAY_S: Final = 86_400


class DocsArguments(Arguments):
    """Arguments of `clojuredocs_info`."""

    symbol: str = Field(min_length=1, max_length=300)
    repl_session_key: str | None = None


async def clojuredocs_info(call: Call, arguments: DocsArguments) -> Answer:
    """Examples, see-alsos and notes of a var."""
    key = arguments.repl_session_key
    with suppress(RefusedError):
        key = own(call, key, call.who(arguments.who)).key
    return Answer(await describe_docs(call.services, key, arguments.symbol))


async def describe_docs(services: Services, key: str | None, symbol: str) -> dict[str, object]:
    """The entry of ClojureDocs on `symbol`, by the REPL's own op or the public export, under the keys of an answer.

    A symbol without namespace, or with an alias, is looked up in the session first, if one is meant.

    Raises:
        RefusedError: there is no entry, or the export cannot be had.
    """
    target = _session(services, key)
    qualified = clojure_name(await _qualified(services, target, symbol))
    if target is not None and "clojuredocs" in _capabilities(target):
        with suppress(CodriverError):
            # The export may tell what the op cannot.
            docs = await services.repls.adapter(target.repl.id).clojuredocs(qualified)
            if docs is not None:
                return {**docs_json(docs, services.live.settings.max_text_bytes), "source": "repl"}
    settings = services.live.settings
    found = await services.clojuredocs.find(
        qualified, url=settings.clojuredocs_url, max_age_s=settings.clojuredocs_max_age_days * DAY_S
    )
    if found.docs is None:
        hint = "it covers Clojure itself and its own libraries: use symbol_info for what else the REPL knows"
        if found.others:
            hint = f"call again with one of: {', '.join(found.others)}"
        raise refused(
            "unknown-symbol",
            f"ClojureDocs has nothing about {qualified!r}",
            hint=hint,
            details={"others": list(found.others)},
        )
    fetched_at = datetime.fromtimestamp(found.fetched_at, UTC).isoformat(timespec="seconds")
    fields = {**docs_json(found.docs, settings.max_text_bytes), "source": "export", "fetchedAt": fetched_at}
    return {**fields, "note": found.note} if found.note else fields


def clojure_name(qualified: str) -> str:
    """ClojureDocs' name for the symbol that `qualified` names in a dialect of Clojure."""
    namespace, slash, name = qualified.rpartition("/")
    if not slash or not namespace:
        return f"{CORE}/{qualified}"
    # The symbol of division ends with the slash that is also the separator.
    if not name:
        namespace, name = namespace.removesuffix("/"), "/"
    for start, clojure in SAME.items():
        if namespace.startswith(start):
            namespace = clojure + namespace.removeprefix(start)
            break
    return f"{namespace}/{name}"


def docs_json(docs: ClojureDocs, max_bytes: int) -> dict[str, object]:
    """An entry under the keys of an answer; parts that do not fit into `max_bytes` are left out and counted."""
    left = max_bytes
    shown: dict[str, list[str]] = {"examples": [], "notes": []}
    omitted = 0
    for key, texts in (("examples", docs.examples), ("notes", docs.notes)):
        for text in texts:
            kept = head(text, max(0, left)).text
            left -= len(text.encode("utf-8", "replace"))
            if kept:
                shown[key].append(kept)
            else:
                omitted += 1
    fields: dict[str, object] = {
        "name": docs.name,
        "ns": docs.namespace,
        **({"doc": docs.doc} if docs.doc else {}),
        "examples": shown["examples"],
        "seeAlsos": list(docs.see_alsos),
        "notes": shown["notes"],
        "count": len(shown["examples"]),
    }
    if docs.href and docs.href.startswith("/"):
        fields["url"] = f"{SITE}{docs.href}"
    return {**fields, "omitted": omitted} if omitted else fields


def _session(services: Services, key: str | None) -> Target | None:
    """The session that is meant; None if none was named and there is not exactly one."""
    if key is not None:
        return resolve(services.core.state, key)
    with suppress(RefusedError):
        return resolve(services.core.state, None)
    return None


async def _qualified(services: Services, target: Target | None, symbol: str) -> str:
    if target is None or "lookup" not in _capabilities(target) or target.repl.dialect == "python":
        return symbol
    with suppress(CodriverError):
        found = await services.repls.adapter(target.repl.id).ask(Lookup(symbol, session=target.session.name))
        if found is not None and found.namespace:
            return f"{found.namespace}/{found.name.rpartition('/')[2] or '/'}"
    return symbol


def _capabilities(target: Target) -> frozenset[str]:
    return frozenset(target.repl.profile.capabilities) if target.repl.profile else frozenset()


TOOL = Tool(
    name="clojuredocs_info",
    other_names=("clojuredocs_info",),
    title="ClojureDocs",
    description="Examples, see-alsos and notes about a Clojure var from ClojureDocs.",
    arguments=DocsArguments,
    output=answer_schema(
        name="string",
        ns="string",
        doc="string",
        examples=TEXTS,
        seeAlsos=TEXTS,
        notes=TEXTS,
        count="integer",
        omitted="integer",
        url="string",
        source={"enum": ["repl", "export"]},
        fetchedAt="string",
        note="string",
    ),
    run=clojuredocs_info,
    read_only=True,
    idempotent=True,
    open_world=True,
    languages=(LISP,),
    search_hint="examples of Clojure functions",
)
