"""re-frame 1, re-frame 2 and Causa: the functions that fill each role, and the forms that call an application.

Forms are generated from the Clojure files in `re_frame_forms`, one for each accessor of the seam. The files are
ordinary namespaces that are never loaded. A form contains the accessor's function, the functions that it needs, and a
map from roles to functions of the framework. Evaluating the form resolves them, so a function that was renamed upstream
is found by any of its names, and a missing one is reported. Compiling a form takes a third of a second on the JVM, so
it is stored in the namespace `codriver.forms`.

Sources: https://github.com/day8/re-frame2 (pull requests 3542 and 5285 renamed the function that replaces the state),
https://github.com/day8/re-frame.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from codriver.repls import dialects

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    Fields = Mapping[str, Any]


_FORMS_DIRECTORY: Final = Path(__file__).parent / "re_frame_forms"
_TOP_LEVEL_BREAK: Final = re.compile(r"\n(?=\()")
_FUNCTION_DEFINITION: Final = re.compile(r'\(defn (\S+)\s+(?:"(?:[^"\\]|\\.)*"\s+)?(\[.*)', re.DOTALL)
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
BROWSER_DIALECT: Final = "clojurescript"
"""The dialect in which running code cannot resolve or define names."""


@dataclass(frozen=True, slots=True)
class Way:
    """A way to implement a role, such as reading the state, with functions of a framework."""

    names: tuple[str, ...]
    """The functions that must all exist. Macros are not allowed."""
    code: str = "{0}"
    """The expression for the role. `{0}`, `{1}` and so on are replaced by the functions."""


Roles = Mapping[str, tuple[Way, ...]]
"""The ways to fill each role, the preferred one first."""


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


def way_code(way: Way, dialect: str) -> str:
    """Return an expression whose value is the function of a way, or nil if a required function does not exist."""
    bound = " ".join([f"v{number} (known {_name(name, dialect)})" for number, name in enumerate(way.names)])
    variables = [f"v{number}" for number in range(len(way.names))]
    values = variables if dialect == BROWSER_DIALECT else [f"@{number}" for number in variables]
    return f"(let [{bound}] (when (and {' '.join(variables)}) {way.code.format(*values)}))"


KNOWN_DEFINITIONS: Final = {
    BROWSER_DIALECT: "(known [name] (js/goog.getObjectByName name))",
    "clojure": "(known [name] (when-let [found (resolve name)] (when-not (:macro (meta found)) found)))",
}
"""Definitions of `known`, which resolves a function at run time. The compiler would warn about a missing name."""
_MUNGED_CHARACTERS: Final = {"-": "_", "!": "_BANG_", "?": "_QMARK_", "*": "_STAR_", ">": "_GT_", "/": "."}


def to_javascript_name(name: str) -> str:
    """Convert a ClojureScript name to the name in the compiled JavaScript."""
    return "".join([_MUNGED_CHARACTERS.get(char, char) for char in name])


def _name(name: str, dialect: str) -> str:
    return json.dumps(to_javascript_name(name)) if dialect == BROWSER_DIALECT else f"'{name}"


class Forms(Mapping[str, str]):
    """Code that calls a framework, by the name of the accessor. The source files are read at the first access."""

    def __init__(
        self, files: Sequence[str], roles: Roles, missing: Mapping[str, str], accessors: Iterable[str], dialect: str
    ) -> None:
        self._files, self._roles, self._missing, self._dialect = files, roles, missing, dialect
        self._accessors = tuple(accessors)
        self._defined: dict[str, str] = {}

    def __getitem__(self, accessor: str) -> str:
        """Return the form of an accessor.

        Raises:
            KeyError: there is no such accessor.
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
        roles = [f":{role} {self._role(ways)}" for role, ways in self._roles.items()]
        missing = [f":{role} {json.dumps(words)}" for role, words in self._missing.items()]
        return (
            f"(fn [args origin] (letfn [{' '.join([KNOWN_DEFINITIONS[self._dialect], *clauses])}]\n"
            f"(let [rf {{{' '.join(roles)} :missing {{{' '.join(missing)}}}}}\n"
            f'args ((:read rf) args) origin ((:read rf) (or origin "nil"))]\n'
            f"{_JSON_CODE_BY_DIALECT[self._dialect](f'({_ENTRY_FUNCTION} rf args (fn [] ({name} rf args origin)))')})))"
        )

    def _role(self, ways: tuple[Way, ...]) -> str:
        return f"(or {' '.join([way_code(way, self._dialect) for way in ways])})"


FORMS_NAMESPACE: Final = "codriver.forms"
"""The namespace in which compiled forms are stored."""


def _cached_form(accessor: str, code: str) -> str:
    """Return a form whose function is compiled only at its first evaluation.

    All names are qualified, because the current namespace may exclude names of `clojure.core`.
    """
    name = f"{accessor}-{hashlib.sha256(code.encode()).hexdigest()[:12]}"
    return (
        f"((clojure.core/deref (clojure.core/or (clojure.core/resolve '{FORMS_NAMESPACE}/{name}) (clojure.core/intern "
        f"(clojure.core/create-ns '{FORMS_NAMESPACE}) '{name} "
        "(clojure.core/binding [clojure.core/*ns* (clojure.core/the-ns 'clojure.core)] (clojure.core/eval "
        f"(clojure.core/read-string {{:read-cond :allow}} {json.dumps(code)})))))) $args $origin)"
    )


FORM_FILES: Final = ("values.cljc", "re_frame.cljc")
ACCESSOR_NAMES: Final = (
    "health", "state", "epochs", "diff", "trace", "issues", "handlers", "machines", "dispatch", "restore", "reset",
)  # fmt: skip


def _one_of(*names: str) -> tuple[Way, ...]:
    return tuple(Way((name,)) for name in names)


_READ_WAYS: Final = (
    Way(("clojure.core/requiring-resolve",), "@({0} 'clojure.edn/read-string)"),
    *_one_of("cljs.reader/read-string", "clojure.edn/read-string"),
)
_DB_FUNCTIONS: Final = ("re-frame.core/app-db-value", "re-frame.core/frame-db", "re-frame.core/get-frame-db")
RE_FRAME2_ROLES: Final[Roles] = {
    "read": _READ_WAYS,
    "frames": (Way(("re-frame.core/frame-ids",), "(fn [] (sort-by str ({0})))"),),
    "db": _one_of(*_DB_FUNCTIONS),
    "enabled": _one_of("re-frame.interop/debug-enabled?"),
    "handlers": (
        Way(
            ("re-frame.core/registrations", "re-frame.registrar/kinds"),
            "(fn [] (into {{}} (map (fn [kind] [kind ({0} kind)])) {1}))",
        ),
        Way(
            ("re-frame.core/registrations",),
            "(fn [] (into {{}} (map (fn [kind] [kind ({0} kind)])) [:event :sub :fx :cofx :view :frame]))",
        ),
    ),
    "dispatch": _one_of("re-frame.core/dispatch*", "re-frame.core/dispatch"),
    "dispatch-sync": _one_of("re-frame.core/dispatch-sync*", "re-frame.core/dispatch-sync"),
    "trace": _one_of("re-frame.trace.tooling/trace-buffer", "re-frame.core/trace-buffer"),
    "listen": _one_of("re-frame.trace.tooling/register-listener!"),
    "unlisten": _one_of("re-frame.trace.tooling/unregister-listener!"),
    # re-frame.core has these functions even without the epoch library, but then they return [] and false.
    "epochs": _one_of("re-frame.epoch/epoch-history"),
    "restore": _one_of("re-frame.epoch/restore-epoch"),
    "reset": (
        *_one_of("re-frame.epoch/replace-app-db!"),
        Way(("re-frame.epoch/replace-frame-state!",), "(fn [frame db] ({0} frame {{:rf.db/app db}}))"),
        *_one_of("re-frame.epoch/reset-frame-db!"),
    ),
    "machines": (Way(("re-frame.machines/machines", "re-frame.core/machines"), "{1}"),),
    "snapshots": (
        Way(("re-frame.core/frame-state-value",), "(fn [frame] (get-in ({0} frame) [:rf.db/runtime :rf/machines]))"),
        *(Way((name,), "(fn [frame] (:rf/machines ({0} frame)))") for name in _DB_FUNCTIONS),
    ),
    "sensitive": _one_of("re-frame.core/elision-sensitive-declarations", "re-frame.elision/sensitive-declarations"),
}
RE_FRAME1_ROLES: Final[Roles] = {
    "read": _READ_WAYS,
    "frames": (Way(("re-frame.db/app-db",), "(fn [] (when {0} [:app-db]))"),),
    "db": (Way(("re-frame.db/app-db",), "(fn [_] (deref {0}))"),),
    "enabled": (Way(("re-frame.db/app-db",), "(some? {0})"),),
    "handlers": (
        Way(
            ("re-frame.registrar/kind->id->handler",),
            "(fn [] (into {{}} (map (fn [[kind found]] [kind (zipmap (keys found) (repeat {{}}))])) (deref {0})))",
        ),
    ),
    "dispatch": (Way(("re-frame.core/dispatch",), "(fn [event _] ({0} event))"),),
    "dispatch-sync": (Way(("re-frame.core/dispatch-sync",), "(fn [event _] ({0} event))"),),
    "reset": (Way(("re-frame.db/app-db",), "(fn [_ db] (reset! {0} db) true)"),),
    "throws": (Way(("re-frame.db/app-db",), "true"),),
}
CAUSA_ROLES: Final[Roles] = {
    **RE_FRAME2_ROLES,
    "causa": _one_of("day8.re-frame2-causa.runtime/health"),
    "session": _one_of("day8.re-frame2-causa.runtime/session-id"),
}

_NOT_LOADED_TEMPLATE: Final = "the application does not load %s"
RE_FRAME2_MISSING_HINTS: Final = {
    "stream": "not here: ask for trace since an id",
    "trace": _NOT_LOADED_TEMPLATE % "re-frame.trace.tooling, which keeps the trace",
    "epochs": _NOT_LOADED_TEMPLATE % "re-frame.epoch (day8/re-frame2-epoch), which keeps epochs",
    "restore": _NOT_LOADED_TEMPLATE % "re-frame.epoch (day8/re-frame2-epoch), which restores",
    "reset": _NOT_LOADED_TEMPLATE % "re-frame.epoch (day8/re-frame2-epoch), which replaces the state",
    "machines": _NOT_LOADED_TEMPLATE % "re-frame.machines (day8/re-frame2-machines)",
}
"""Explanations of why an application with re-frame 2 may lack a role, by role."""
RE_FRAME1_MISSING_HINTS: Final = {
    "stream": "re-frame 1 tells nobody of its events",
    "sensitive": "re-frame 1 declares no path sensitive: nothing is hidden",
    "trace": "re-frame 1 keeps no trace for others",
    "epochs": "re-frame 1 keeps no epochs",
    "restore": "re-frame 1 keeps no epochs",
    "machines": "re-frame 1 has no machines",
}
"""Explanations of why an application with re-frame 1 lacks a role, by role."""
_PAGE_EXPRESSION: Final = "(str (.-timeOrigin js/performance))"
_PROCESS_EXPRESSION: Final = (
    '(let [m (java.lang.management.ManagementFactory/getRuntimeMXBean)] (str (.getName m) "/" (.getStartTime m)))'
)
SENTINEL_EXPRESSIONS: Final[Mapping[tuple[str, str], str]] = {
    ("causa", BROWSER_DIALECT): '(js/goog.getObjectByName "day8.re_frame2_causa.runtime.session_id")',
    ("re-frame2", "clojure"): f"(when (resolve 're-frame.core/frame-ids) {_PROCESS_EXPRESSION})",
    ("re-frame2", BROWSER_DIALECT): f'(when (js/goog.getObjectByName "re_frame.core.frame_ids") {_PAGE_EXPRESSION})',
    ("re-frame", "clojure"): f"(when (resolve 're-frame.db/app-db) {_PROCESS_EXPRESSION})",
    ("re-frame", BROWSER_DIALECT): f'(when (js/goog.getObjectByName "re_frame.db.app_db") {_PAGE_EXPRESSION})',
}
"""For each seam and dialect, an expression that identifies the process or page, or is nil without the seam."""
_ROLES_AND_HINTS_BY_SEAM: Final[Mapping[str, tuple[Roles, Mapping[str, str]]]] = {
    "re-frame": (RE_FRAME1_ROLES, RE_FRAME1_MISSING_HINTS),
    "re-frame2": (RE_FRAME2_ROLES, RE_FRAME2_MISSING_HINTS),
    "causa": (CAUSA_ROLES, RE_FRAME2_MISSING_HINTS),
}


def load_forms(name: str, dialect: str) -> Forms:
    """Return the forms of a seam for a dialect."""
    roles, missing = _ROLES_AND_HINTS_BY_SEAM[name]
    return Forms(FORM_FILES, roles, missing, ACCESSOR_NAMES, dialect)


def convert_answer(accessor: str, answer: object) -> Fields:
    """Convert the data returned by a form to the answer of its accessor."""
    if not isinstance(answer, dict):
        return {"ok": False, "reason": "accessor-failed", "hint": f"it answered {str(answer)[:200]!r}"}
    if not answer.get("ok"):
        return _convert_refusal(answer)
    reader = _READERS_BY_ACCESSOR.get(accessor)
    return {
        "ok": True,
        **(reader(answer) if reader else {key: value for key, value in answer.items() if value is not None}),
    }


REASONS_BY_ERROR: Final[Mapping[str, str]] = {
    "during-drain": "during-drain",
    "unknown-epoch": "unknown-epoch",
    "non-ok-record": "non-ok-record",
    "schema-mismatch": "schema-mismatch",
    "missing-handler": "missing-handler",
    "version-mismatch": "version-mismatch",
    "no-such-handler": "no-such-frame",
}
"""The reasons of refusals, by the end of the name of an error in the trace.

Source: the failure modes in the docstrings of the framework's `restore-epoch` and `reset-frame-db!`.
"""


def _convert_refusal(answer: Fields) -> Fields:
    """Return a refusal. If its cause is recorded only in the framework's trace, it is included."""
    cause = answer.get("cause")
    if not cause:
        others = {key: value for key, value in answer.items() if value is not None and key not in ("cause", "details")}
        return {**others, "hint": escape_invisible_characters(str(answer.get("hint", "")))}
    reason = next((reason for end, reason in REASONS_BY_ERROR.items() if cause.endswith(end)), "accessor-failed")
    details = " ".join([f"{name}={value}" for name, value in sorted((answer.get("details") or {}).items())])
    return {"ok": False, "reason": reason, "hint": escape_invisible_characters(f"{cause} {details}".strip())}


ROLES_BY_BAND: Final[Mapping[str, tuple[str, ...]]] = {
    "inspect": ("frames", "db"),
    "trace": ("trace",),
    "epochs": ("epochs",),
    "mutate": ("dispatch", "dispatch-sync"),
    "restore": ("restore",),
    "reset": ("reset",),
    "handlers": ("handlers",),
    "machines": ("machines",),
    "sensitive": ("sensitive",),
}
"""The roles that each band needs."""


def _bands(answer: Fields) -> dict[str, object]:
    has, words = answer["has"], answer.get("missing") or {}
    bands: dict[str, object] = {"stream": words["stream"]}
    for band, roles in ROLES_BY_BAND.items():
        lacking = [role for role in roles if not has.get(role)]
        bands[band] = (
            "; ".join([words.get(role) or f"this version has no function for {role}" for role in lacking]) or True
        )
    if not answer["enabled"]:
        bands = dict.fromkeys(bands, "the framework was built or started without its debug mode")
    if bands["machines"] is True and not answer["machines"]:
        bands["machines"] = "no machine is registered"
    if bands["sensitive"] is True and not answer["declared"]:
        bands["sensitive"] = "no path is declared sensitive: nothing is hidden"
    return bands


def _health(answer: Fields) -> Fields:
    keys = ("sessionId", "language", "enabled", "frames", "ambiguousFrame", "pid", "lastId", "events", "handlers",
            "coordAnnotation")  # fmt: skip
    return {"contract": 1, **{key: answer[key] for key in keys if answer.get(key) is not None}, "bands": _bands(answer)}


def _epochs(answer: Fields) -> Fields:
    return {**answer, "epochs": [{**row, "origin": row.get("origin") or "?"} for row in answer["epochs"]]}


def escape_invisible_characters(text: str) -> str:
    """Escape invisible characters in a text, because it may come from users of the application."""
    return (
        text
        if text.isprintable()
        else "".join([character if character.isprintable() else ascii(character)[1:-1] for character in text])
    )


_REDUNDANT_TAGS: Final = frozenset(
    {"event", "trace-id", "rf/dispatch-origin", "failing-id", "exception-message", "sync?"}
)
"""Tags that are omitted from a line because its other parts contain the same information."""


def format_event(row: Fields, *, with_position: bool = False) -> str:
    """Format an event as one line.

    It contains the id, op-type, operation, frame, event, dispatch, time, origin, failure and tags.
    """
    words = [row["id"], row["opType"], row["operation"]]
    if row.get("frame") or row.get("eventId"):
        words += [row.get("frame") or "-", *([row["eventId"]] if row.get("eventId") else [])]
    words += [f"d{row['dispatchId']}"] if row.get("dispatchId") is not None else []
    words += [f"{row['ms']:.3g}ms"] if row.get("ms") is not None else []
    words += [f"by={row['origin']}"] if row.get("origin") not in (None, "app") else []
    words += [row["failure"]] if row.get("failure") else []
    words += [f"at {row['place']}"] if with_position and row.get("place") else []
    words += [f"{name}={value}" for name, value in sorted(row["tags"].items()) if name not in _REDUNDANT_TAGS]
    return escape_invisible_characters(" ".join(map(str, words)))


def _trace(answer: Fields) -> Fields:
    others = {key: value for key, value in answer.items() if key != "events"}
    return {**others, "lines": [format_event(row) for row in answer["events"]]}


def _times(line: str, times: int) -> str:
    return f"{line} \N{MULTIPLICATION SIGN}{times}" if times > 1 else line


def _grouped(rows: list[Fields], key: Callable[[Fields], object]) -> list[list[Fields]]:
    groups: dict[object, list[Fields]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return list(groups.values())


def _issue_lines(answer: Fields) -> Fields:
    """Return a line for each different error, followed by a line for each warning."""
    errors = [row for row in answer["events"] if row["opType"] != "warning"]
    warnings = [row for row in answer["events"] if row["opType"] == "warning"]
    lines = [
        _times(format_event(rows[-1], with_position=True), len(rows))
        for rows in _grouped(errors, lambda row: (row["operation"], row["frame"], row["eventId"], row["failure"]))
    ]
    lines += [
        _times(format_event(rows[-1], with_position=True), len(rows))
        for rows in _grouped(warnings, lambda row: row["operation"])
    ]
    return {"lines": lines, "count": len(lines), "total": answer["total"], "lastId": answer["lastId"]}


def _changed(answer: Fields) -> Fields:
    unknown = answer.get("unknown")
    others = {key: value for key, value in answer.items() if value not in (None, 0) and key != "unknown"}
    return {**others, "notes": [f"unknown: {unknown}"]} if unknown else others


_READERS_BY_ACCESSOR: Final[Mapping[str, Callable[[Fields], Fields]]] = {
    "health": _health,
    "epochs": _epochs,
    "trace": _trace,
    "issues": _issue_lines,
    "dispatch": _changed,
}
