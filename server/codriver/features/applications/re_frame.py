"""Detect re-frame 1, re-frame 2 or Causa in an application, and list the functions to call in each.

Sources: https://github.com/day8/re-frame2 (pull requests 3542 and 5285 renamed the function that replaces the state),
https://github.com/day8/re-frame.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codriver.features.applications.framework_forms import BROWSER_DIALECT, Forms, Implementation, Roles

if TYPE_CHECKING:
    from collections.abc import Mapping


FORM_FILES: Final = ("values.cljc", "re_frame.cljc")
"""Files that contain the forms to send to an application."""
ACCESSOR_NAMES: Final = (
    "health", "state", "epochs", "diff", "trace", "issues", "handlers", "machines", "dispatch", "restore", "reset",
)  # fmt: skip
"""The accessors of the seam that the forms define."""


def _one_of(*names: str) -> tuple[Implementation, ...]:
    return tuple(Implementation((name,)) for name in names)


_READ_IMPLEMENTATIONS: Final = (
    Implementation(("clojure.core/requiring-resolve",), "@({0} 'clojure.edn/read-string)"),
    *_one_of("cljs.reader/read-string", "clojure.edn/read-string"),
)
_DB_FUNCTIONS: Final = ("re-frame.core/app-db-value", "re-frame.core/frame-db", "re-frame.core/get-frame-db")
RE_FRAME2_ROLES: Final[Roles] = {
    "read": _READ_IMPLEMENTATIONS,
    "frames": (Implementation(("re-frame.core/frame-ids",), "(fn [] (sort-by str ({0})))"),),
    "db": _one_of(*_DB_FUNCTIONS),
    "enabled": _one_of("re-frame.interop/debug-enabled?"),
    "handlers": (
        Implementation(
            ("re-frame.core/registrations", "re-frame.registrar/kinds"),
            "(fn [] (into {{}} (map (fn [kind] [kind ({0} kind)])) {1}))",
        ),
        Implementation(
            ("re-frame.core/registrations",),
            "(fn [] (into {{}} (map (fn [kind] [kind ({0} kind)])) [:event :sub :fx :cofx :view :frame]))",
        ),
    ),
    "dispatch": _one_of("re-frame.core/dispatch*", "re-frame.core/dispatch"),
    "dispatch-sync": _one_of("re-frame.core/dispatch-sync*", "re-frame.core/dispatch-sync"),
    "trace": _one_of("re-frame.trace.tooling/trace-buffer", "re-frame.core/trace-buffer"),
    "listen": _one_of("re-frame.trace.tooling/register-listener!"),
    "unlisten": _one_of("re-frame.trace.tooling/unregister-listener!"),
    # re-frame.core has these functions even without the epoch library, but they then return [] and false.
    "epochs": _one_of("re-frame.epoch/epoch-history"),
    "restore": _one_of("re-frame.epoch/restore-epoch"),
    "reset": (
        *_one_of("re-frame.epoch/replace-app-db!"),
        Implementation(("re-frame.epoch/replace-frame-state!",), "(fn [frame db] ({0} frame {{:rf.db/app db}}))"),
        *_one_of("re-frame.epoch/reset-frame-db!"),
    ),
    "machines": (Implementation(("re-frame.machines/machines", "re-frame.core/machines"), "{1}"),),
    "snapshots": (
        Implementation(
            ("re-frame.core/frame-state-value",), "(fn [frame] (get-in ({0} frame) [:rf.db/runtime :rf/machines]))"
        ),
        *(Implementation((name,), "(fn [frame] (:rf/machines ({0} frame)))") for name in _DB_FUNCTIONS),
    ),
    "sensitive": _one_of("re-frame.core/elision-sensitive-declarations", "re-frame.elision/sensitive-declarations"),
}
"""The implementations of each role in re-frame 2."""
RE_FRAME1_ROLES: Final[Roles] = {
    "read": _READ_IMPLEMENTATIONS,
    "frames": (Implementation(("re-frame.db/app-db",), "(fn [] (when {0} [:app-db]))"),),
    "db": (Implementation(("re-frame.db/app-db",), "(fn [_] (deref {0}))"),),
    "enabled": (Implementation(("re-frame.db/app-db",), "(some? {0})"),),
    "handlers": (
        Implementation(
            ("re-frame.registrar/kind->id->handler",),
            "(fn [] (into {{}} (map (fn [[kind found]] [kind (zipmap (keys found) (repeat {{}}))])) (deref {0})))",
        ),
    ),
    "dispatch": (Implementation(("re-frame.core/dispatch",), "(fn [event _] ({0} event))"),),
    "dispatch-sync": (Implementation(("re-frame.core/dispatch-sync",), "(fn [event _] ({0} event))"),),
    "reset": (Implementation(("re-frame.db/app-db",), "(fn [_ db] (reset! {0} db) true)"),),
    "throws": (Implementation(("re-frame.db/app-db",), "true"),),
}
"""The implementations of each role in re-frame 1."""
CAUSA_ROLES: Final[Roles] = {
    **RE_FRAME2_ROLES,
    "causa": _one_of("day8.re-frame2-causa.runtime/health"),
    "session": _one_of("day8.re-frame2-causa.runtime/session-id"),
}
"""The implementations of each role in re-frame 2 with its developer tool Causa."""

_NOT_LOADED_TEMPLATE: Final = "the application does not load %s"
RE_FRAME2_MISSING_HINTS: Final = {
    "stream": "re-frame 2 does not push its events. To read new events, filter the trace with since",
    "trace": _NOT_LOADED_TEMPLATE % "re-frame.trace.tooling, which stores the trace",
    "epochs": _NOT_LOADED_TEMPLATE % "re-frame.epoch (day8/re-frame2-epoch), which stores epochs",
    "restore": _NOT_LOADED_TEMPLATE % "re-frame.epoch (day8/re-frame2-epoch), which restores epochs",
    "reset": _NOT_LOADED_TEMPLATE % "re-frame.epoch (day8/re-frame2-epoch), which replaces the state",
    "machines": _NOT_LOADED_TEMPLATE % "re-frame.machines (day8/re-frame2-machines)",
}
"""Reasons why a role may be unavailable in an application with re-frame 2, by role."""
RE_FRAME1_MISSING_HINTS: Final = {
    "stream": "re-frame 1 does not push its events",
    "sensitive": "re-frame 1 cannot mark paths as sensitive, so nothing is hidden",
    "trace": "re-frame 1 provides no trace",
    "epochs": "re-frame 1 stores no epochs",
    "restore": "re-frame 1 stores no epochs",
    "machines": "re-frame 1 has no machines",
}
"""Reasons why a role is unavailable in an application with re-frame 1, by role."""
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
"""Expressions that return an id of the process or page, or nil if the seam is missing, by seam and dialect."""
_ROLES_AND_HINTS_BY_SEAM: Final[Mapping[str, tuple[Roles, Mapping[str, str]]]] = {
    "re-frame": (RE_FRAME1_ROLES, RE_FRAME1_MISSING_HINTS),
    "re-frame2": (RE_FRAME2_ROLES, RE_FRAME2_MISSING_HINTS),
    "causa": (CAUSA_ROLES, RE_FRAME2_MISSING_HINTS),
}


def load_forms(name: str, dialect: str) -> Forms:
    """Return the forms of a seam for a dialect."""
    roles, missing = _ROLES_AND_HINTS_BY_SEAM[name]
    return Forms(FORM_FILES, roles, missing, ACCESSOR_NAMES, dialect)
