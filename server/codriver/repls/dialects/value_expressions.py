"""Expressions about the last values and the last error of a session, and a glimpse of what a var holds.

Two keep the last value where printing cut it, and tell parts of it later.
For REPLs that keep no values by themselves. The one names the value by an evaluation and a number, of which the newest
eight stay, and gives the count of what can be counted without being realised. The other walks a path, whose steps are
pairs: `i` and a place, or `k` and a key as text or as it is printed. It gives the part as text, from `$from` on.

A glimpse of a var's value is its class, its count, and the value in one line: nothing is asked of the user's classes,
and no lazy sequence is realised.
"""

from __future__ import annotations

from typing import Final

SESSION_CLOJURE: Final = """(get @@(or (resolve 'nrepl.middleware.session/sessions)
                   (resolve 'clojure.tools.nrepl.middleware.session/sessions)) $session)"""
"""The bindings of an nREPL session, in an atom."""

PRINTER_CLOJURE: Final = """(let [^ThreadLocal base (ThreadLocal.)
 function (resolve 'nrepl.middleware.print/*print-fn*) quota (resolve 'nrepl.middleware.print/*quota*)
 unlink (fn [] (let [t (Thread/currentThread) l (.getContextClassLoader t) below (.get base)]
  (if (and below (= clojure.lang.DynamicClassLoader (class l)) (identical? below (.getParent l))
           (empty? (.getURLs ^java.net.URLClassLoader l)))
   (.setContextClassLoader t below)
   (.set base l))))
 write (fn [value ^java.io.Writer writer length level unlinks?]
  (binding [*print-length* length *print-level* level]
   (if *print-dup* (print-dup value writer) (print-method value writer)))
  (when unlinks? (unlink)))
 usual? (fn [f] (or (:codriver/print (meta f)) (identical? f (.getRawRoot ^clojure.lang.Var function))))]
 (intern (create-ns 'codriver.kept) 'print
  (fn [value writer {length :default-length level :default-level :as options}]
   (let [unlinks? (not (:keep-loaders options))]
    (when (and (:for-session options) function (thread-bound? function quota))
     (var-set quota (:quota options))
     (when (usual? @function)
      (var-set function (with-meta
       (fn [v w] (write v w (or *print-length* length) (or *print-level* level) unlinks?)) {:codriver/print true}))))
    (write value writer (or (:print-length options) *print-length* length)
     (or (:print-level options) *print-level* level) unlinks?))))
 nil)"""
"""As `nrepl.util.print/pr`, except that what the user has set wins over our defaults.

With `for-session` the session goes on so, within `quota` characters, where a request says nothing of printing: the
names are read and resolved but once. A function that the user has set for the session stays, within the quota.

It runs at the end of an evaluation on the session's own thread, where nREPL before 1.3 has left a class loader behind,
the child of the one before. That one is unlinked if nothing was added to it: each loader between is asked for every
class that the next evaluation needs, which takes 0.2 ms where there are a hundred. With `keep-loaders` all stay: code
that has got hold of one may add to it later. Source of the check: nREPL's pull request 327.
"""

FILE_EVALUATOR_CLOJURE: Final = """(when-let [n (or (find-ns 'nrepl.middleware.interruptible-eval)
                 (find-ns 'clojure.tools.nrepl.middleware.interruptible-eval))]
 (intern n 'codriver-eval-in-file
  (binding [*ns* n]
   (eval '(clojure.core/fn [form]
    (clojure.core/binding [clojure.core/*source-path* (.getName (java.io.File. (clojure.core/str clojure.core/*file*)))]
     (clojure.core/eval form))))))
 (str n "/codriver-eval-in-file"))"""
"""Gives the name of a function as `eval` is, but that what it compiles bears the request's file in stack traces.

nREPL binds `*file*` alone, from which come `:file` of a var and the place of a compiler's error. The compiler writes
the other name into each class. Source: `clojure.lang.Compiler`, `SOURCE` and `SOURCE_PATH`. The function is in the
namespace in which nREPL looks for it, as without it no request would end; its own frame is the tooling's there.
"""

STACKTRACE_CLOJURE: Final = (
    f"(when-let [^Throwable e (get @{SESSION_CLOJURE} #'clojure.core/*e)]"
    """
 {:links (map (fn [^Throwable t] {:type (.getName (class t)) :message (str (.getMessage t))
   :data (when-let [d (ex-data t)] (binding [*print-length* 50 *print-level* 5]
     (let [s (pr-str d)] (subs s 0 (min 4000 (count s))))))
   :frames (map (fn [^StackTraceElement f] {:class (.getClassName f) :method (.getMethodName f)
     :file (.getFileName f) :line (.getLineNumber f)}) (take 1100 (.getStackTrace t)))})
  (take-last 10 (take 1000 (take-while some? (iterate (fn [^Throwable t] (.getCause t)) e)))))})"""
)

KEEPS_LAST_NBB: Final = """(let [[a b c e] [*1 *2 *3 *e]
  restore (fn [] (doseq [[v x] [[#'*1 a] [#'*2 b] [#'*3 c] [#'*e e]]] (alter-var-root v (constantly x))))]
 (intern (create-ns 'codriver.kept) 'restore restore)
 (js/setImmediate restore)
 nil)
"""
"""nbb has one `*1` for all its clients, and sets it when a form is over. It is put back before a request that comes
behind the answer is read: Node runs `setImmediate` at the end of the turn in which it reads."""

JSON_NBB: Final = """(let [said (js/JSON.stringify (clj->js %s))]
 (js/setImmediate @(resolve 'codriver.kept/restore))
 said)"""
"""Puts back once more, as a namespace that is required for the first time is awaited over several turns."""

KEEP_CLOJURE: Final = f"""(let [v (get @{SESSION_CLOJURE} #'clojure.core/*1)
  known (ns-resolve (create-ns 'codriver.kept) 'values)
  kept (if known @known @(intern 'codriver.kept 'values (atom [])))]
 (swap! kept (fn [rows] (vec (take-last 8 (conj rows [$evaluation $number v])))))
 {{:count (when (counted? v) (count v))
   :length (get @{SESSION_CLOJURE} #'*print-length*) :level (get @{SESSION_CLOJURE} #'*print-level*)}})"""

KEPT_CLOJURE: Final = """(let [known (ns-resolve (create-ns 'codriver.kept) 'values)
  rows (when known (filter (fn [[e n]] (and (= e $evaluation) (or (= "" $number) (= n $number)))) @@known))
  step (fn [v [kind t]]
   (let [place (when (= kind "i") (Long/parseLong t))
         fail (fn [] (throw (ex-info "no" {:codriver/step t :codriver/in (.getSimpleName (class v))})))]
    (cond
     (map? v) (if-let [e (first (filter (fn [[k _]] (or (= k place) (= k t) (= t (pr-str k)))) v))] (val e) (fail))
     (and place (or (sequential? v) (set? v) (and v (.isArray (class v)))))
      (let [part (nth (seq v) place ::none)] (if (= part ::none) (fail) part))
     :else (fail))))]
 (if (empty? rows)
  {:missing "it is not kept: the REPL keeps the 8 newest values that were cut"}
  (try
   (let [v (reduce step (nth (last rows) 2) $path)
         from (Long/parseLong $from)
         shown (if (pos? from) (drop from v) v)
         text (binding [*print-length* (when (seq $length) (Long/parseLong $length))
                        *print-level* (when (seq $depth) (Long/parseLong $depth))] (pr-str shown))]
    {:text (if (seq $quota) (subs text 0 (min (count text) (Long/parseLong $quota))) text)
     :size (count text) :count (when (counted? v) (count v))})
   (catch clojure.lang.ExceptionInfo e
    (if-let [at (:codriver/step (ex-data e))]
     {:missing (str "the step " at " of the path is not in the " (:codriver/in (ex-data e)) " there")}
     (throw e))))))"""

_GLIMPSE: Final = """(let [n (or (find-ns (symbol $ns)) *ns*) v RESOLVED]
 (when (and v (not (fn? @v)))
  (let [x @v
        known? (fn [x] KNOWN)
        line (fn line [x levels]
         (cond
          (or (nil? x) (number? x) (keyword? x) (symbol? x) (true? x) (false? x)) (pr-str x)
          (string? x) (if (< 60 (count x)) (str "<String of " (count x) ">") (pr-str x))
          (and (pos? levels) (known? x))
           (let [[before after] (cond (map? x) ["{" "}"] (set? x) ["#{" "}"] (vector? x) ["[" "]"] :else ["(" ")"])
                 one (fn [e] (line e (dec levels)))
                 parts (map (if (map? x) (fn [[k e]] (str (one k) " " (one e))) one) (take 10 x))]
            (str before (apply str (interpose " " (if (< 10 (count x)) (concat parts ["..."]) parts))) after))
          :else (str "<" CLASS ">")))]
   {:class (if (nil? x) "nil" CLASS) :count (when (known? x) (str (count x))) :value (line x 3)})))"""
"""Of a dialect: how the var is found, which collections are the language's own and counted, the name of a class."""


def _glimpse(resolved: str, known: str, kind: str) -> str:
    return _GLIMPSE.replace("RESOLVED", resolved).replace("KNOWN", known).replace("CLASS", kind)


GLIMPSE_CLOJURE: Final = _glimpse(
    "(let [v (try (ns-resolve n (symbol $name)) (catch Throwable _ nil))] (when (and (var? v) (bound? v)) v))",
    '(and (coll? x) (counted? x) (.startsWith (.getName (class x)) "clojure.lang."))',
    "(.getName (class x))",
)
# Its names of classes are those that a minifier gave, except those of JavaScript itself.
GLIMPSE_NBB: Final = _glimpse(
    "(ns-resolve n (symbol $name))",
    "(and (not (record? x)) (or (map? x) (vector? x) (set? x) (list? x)))",
    """(cond (record? x) "record" (map? x) "map" (vector? x) "vector" (set? x) "set" (list? x) "list" (seq? x) "seq"
        (keyword? x) "keyword" (symbol? x) "symbol" :else (.slice (.call js/Object.prototype.toString x) 8 -1))""",
)
GLIMPSE_BASILISP: Final = _glimpse(
    "(ns-resolve n (symbol $name))",
    """(and (or (map? x) (vector? x) (set? x) (list? x))
         (.startswith (.-__module__ (python/type x)) "basilisp.lang."))""",
    """(let [t (python/type x) m (.-__module__ t)]
        (if (= m "builtins") (.-__qualname__ t) (str m "." (.-__qualname__ t))))""",
)
