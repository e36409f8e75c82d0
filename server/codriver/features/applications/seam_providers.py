"""Find and call the implementation of the seam in an application, for each language.

The *sentinel* of a provider is an expression whose value is the session id of the application's seam, or nil. A *form*
calls one accessor of the seam. It contains placeholders for string literals: `$name` for the accessor, `$args` for all
arguments, `$origin` for the caller, and any other `$word` for that argument, or nil if it is missing. The literals
contain data in the notation of the language, which the form parses and never evaluates.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from codriver.features.applications import re_frame
from codriver.features.applications.re_frame_answers import convert_answer
from codriver.features.applications.seam_notation import (
    JSON_CODE_BY_DIALECT,
    PYTHON_HOSTED_DIALECTS,
    encode_data,
    string_literal,
)

ANY_ACCESSOR: Final = "*"
"""The key of the form for all accessors without a form of their own."""
_PLACEHOLDER: Final = re.compile(r"\$([a-zA-Z]+)")
"""Matches a placeholder in a form, such as `$args`."""
_LOADING_WORDS: Final = re.compile(r"\b(?:require|requiring-resolve|use|import|load|load-file|reload|refresh)\b")
"""Matches words that indicate that code may load an application."""
_STREAM_ACCESSORS: Final = frozenset({"subscribe", "unsubscribe", "subscriptions"})
"""The accessors that belong to the band `stream`."""

Fields = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Provider:
    """An implementation of the seam: the code that finds it and calls its accessors."""

    name: str
    dialects: frozenset[str]
    sentinel: str
    forms: Mapping[str, str]
    """Maps accessors to the forms that call them."""
    conditions: Mapping[str, str] = field(default_factory=dict)
    """Expressions that are true if an accessor's form can be evaluated, by accessor. Sent with the sentinel."""
    read: Callable[[str, object], Fields] | None = None
    """Converts the data that a form returns to the accessor's result. None if forms return the result as JSON."""
    returns_json: bool = False
    """Whether forms return their data as JSON. If not, Codriver adds code that converts it."""
    mentioned_by: re.Pattern[str] | None = None
    """Matches code that may load the seam."""


@dataclass(frozen=True, slots=True)
class FoundProvider:
    """A provider whose implementation was found in a REPL."""

    provider: Provider
    session_id: str
    lacking: frozenset[str] = frozenset()
    """Accessors whose forms cannot be evaluated with this version of the seam."""


_CODRIVER_SEAM_PATTERN: Final = re.compile(r"codriver[._/]seam")
_RE_FRAME_PATTERN: Final = re.compile(r"re-frame")
_BASILISP_MODULE_CODE: Final = '(.get (.-modules (python/__import__ "sys")) "codriver_seam")'


def _framework(name: str, dialect: str) -> Provider:
    """Create the provider that calls the functions of a framework directly."""
    return Provider(
        name,
        frozenset({dialect}),
        re_frame.SENTINEL_EXPRESSIONS[name, dialect],
        re_frame.load_forms(name, dialect),
        read=convert_answer,
        returns_json=True,
        mentioned_by=_RE_FRAME_PATTERN,
    )


PROVIDERS: Final = (
    Provider(
        "codriver",
        frozenset({"clojure", "babashka", "nbb"}),
        "(some-> (resolve 'codriver.seam/session-id) deref deref)",
        {ANY_ACCESSOR: "(codriver.seam/call $name $args $origin)"},
        mentioned_by=_CODRIVER_SEAM_PATTERN,
    ),
    *(_framework(name, dialect) for name, dialect in re_frame.SENTINEL_EXPRESSIONS),
    Provider(
        "codriver",
        frozenset({"basilisp"}),
        f'(python/getattr {_BASILISP_MODULE_CODE} "session_id" nil)',
        {
            ANY_ACCESSOR: '(.call (python/__import__ "codriver_seam") $name $args $origin)',
            # The server gives each evaluation its own `*out*`, which is not Python's standard output.
            "subscribe": """(let [out *out*] (.call (python/__import__ "codriver_seam") $name $args $origin
 (fn [text] (.write out (str (python/chr 30) text "\\n")) (.flush out) nil)))""",
        },
        mentioned_by=_CODRIVER_SEAM_PATTERN,
    ),
    Provider(
        "codriver",
        frozenset({"hy"}),
        '(getattr (.get (. (__import__ "sys") modules) "codriver_seam") "session_id" None)',
        {ANY_ACCESSOR: '(.call (__import__ "codriver_seam") $name $args $origin)'},
        mentioned_by=_CODRIVER_SEAM_PATTERN,
    ),
    Provider(
        "codriver",
        frozenset({"python"}),
        'getattr(__import__("sys").modules.get("codriver_seam"), "session_id", None)',
        {ANY_ACCESSOR: '__import__("codriver_seam").call($name, $args, $origin)'},
        mentioned_by=_CODRIVER_SEAM_PATTERN,
    ),
)
"""All providers, in the order in which they are tried."""


def _providers_of(dialect: str) -> tuple[Provider, ...]:
    return tuple(provider for provider in PROVIDERS if dialect in provider.dialects)


def find_provider(name: str, dialect: str) -> Provider:
    """Return the provider with this name for a dialect.

    If there is none, return Codriver's provider for Python, which is also used for unknown REPLs.
    """
    return next((provider for provider in _providers_of(dialect) if provider.name == name), PROVIDERS[-1])


def search_code(dialect: str) -> str | None:
    """Return code that searches for all providers of a dialect, or None if there are none.

    The value of the code is a JSON string for `select_provider`.
    """
    rows = [[provider.sentinel, *provider.conditions.values()] for provider in _providers_of(dialect)]
    separator = ", " if dialect == "python" else " "
    listed = separator.join([f"[{separator.join(row)}]" for row in rows])
    return JSON_CODE_BY_DIALECT[dialect](f"[{listed}]") if rows else None


def select_provider(dialect: str, answer: object) -> FoundProvider | None:
    """Return the first provider that was found, according to the value of the search code."""
    for provider, row in zip(_providers_of(dialect), answer if isinstance(answer, list) else (), strict=False):
        if isinstance(row, list) and row and row[0]:
            conditions = zip(provider.conditions, row[1:], strict=False)
            lacking = frozenset(accessor for accessor, is_met in conditions if not is_met)
            return FoundProvider(provider, str(row[0]), lacking)
    return None


def may_load_application(dialect: str, code: str) -> bool:
    """Return whether code may have loaded an application, judging by the words in it."""
    providers = _providers_of(dialect)
    patterns = (_LOADING_WORDS, *(provider.mentioned_by for provider in providers))
    return bool(providers) and any(pattern is not None and pattern.search(code) for pattern in patterns)


def reports_sensitive_values(provider: Provider) -> bool:
    """Return whether a provider reports the values at sensitive paths, which only Codriver's seam does."""
    return ANY_ACCESSOR in provider.forms


def accessor_refusal(provider: Provider, accessor: str, lacking: Collection[str] = ()) -> Fields | None:
    """Return a refusal if the provider has no form for an accessor, or None if it has one.

    A provider that cannot push events refuses to subscribe and suggests reading the trace.
    """
    if accessor not in lacking and (accessor in provider.forms or ANY_ACCESSOR in provider.forms):
        return None
    if accessor in _STREAM_ACCESSORS:
        hint = (
            f"the seam {provider.name} does not push events. To read new events, call inspect_app with what: trace and "
            "filter them with since"
        )
        return {"ok": False, "reason": "band-missing", "hint": hint}
    available = ", ".join(sorted(provider.forms.keys() - {*lacking, ANY_ACCESSOR}))
    return {
        "ok": False,
        "reason": "no-such-accessor",
        "hint": f"the seam {provider.name} has only these accessors: {available}",
    }


def accessor_code(
    provider: Provider, dialect: str, accessor: str, arguments: Fields, origin: Fields | None = None
) -> str:
    """Return code that calls an accessor. `origin` identifies the caller of a change.

    Raises:
        KeyError: the provider has no form for the accessor. Check this with `accessor_refusal` first.
    """
    code = provider.forms.get(accessor) or provider.forms[ANY_ACCESSOR]
    contents = {"name": accessor, "args": encode_data(dialect, arguments), "origin": encode_data(dialect, origin)}
    nil = "None" if dialect in PYTHON_HOSTED_DIALECTS - {"basilisp"} else "nil"

    def literal(match: re.Match[str]) -> str:
        name = match[1]
        if name in contents:
            return string_literal(dialect, contents[name])
        value = arguments.get(name)
        if value is None:
            return nil
        return string_literal(dialect, value if isinstance(value, str) else encode_data(dialect, value))

    code = _PLACEHOLDER.sub(literal, code)
    return JSON_CODE_BY_DIALECT[dialect](code) if provider.read and not provider.returns_json else code


def read_answer(provider: Provider, accessor: str, text: str) -> str:
    """Convert the value of a provider's form to the result of the accessor as JSON."""
    if provider.read is None:
        return text
    return json.dumps(provider.read(accessor, json.loads(text, strict=False)), ensure_ascii=False)


def finished_subscriptions(accessor: str, arguments: Fields, answer: Fields, known: Collection[str]) -> set[str]:
    """Return the `known` subscriptions that have ended, according to a call of an accessor and its result."""
    if accessor == "unsubscribe":
        return {str(arguments.get("subId"))}.intersection(known)
    if accessor != "subscriptions" or not answer["ok"]:
        return set()
    return set(known) - {str(row["id"]) for row in answer["subs"]}
