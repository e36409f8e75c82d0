"""re-frame, version 1 and 2, and Causa: their functions by role, and what their answers are in the seam's contract.

Sources: https://github.com/day8/re-frame2 (pull requests 3542 and 5285 renamed what replaces the state),
https://github.com/day8/re-frame.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from codriver.repls.seam.seam_forms import BROWSER, Forms, Way

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from codriver.repls.seam.seam_forms import Roles

    Told = Mapping[str, Any]

FILES: Final = ("values.cljc", "re_frame.cljc")
ACCESSORS: Final = (
    "health", "state", "epochs", "diff", "trace", "issues", "handlers", "machines", "dispatch", "restore", "reset",
)  # fmt: skip


def _one_of(*names: str) -> tuple[Way, ...]:
    return tuple(Way((name,)) for name in names)


_READ: Final = (
    Way(("clojure.core/requiring-resolve",), "@({0} 'clojure.edn/read-string)"),
    *_one_of("cljs.reader/read-string", "clojure.edn/read-string"),
)
_DB: Final = ("re-frame.core/app-db-value", "re-frame.core/frame-db", "re-frame.core/get-frame-db")
RE_FRAME2: Final[Roles] = {
    "read": _READ,
    "frames": (Way(("re-frame.core/frame-ids",), "(fn [] (sort-by str ({0})))"),),
    "db": _one_of(*_DB),
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
    # The functions of re-frame.core are there without the part that keeps epochs, and answer [] and false.
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
        *(Way((name,), "(fn [frame] (:rf/machines ({0} frame)))") for name in _DB),
    ),
    "sensitive": _one_of("re-frame.core/elision-sensitive-declarations", "re-frame.elision/sensitive-declarations"),
}
RE_FRAME1: Final[Roles] = {
    "read": _READ,
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
CAUSA: Final[Roles] = {
    **RE_FRAME2,
    "causa": _one_of("day8.re-frame2-causa.runtime/health"),
    "session": _one_of("day8.re-frame2-causa.runtime/session-id"),
}

_LOAD: Final = "the application does not load %s"
MISSING2: Final = {
    "stream": "not here: ask for trace since an id",
    "trace": _LOAD % "re-frame.trace.tooling, which keeps the trace",
    "epochs": _LOAD % "re-frame.epoch (day8/re-frame2-epoch), which keeps epochs",
    "restore": _LOAD % "re-frame.epoch (day8/re-frame2-epoch), which restores",
    "reset": _LOAD % "re-frame.epoch (day8/re-frame2-epoch), which replaces the state",
    "machines": _LOAD % "re-frame.machines (day8/re-frame2-machines)",
}
MISSING1: Final = {
    "stream": "re-frame 1 tells nobody of its events",
    "sensitive": "re-frame 1 declares no path sensitive: nothing is hidden",
    "trace": "re-frame 1 keeps no trace for others",
    "epochs": "re-frame 1 keeps no epochs",
    "restore": "re-frame 1 keeps no epochs",
    "machines": "re-frame 1 has no machines",
}
_PAGE: Final = "(str (.-timeOrigin js/performance))"
_PROCESS: Final = (
    '(let [m (java.lang.management.ManagementFactory/getRuntimeMXBean)] (str (.getName m) "/" (.getStartTime m)))'
)
SENTINELS: Final[Mapping[tuple[str, str], str]] = {
    ("causa", BROWSER): '(js/goog.getObjectByName "day8.re_frame2_causa.runtime.session_id")',
    ("re-frame2", "clojure"): f"(when (resolve 're-frame.core/frame-ids) {_PROCESS})",
    ("re-frame2", BROWSER): f'(when (js/goog.getObjectByName "re_frame.core.frame_ids") {_PAGE})',
    ("re-frame", "clojure"): f"(when (resolve 're-frame.db/app-db) {_PROCESS})",
    ("re-frame", BROWSER): f'(when (js/goog.getObjectByName "re_frame.db.app_db") {_PAGE})',
}
"""By seam and dialect, the expression whose value is new with each process or page, and nil where the seam is not."""
_OF: Final[Mapping[str, tuple[Roles, Mapping[str, str]]]] = {
    "re-frame": (RE_FRAME1, MISSING1),
    "re-frame2": (RE_FRAME2, MISSING2),
    "causa": (CAUSA, MISSING2),
}


def forms(name: str, dialect: str) -> Forms:
    """The forms of a seam in a dialect."""
    roles, missing = _OF[name]
    return Forms(FILES, roles, missing, ACCESSORS, dialect)


def read(accessor: str, told: object) -> Told:
    """The contract's answer to an accessor, from the data that its form gave."""
    if not isinstance(told, dict):
        return {"ok": False, "reason": "accessor-failed", "hint": f"it answered {str(told)[:200]!r}"}
    if not told.get("ok"):
        return _refusal(told)
    reader = _READERS.get(accessor)
    return {
        "ok": True,
        **(reader(told) if reader else {key: value for key, value in told.items() if value is not None}),
    }


CAUSES: Final[Mapping[str, str]] = {
    "during-drain": "during-drain",
    "unknown-epoch": "unknown-epoch",
    "non-ok-record": "non-ok-record",
    "schema-mismatch": "schema-mismatch",
    "missing-handler": "missing-handler",
    "version-mismatch": "version-mismatch",
    "no-such-handler": "no-such-frame",
}
"""By the end of the error's name in the trace, the reason of the contract. Source: the failure modes in the framework's
docstrings of `restore-epoch` and `reset-frame-db!`."""


def _refusal(told: Told) -> Told:
    """A refusal; its cause, where the framework told that in its trace alone."""
    cause = told.get("cause")
    if not cause:
        kept = {key: value for key, value in told.items() if value is not None and key not in ("cause", "details")}
        return {**kept, "hint": one_line(str(told.get("hint", "")))}
    reason = next((reason for end, reason in CAUSES.items() if cause.endswith(end)), "accessor-failed")
    details = " ".join([f"{name}={value}" for name, value in sorted((told.get("details") or {}).items())])
    return {"ok": False, "reason": reason, "hint": one_line(f"{cause} {details}".strip())}


BANDS: Final[Mapping[str, tuple[str, ...]]] = {
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
"""By band, the roles that it needs."""


def _bands(told: Told) -> dict[str, object]:
    has, words = told["has"], told.get("missing") or {}
    bands: dict[str, object] = {"stream": words["stream"]}
    for band, roles in BANDS.items():
        lacking = [role for role in roles if not has.get(role)]
        bands[band] = (
            "; ".join([words.get(role) or f"this version has no function for {role}" for role in lacking]) or True
        )
    if not told["enabled"]:
        bands = dict.fromkeys(bands, "the framework was built or started without its debug mode")
    if bands["machines"] is True and not told["machines"]:
        bands["machines"] = "no machine is registered"
    if bands["sensitive"] is True and not told["declared"]:
        bands["sensitive"] = "no path is declared sensitive: nothing is hidden"
    return bands


def _health(told: Told) -> Told:
    keys = ("sessionId", "language", "enabled", "frames", "ambiguousFrame", "pid", "lastId", "events", "handlers",
            "coordAnnotation")  # fmt: skip
    return {"contract": 1, **{key: told[key] for key in keys if told.get(key) is not None}, "bands": _bands(told)}


def _epochs(told: Told) -> Told:
    return {**told, "epochs": [{**row, "origin": row.get("origin") or "?"} for row in told["epochs"]]}


def one_line(text: str) -> str:
    """A text with every character visible: whoever uses the application writes it."""
    return text if text.isprintable() else "".join([one if one.isprintable() else ascii(one)[1:-1] for one in text])


_SHOWN: Final = frozenset({"event", "trace-id", "rf/dispatch-origin", "failing-id", "exception-message", "sync?"})
"""Tags that a line has no place for: they say again what stands in it."""


def line_of(row: Told, *, place: bool = False) -> str:
    """An event in one line: id, op-type, operation, frame, event, dispatch, time, origin, failure, tags."""
    words = [row["id"], row["opType"], row["operation"]]
    if row.get("frame") or row.get("eventId"):
        words += [row.get("frame") or "-", *([row["eventId"]] if row.get("eventId") else [])]
    words += [f"d{row['dispatchId']}"] if row.get("dispatchId") is not None else []
    words += [f"{row['ms']:.3g}ms"] if row.get("ms") is not None else []
    words += [f"by={row['origin']}"] if row.get("origin") not in (None, "app") else []
    words += [row["failure"]] if row.get("failure") else []
    words += [f"at {row['place']}"] if place and row.get("place") else []
    words += [f"{name}={value}" for name, value in sorted(row["tags"].items()) if name not in _SHOWN]
    return one_line(" ".join(map(str, words)))


def _trace(told: Told) -> Told:
    kept = {key: value for key, value in told.items() if key != "events"}
    return {**kept, "lines": [line_of(row) for row in told["events"]]}


def _times(line: str, times: int) -> str:
    return f"{line} \N{MULTIPLICATION SIGN}{times}" if times > 1 else line


def _grouped(rows: list[Told], key: Callable[[Told], object]) -> list[list[Told]]:
    groups: dict[object, list[Told]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return list(groups.values())


def _issues(told: Told) -> Told:
    """Errors first, equal ones once; then warnings, a line for all of one operation: of most there is one a handler."""
    errors = [row for row in told["events"] if row["opType"] != "warning"]
    warnings = [row for row in told["events"] if row["opType"] == "warning"]
    lines = [
        _times(line_of(rows[-1], place=True), len(rows))
        for rows in _grouped(errors, lambda row: (row["operation"], row["frame"], row["eventId"], row["failure"]))
    ]
    lines += [
        _times(line_of(rows[-1], place=True), len(rows)) for rows in _grouped(warnings, lambda row: row["operation"])
    ]
    return {"lines": lines, "count": len(lines), "total": told["total"], "lastId": told["lastId"]}


def _changed(told: Told) -> Told:
    unknown = told.get("unknown")
    kept = {key: value for key, value in told.items() if value not in (None, 0) and key != "unknown"}
    return {**kept, "notes": [f"unknown: {unknown}"]} if unknown else kept


_READERS: Final[Mapping[str, Callable[[Told], Told]]] = {
    "health": _health,
    "epochs": _epochs,
    "trace": _trace,
    "issues": _issues,
    "dispatch": _changed,
}
