"""Dialects: the limits and habits of each language's server, and expressions in place of the ops that it lacks.

Code sent by us gives its answer as one JSON text, the only notation that every dialect can write without a library.
Names reach the code as string literals, never spliced in as code.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from codriver.repls.dialects import (
    held_clojure,
    hy_output,
    lisp_expressions,
    loaded_code,
    python_tests,
    symbol_expressions,
    value_expressions,
)
from codriver.repls.dialects.server_dialect import Dialect

WORKER_OPS: Final = "codriver/"
"""Codriver's own worker is known by ops whose names begin so."""

_CLOJURE_JSON: Final = """(letfn [(j [x] (cond (nil? x) "null" (string? x) (pr-str x)
  (or (number? x) (true? x) (false? x)) (str x)
  (map? x) (str "{" (apply str (interpose "," (map (fn [[k v]] (str (j (name k)) ":" (j v))) x))) "}")
  (coll? x) (str "[" (apply str (interpose "," (map j x))) "]")
  :else (pr-str (str x))))] (j %s))"""

_CLOJURE_FACTS: Final = """{:root (System/getProperty "user.dir")
 :java (System/getProperty "java.specification.version")
 :babashka (System/getProperty "babashka.version") :attach (System/getProperty "jdk.attach.allowAttachSelf")
 :tools-nrepl (some? (find-ns 'clojure.tools.nrepl)) :seam $seam}"""

_CLOJURE_EXPAND: Final = """(binding [*ns* (the-ns (symbol $ns))]
 (require 'clojure.walk) (pr-str ($expand (read-string $code))))"""

_CLOJURE_STACKS: Final = """(map (fn [[^Thread t frames]] {:name (.getName t) :state (str (.getState t))
   :frames (map str (take 40 frames))})
 (filter (fn [[^Thread t _]] (.contains (.getName t) $session)) (Thread/getAllStackTraces)))"""

_CLOJURE_TIDY: Final = """(let [loader? (fn [l] (= clojure.lang.DynamicClassLoader (class l)))
  up (fn [^ClassLoader l] (.getParent l))
  spare? (fn [l] (and (loader? l) (loader? (up l)) (empty? (.getURLs ^java.net.URLClassLoader l))))]
 (doseq [^Thread t (keys (Thread/getAllStackTraces)) :when (.contains (.getName t) $session)]
  (.setContextClassLoader t (first (drop-while spare? (iterate up (.getContextClassLoader t)))))))"""
"""nREPL 1.0 leaves a class loader behind with every evaluation, each the child of the one before: evaluations become
slower, and after some 2,400 of them every one fails with a stack overflow. Those that carry nothing are unlinked."""

_JAVA_TOOLING: Final = (
    "java.", "jdk.", "sun.", "clojure.lang.", "clojure.core", "clojure.main", "clojure.test", "nrepl.", "cider.",
    "refactor_nrepl.", "orchard.", "shadow.", "leiningen.", "boot.",
)  # fmt: skip
_PYTHON_TOOLING: Final = ("site-packages", "dist-packages", "/lib/python", "<frozen", "codriver/worker/")

CLOJURE: Final = Dialect(
    "clojure",
    takes_beginning=True,
    no_file="NO_SOURCE_PATH",
    json=_CLOJURE_JSON,
    facts=_CLOJURE_FACTS,
    process_id='(first (re-seq #"[0-9]+" (.getName (java.lang.management.ManagementFactory/getRuntimeMXBean))))',
    ask={
        "lookup": symbol_expressions.LOOKUP_CLOJURE,
        "names": symbol_expressions.NAMES_CLOJURE,
        "source": symbol_expressions.SOURCE_CLOJURE,
        "complete": symbol_expressions.COMPLETE_CLOJURE,
        "macroexpand": _CLOJURE_EXPAND,
        "stacktrace": value_expressions.STACKTRACE_CLOJURE,
        "stacks": _CLOJURE_STACKS,
        "tidy": _CLOJURE_TIDY,
        "glimpse": value_expressions.GLIMPSE_CLOJURE,
        "keep": value_expressions.KEEP_CLOJURE,
        "kept": value_expressions.KEPT_CLOJURE,
        "test": lisp_expressions.TEST_CLOJURE,
        "test-partial": lisp_expressions.TEST_CLOJURE_PARTIAL,
        "drift": loaded_code.LOADED_CLOJURE,
        "drift-keep": loaded_code.KEEP_LOADED_CLOJURE,
        **held_clojure.ASK_CLOJURE,
    },
    before=dict.fromkeys(("test", "source", "hold"), "(require 'clojure.test 'clojure.java.io)"),
    tooling=_JAVA_TOOLING,
    print_limits="[1 2 3]",
    printer=value_expressions.PRINTER_CLOJURE,
    file_evaluator=value_expressions.FILE_EVALUATOR_CLOJURE,
    answers_while_busy=True,
    interrupt_note=(
        "the JVM was asked to stop the thread: code that waits ends at once, a loop that never waits may keep "
        "a core busy for about 5 s more; the session takes new evaluations now"
    ),
    keeps_apart="session",
)

CLOJURESCRIPT: Final = Dialect(
    "clojurescript",
    json="(js/JSON.stringify (clj->js %s))",
    facts="{:root nil :version *clojurescript-version* :seam $seam}",
    broken=frozenset({"interrupt"}),
    notes=("ClojureScript cannot be interrupted: its runtime has one thread; reload the runtime to end a loop",),
)

BABASHKA: Final = Dialect(
    "babashka",
    json=_CLOJURE_JSON,
    process_id="(.pid (java.lang.ProcessHandle/current))",
    ask={
        "lookup": symbol_expressions.LOOKUP_CLOJURE,
        "names": symbol_expressions.NAMES_CLOJURE,
        "source": symbol_expressions.SOURCE_CLOJURE,
        "complete": symbol_expressions.COMPLETE_CLOJURE,
        "macroexpand": _CLOJURE_EXPAND,
        "test": lisp_expressions.TEST_CLOJURE,
        "test-partial": lisp_expressions.TEST_CLOJURE_PARTIAL,
    },
    before={"test": "(require 'clojure.test 'clojure.java.io)", "source": "(require 'clojure.java.io)"},
    tooling=_JAVA_TOOLING,
    notes=("babashka's nREPL server cannot interrupt: stop an endless loop by restarting it",),
)

NBB: Final = Dialect(
    "nbb",
    counts_lines=False,
    expanders=("macroexpand-1", "macroexpand"),
    json=value_expressions.JSON_NBB,
    keeps_last=value_expressions.KEEPS_LAST_NBB,
    facts="{:root (js/process.cwd) :pid js/process.pid :namespace (str *ns*) :seam $seam}",
    ask={
        "names": symbol_expressions.NAMES_NBB,
        "glimpse": value_expressions.GLIMPSE_NBB,
        "macroexpand": "(pr-str ($expand (read-string $code)))",
        "test-unloaded": lisp_expressions.TEST_NBB_UNLOADED,
        "test": lisp_expressions.TEST_NBB,
        "test-rest": lisp_expressions.TEST_NBB_REST,
        "test-partial": lisp_expressions.TEST_NBB_PARTIAL,
    },
    before={"test": "(require 'cljs.test)"},
    namespace_by="ns",
    # Its op calls something that is no function.
    broken=frozenset({"macroexpand"}),
    unsafe_bytes=16_000,
    completes_within=True,
    load_moves_namespace=True,
    keeps_apart="none",
    notes=(
        "nbb cannot be interrupted, and an endless loop blocks it for every client: only a restart helps",
        "nbb has one namespace for all its clients",
    ),
)

SQUINT: Final = Dialect(
    "squint",
    counts_lines=False,
    json="(js/JSON.stringify %s)",
    facts="{:root (js/process.cwd) :pid js/process.pid}",
    ask={
        "test-unloaded": lisp_expressions.TEST_SQUINT_UNLOADED,
        "test": lisp_expressions.TEST_SQUINT,
        "test-rest": lisp_expressions.TEST_SQUINT_REST,
        "test-partial": lisp_expressions.TEST_SQUINT_PARTIAL,
        "complete-in": lisp_expressions.COMPLETE_IN_SQUINT,
    },
    before={"test": "(require '[clojure.test :as codriver-tests])"},
    confirm={"test": "(require '[clojure.test :as codriver-tests])"},
    namespace_by="none",
    unsafe_bytes=16_000,
    keeps_apart="none",
    notes=(
        "squint cannot be interrupted, and an endless loop blocks it for every client: only a restart helps",
        "squint prints to the output of its own process: what code prints is seen only when codriver started it",
    ),
)

BASILISP: Final = Dialect(
    "basilisp",
    columns_from_zero=True,
    expanders=("macroexpand-1", "macroexpand"),
    json='(.dumps (python/__import__ "json") (lisp->py %s))',
    python_text=True,
    facts='{:root (.getcwd (python/__import__ "os")) :pid (.getpid (python/__import__ "os")) :seam $seam}',
    ask={
        "lookup": symbol_expressions.LOOKUP_BASILISP,
        "names": symbol_expressions.NAMES_BASILISP,
        "source": symbol_expressions.SOURCE_BASILISP,
        "glimpse": value_expressions.GLIMPSE_BASILISP,
        "macroexpand": "(pr-str ($expand (read-string $code)))",
        "test": lisp_expressions.TEST_BASILISP,
        "test-partial": lisp_expressions.TEST_BASILISP_PARTIAL,
        "complete-in": lisp_expressions.COMPLETE_IN_BASILISP,
    },
    before={"test": "(require 'basilisp.test)"},
    namespace_by="in-ns",
    adapted={"stacktrace": "the traceback of the last failure"},
    sends_traceback=True,
    tooling=_PYTHON_TOOLING,
    load_moves_namespace=True,
    keeps_apart="connection",
    notes=("Basilisp's own server cannot interrupt; `codriver serve --repl lisp` runs Basilisp so that it can be",),
)

HY: Final = Dialect(
    "hy",
    counts_lines=False,
    home="Hy",
    json='(.dumps (__import__ "json") %s)',
    python_text=True,
    facts='{"root" (.getcwd (__import__ "os")) "pid" (.getpid (__import__ "os")) "seam" $seam}',
    ask={**python_tests.ASK_HY, "names": symbol_expressions.NAMES_HY, "glimpse": symbol_expressions.GLIMPSE_HY},
    runs_files=True,
    namespace_by="none",
    tooling=_PYTHON_TOOLING,
    send_gap_s=0.02,
    interrupts_reads=False,
    # Its op drops the beginning of the file.
    broken=frozenset({"load-file"}),
    adapted={"load-file": "eval", "stacktrace": "the traceback of the last failure"},
    sends_traceback=True,
    mends=hy_output.MENDS,
    keeps_apart="session",
    shares="imported modules are shared, names are not",
    # Source: hy-nrepl 1.0.4, `session.hy` and `ops/eval.hy`: the thread that evaluates knows its session.
    joins=(
        "(do (setv own (. (hy.I.threading.current-thread) session) shared (.get own.registry $main) "
        "own.module shared.module own.locals shared.locals) None)"
    ),
    notes=(
        "hy-nrepl serves one client at a time: another one waits until this one leaves",
        "hy-nrepl interrupts Python code between two instructions, not a call that blocks",
    ),
)

UNKNOWN: Final = Dialect("unknown")

WORKER_PYTHON: Final = Dialect(
    "python",
    takes_beginning=True,
    python_text=True,
    facts='__import__("json").dumps({"root": __import__("os").getcwd(), "pid": __import__("os").getpid()})',
    ask=python_tests.ASK,
    runs_files=True,
    adapted={"stacktrace": "the traceback of the last failure"},
    sends_traceback=True,
    tooling=_PYTHON_TOOLING,
    print_limits="[1, 2, 3]",
    answers_while_busy=True,
    keeps_apart="session",
    shares="shared names are read, and your own kept apart; modules, and objects changed in place, are shared",
    is_serial=True,
)

WORKER_LISP: Final = replace(
    BASILISP,
    ask={capability: code for capability, code in BASILISP.ask.items() if capability != "complete-in"},
    namespace_by="key",
    columns_from_zero=False,
    load_moves_namespace=False,
    print_limits="[1 2 3]",
    answers_while_busy=True,
    keeps_apart="session",
    is_serial=True,
    notes=(),
)
