"""Dialects: the characteristics of the nREPL server for each language.

Codriver's programs return one JSON string, because JSON is the only notation that every dialect can write without a
library. Names are passed to them as string literals and never become part of the code.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from codriver.repls.dialects import loaded_namespaces, python_programs
from codriver.repls.dialects.server_dialect import Dialect
from codriver.repls.programs import Program, Programs, program

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codriver.repls.programs import Code

WORKER_OP_PREFIX: Final = "codriver/"
"""The prefix of the ops that only Codriver's worker has."""

_JVM_STRING_FUNCTIONS: Final = {"HAS": "(fn [^String a ^String b] (.contains a b))", "LOWER": ".toLowerCase"}
_JAVASCRIPT_STRING_FUNCTIONS: Final = {"HAS": "(fn [a b] (.includes a b))", "LOWER": ".toLowerCase"}
_PYTHON_STRING_FUNCTIONS: Final = {"HAS": "(fn [a b] (not= -1 (.find a b)))", "LOWER": ".lower"}


def _test(path: str, words: Mapping[str, str]) -> Program:
    """Return the program that runs tests, with the dialect's string functions inserted."""
    return program(path, HAS=words["HAS"], IS_SELECTED=program("lisp/is_selected.cljc", LOWER=words["LOWER"]))


_SESSION_PROGRAM: Final = program("clojure/session.clj")
_CLOJURE_JSON_PROGRAM: Final = program("clojure/json.clj")
_EXPAND_EXPRESSION: Final = "(pr-str ($expand (read-string $code)))"

_CLOJURE_EXPRESSIONS: Final[dict[str, Code]] = {
    "lookup": program("clojure/lookup.clj"),
    "names": program("lisp/names.cljc", LOWER="(.toLowerCase ^String s)"),
    "source": program("clojure/source.clj"),
    "complete": program("clojure/complete.clj"),
    "macroexpand": program("clojure/expand.clj"),
    "test": _test("clojure/test.clj", _JVM_STRING_FUNCTIONS),
    "test-partial": program("clojure/test_partial.clj"),
}
"""The programs for Clojure on the JVM that also run in Babashka."""

_JAVA_TOOLING_PREFIXES: Final = (
    "java.", "jdk.", "sun.", "clojure.lang.", "clojure.core", "clojure.main", "clojure.test", "nrepl.", "cider.",
    "refactor_nrepl.", "orchard.", "shadow.", "leiningen.", "boot.",
)  # fmt: skip
"""Prefixes of classes that belong to Clojure, its tools or the JVM."""
_PYTHON_TOOLING_PATHS: Final = ("site-packages", "dist-packages", "/lib/python", "<frozen", "codriver/worker/")
"""Parts of the paths of files that belong to Python, installed packages or Codriver."""

CLOJURE: Final = Dialect(
    "clojure",
    accepts_missing_position=True,
    no_file="NO_SOURCE_PATH",
    json=_CLOJURE_JSON_PROGRAM,
    facts=program("clojure/facts.clj"),
    process_id='(first (re-seq #"[0-9]+" (.getName (java.lang.management.ManagementFactory/getRuntimeMXBean))))',
    expressions=Programs(
        {
            **_CLOJURE_EXPRESSIONS,
            "stacktrace": program("clojure/stacktrace.clj", SESSION=_SESSION_PROGRAM),
            "stacks": program("clojure/stacks.clj"),
            "tidy": program("clojure/tidy.clj"),
            "glimpse": program(
                "lisp/glimpse.cljc",
                RESOLVED=program("clojure/bound.clj"),
                KNOWN='(and (coll? x) (counted? x) (.startsWith (.getName (class x)) "clojure.lang."))',
                CLASS="(.getName (class x))",
            ),
            "keep": program("clojure/keep.clj", SESSION=_SESSION_PROGRAM),
            "kept": program("clojure/kept.clj"),
            "drift": loaded_namespaces.CALL_LOADED_CODE,
            "drift-keep": loaded_namespaces.CACHE_LOADED_CODE,
            "hold": program("clojure/hold.clj"),
            "restore": "(@(find-var 'codriver.holds/run) $hold $step)",
        }
    ),
    before=dict.fromkeys(("test", "source", "hold"), "(require 'clojure.test 'clojure.java.io)"),
    tooling=_JAVA_TOOLING_PREFIXES,
    print_limits="[1 2 3]",
    printer=program("clojure/printer.clj"),
    file_evaluator=program("clojure/file_evaluator.clj"),
    answers_while_busy=True,
    interrupt_note=(
        "the JVM is stopping the thread. Code that is waiting ends at once, but a loop may keep a core busy for "
        "about 5 s more. The session accepts new evaluations now"
    ),
    isolates="session",
)

CLOJURESCRIPT: Final = Dialect(
    "clojurescript",
    json="(js/JSON.stringify (clj->js VALUE))",
    facts="{:root nil :version *clojurescript-version*}",
    broken=frozenset({"interrupt"}),
    notes=(
        "ClojureScript cannot be interrupted, because its runtime has one thread. To end a loop, reload the runtime",
    ),
)

BABASHKA: Final = Dialect(
    "babashka",
    json=_CLOJURE_JSON_PROGRAM,
    process_id="(.pid (java.lang.ProcessHandle/current))",
    expressions=Programs(_CLOJURE_EXPRESSIONS),
    before={"test": "(require 'clojure.test 'clojure.java.io)", "source": "(require 'clojure.java.io)"},
    tooling=_JAVA_TOOLING_PREFIXES,
    notes=("babashka's nREPL server cannot interrupt code. To end an endless loop, restart it",),
)

NBB: Final = Dialect(
    "nbb",
    counts_lines=False,
    expanders=("macroexpand-1", "macroexpand"),
    json=program("nbb/json.cljs"),
    preserve_last=program("nbb/keeps_last.cljs"),
    facts="{:root (js/process.cwd) :pid js/process.pid :namespace (str *ns*)}",
    expressions=Programs(
        {
            "names": program("lisp/names.cljc", LOWER="(.toLowerCase s)"),
            "glimpse": program(
                "lisp/glimpse.cljc",
                RESOLVED="(ns-resolve n (symbol $name))",
                KNOWN="(and (not (record? x)) (or (map? x) (vector? x) (set? x) (list? x)))",
                CLASS=program("nbb/class.cljs"),
            ),
            "macroexpand": _EXPAND_EXPRESSION,
            "test-unloaded": "(vec (keep (fn [[n _]] (when-not (find-ns (symbol n)) n)) $files))",
            "test": _test("nbb/test.cljs", _JAVASCRIPT_STRING_FUNCTIONS),
            "test-rest": program("nbb/test_rest.cljs"),
            "test-partial": program("nbb/test_partial.cljs"),
        }
    ),
    before={"test": "(require 'cljs.test)"},
    namespace_by="ns",
    # Babashka's op calls something that is not a function.
    broken=frozenset({"macroexpand"}),
    unsafe_bytes=16_000,
    completes_within=True,
    load_moves_namespace=True,
    isolates="none",
    notes=(
        "nbb cannot be interrupted, and an endless loop blocks it for all clients. To end the loop, restart nbb",
        "all clients of nbb share one namespace",
    ),
)

_BASILISP_EXPRESSIONS: Final = Programs(
    {
        "lookup": program("basilisp/lookup.lpy"),
        "names": program("lisp/names.cljc", LOWER="(.lower s)"),
        "source": program("basilisp/source.lpy"),
        "glimpse": program(
            "lisp/glimpse.cljc",
            RESOLVED="(ns-resolve n (symbol $name))",
            KNOWN=program("basilisp/known.lpy"),
            CLASS=program("basilisp/class.lpy"),
        ),
        "macroexpand": _EXPAND_EXPRESSION,
        "test": _test("basilisp/test.lpy", _PYTHON_STRING_FUNCTIONS),
        "test-partial": program("basilisp/test_partial.lpy"),
        "complete-in": program("basilisp/complete_in.lpy"),
    }
)

BASILISP: Final = Dialect(
    "basilisp",
    columns_from_zero=True,
    expanders=("macroexpand-1", "macroexpand"),
    json='(.dumps (python/__import__ "json") (lisp->py VALUE))',
    python_text=True,
    facts='{:root (.getcwd (python/__import__ "os")) :pid (.getpid (python/__import__ "os"))}',
    expressions=_BASILISP_EXPRESSIONS,
    before={"test": "(require 'basilisp.test)"},
    call_cached=program("basilisp/kept.lpy"),
    cached=frozenset({"source", "glimpse", "test"}),
    namespace_by="in-ns",
    adapted={"stacktrace": "the traceback of the last failure"},
    sends_traceback=True,
    tooling=_PYTHON_TOOLING_PATHS,
    load_moves_namespace=True,
    isolates="connection",
    notes=("Basilisp's own server cannot interrupt code, but the one started by `codriver serve --repl lisp` can",),
)

HY: Final = Dialect(
    "hy",
    counts_lines=False,
    home="Hy",
    json='(.dumps (__import__ "json") VALUE)',
    python_text=True,
    facts='{"root" (.getcwd (__import__ "os")) "pid" (.getpid (__import__ "os"))}',
    expressions=python_programs.HY_EXPRESSIONS,
    runs_files=True,
    namespace_by="none",
    tooling=_PYTHON_TOOLING_PATHS,
    send_gap_s=0.02,
    interrupts_reads=False,
    # Its op loses the start of the file.
    broken=frozenset({"load-file"}),
    adapted={"load-file": "eval", "stacktrace": "the traceback of the last failure"},
    sends_traceback=True,
    fixes=python_programs.HY_FIXES,
    isolates="session",
    shares="imported modules are shared, but names are not",
    # The evaluating thread has its session. Source: hy-nrepl 1.0.4, `session.hy` and `ops/eval.hy`.
    joins=(
        "(do (setv own (. (hy.I.threading.current-thread) session) shared (.get own.registry $main) "
        "own.module shared.module own.locals shared.locals) None)"
    ),
    notes=(
        "hy-nrepl serves one client at a time, so others wait until this one disconnects",
        "hy-nrepl can interrupt Python code between two instructions, but not a blocking call",
    ),
)

UNKNOWN: Final = Dialect("unknown")

WORKER_PYTHON: Final = Dialect(
    "python",
    accepts_missing_position=True,
    python_text=True,
    facts='__import__("json").dumps({"root": __import__("os").getcwd(), "pid": __import__("os").getpid()})',
    expressions=python_programs.PYTHON_EXPRESSIONS,
    runs_files=True,
    adapted={"stacktrace": "the traceback of the last failure"},
    sends_traceback=True,
    tooling=_PYTHON_TOOLING_PATHS,
    print_limits="[1, 2, 3]",
    answers_while_busy=True,
    isolates="session",
    shares="you can read the shared names, but the names that you define are separate. Modules, and objects that are "
    "modified in place, are shared",
    is_serial=True,
)

WORKER_LISP: Final = replace(
    BASILISP,
    expressions=_BASILISP_EXPRESSIONS.without("complete-in"),
    namespace_by="key",
    columns_from_zero=False,
    load_moves_namespace=False,
    print_limits="[1 2 3]",
    answers_while_busy=True,
    isolates="session",
    is_serial=True,
    notes=(),
)
