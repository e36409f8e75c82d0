"""Expressions that tell what a REPL knows of its names where its server has no op for it.

Lists of names: `$name` is a namespace, or a pattern, whose regular expression is then in `$pattern`, in lower case;
else that is empty. `$ns` is where the question is asked. Each gives what `responses.read_names` reads.
"""

from __future__ import annotations

import json
from typing import Final

LOOKUP_CLOJURE: Final = """(let [n (or (find-ns (symbol $ns)) *ns*)
  v (try (ns-resolve n (symbol $name)) (catch Throwable _ nil)) m (meta v)]
 (when (var? v) {:name (str (:name m)) :ns (str (ns-name (:ns m))) :doc (:doc m)
  :arglists (map pr-str (:arglists m)) :file (:file m) :line (:line m) :column (:column m) :macro (:macro m)}))"""

COMPLETE_CLOJURE: Final = """(let [n (or (find-ns (symbol $ns)) *ns*) p $name
  at (.indexOf p "/") owner (when (pos? at) (subs p 0 at))
  home (when owner (or (get (ns-aliases n) (symbol owner)) (find-ns (symbol owner))))
  names (cond home (map (fn [[s v]] [(str owner "/" s) v]) (if (= home n) (ns-interns n) (ns-publics home)))
         owner [] :else (map (fn [[s v]] [(str s) v]) (ns-map n)))]
 (map (fn [[s v]] {:candidate s :type (cond (class? v) "class" (:macro (meta v)) "macro"
   (:arglists (meta v)) "function" :else "var")})
  (take 200 (sort-by first (filter (fn [[s _]] (.startsWith s p)) names)))))"""

LOOKUP_BASILISP: Final = """(let [v (ns-resolve (or (find-ns (symbol $ns)) *ns*) (symbol $name)) m (meta v)]
 (when v {:name (str (:name m)) :ns (str (:ns m)) :doc (:doc m) :arglists (map pr-str (:arglists m))
  :file (:file m) :line (:line m) :column (:col m) :macro (:macro m)}))"""

_NAMES: Final = """(let [here (find-ns (symbol $ns)) spaces (set (all-ns))
  re (when (seq $pattern) (re-pattern $pattern))
  line (fn [d] (re-find #"\\S[^\\n]*" (str d)))
  text (fn [s] LOWER)
  hit (fn [s] (re-matches re (text s)))
  row (fn [[n v]] (let [m (meta v)]
    {:name n :type (if (contains? spaces v) "namespace" (when (:macro m) "macro")) :doc (line (:doc m))
     :args (apply str (interpose " " (map pr-str (:arglists m))))}))
  rank (fn [n] (let [s (str (ns-name n))]
    (cond (= n here) 0 (re-find #"^(nrepl|cider|orchard|refactor-nrepl|shadow|leiningen)\\b" s) 3
      (re-find #"^(clojure|cljs|basilisp|nbb|sci)\\." s) 2 :else 1)))
  held (fn [n] (sort-by first (map (fn [[s v]] [(str s) v]) (if (= n here) (ns-interns n) (ns-publics n)))))
  within (fn [n] (let [own (str (ns-name n))]
    (concat (when (hit own) [[own n]])
     (filter (fn [[s _]] (hit (if (re-find #"/" $pattern) s (subs s (inc (count own))))))
      (map (fn [[s v]] [(str own "/" s) v]) (held n))))))
  home (when-not re (or (find-ns (symbol $name)) (when here (get (ns-aliases here) (symbol $name)))))
  found (cond re (mapcat within (sort-by (fn [n] (str (rank n) " " (ns-name n))) (all-ns)))
         home (sort-by first (map (fn [[s v]] [(str s) v]) (ns-publics home))))]
 (if (or re home) {:rows (map row (take 50 found)) :omitted (max 0 (- (count found) 50))} {}))"""

NAMES_CLOJURE: Final = _NAMES.replace("LOWER", "(.toLowerCase ^String s)")
NAMES_NBB: Final = _NAMES.replace("LOWER", "(.toLowerCase s)")
NAMES_BASILISP: Final = _NAMES.replace("LOWER", "(.lower s)")

SOURCE_CLOJURE: Final = """(let [v (try (ns-resolve (or (find-ns (symbol $ns)) *ns*) (symbol $name))
   (catch Throwable _ nil))
  m (meta v) file (:file m) plain (when file (clojure.java.io/file file))
  from (when (and file (:line m)) (or (when-not (.isAbsolute ^java.io.File plain) (clojure.java.io/resource file))
    (when (.isFile ^java.io.File plain) plain)))]
 (if from (with-open [r (clojure.java.io/reader from)]
   {:text (apply str (interpose "\n" (take 2000 (drop (dec (:line m)) (line-seq r)))))
    :file file :line (:line m)}) {}))"""
"""From the file that the var names, also in a jar: the text from its line on."""

SOURCE_BASILISP: Final = """(let [v (ns-resolve (or (find-ns (symbol $ns)) *ns*) (symbol $name)) m (meta v)
  lines (when (and (:file m) (:line m)) (.getlines (python/__import__ "linecache") (:file m)))
  from (when (seq lines) (take 2000 (drop (dec (:line m)) lines)))]
 (if (seq from) {:text (apply str from) :file (:file m) :line (:line m)} {}))"""

_PYTHON: Final = """
import gc, inspect, re, sys

def line(value):
    doc = value.__doc__ if isinstance(value, (type, type(sys), type(len), type(line))) else ""
    return next((one.strip() for one in (doc or "").splitlines() if one.strip()), "")

def row(name, value):
    kind = "class" if isinstance(value, type) else "module" if isinstance(value, type(sys)) else ""
    try:
        parameters = inspect.signature(value).parameters.values() if callable(value) else None
        args = "(" + ", ".join(one.name for one in parameters) + ")" if parameters is not None else ""
    except (TypeError, ValueError):
        args = ""
    return {"name": name, "type": kind, "args": args, "doc": line(value)}

def own(module):
    for name, value in sorted(vars(module).items(), key=lambda one: str(one[0])):
        home = getattr(value, "__module__", None) if isinstance(value, (type, type(line))) else module.__name__
        if not name.startswith("_") and not isinstance(value, type(sys)) and home == module.__name__:
            yield name, value

def home_of(session):
    own_modules = [one for one in gc.get_objects() if type(one) is type(sys)] if session else []
    return next((one for one in own_modules if vars(one).get("__name__") == "hy-nrepl-session-" + session), None)

def in_line(value, levels):
    kind = type(value)
    if kind in (str, bytes) and len(value) > 60:
        return "<%s of %d>" % (kind.__name__, len(value))
    if kind is int and value.bit_length() > 200:
        return "<int of %d bits>" % value.bit_length()
    if kind in (str, bytes, int, float, complex, bool, type(None)):
        return repr(value)
    if kind not in (list, tuple, dict, set, frozenset) or not levels:
        return "<%s>" % kind.__qualname__
    before, after = {list: "[]", tuple: "()", dict: "{}"}.get(kind, "{}")
    shown = list(value)[:10]
    parts = [in_line(one, levels - 1) for one in shown]
    if kind is dict:
        parts = [part + ": " + in_line(value[one], levels - 1) for part, one in zip(parts, shown)]
    return before + ", ".join(parts + ["..."] * (len(value) > 10)) + after

def glimpse(name, session):
    import hy
    home, _, last = name.rpartition(".")
    module = sys.modules.get(hy.mangle(home)) if home else home_of(session)
    missing = object()
    value = vars(module).get(hy.mangle(last), missing) if module else missing
    if value is missing or isinstance(value, (type, type(sys), type(len), type(line))):
        return {}
    kind = type(value)
    is_plain = kind.__module__ == "builtins" or kind.__module__.startswith("hy-nrepl-session-")
    full = kind.__qualname__ if is_plain else kind.__module__ + "." + kind.__qualname__
    counted = kind in (list, tuple, dict, set, frozenset)
    return {"class": full, "value": in_line(value, 3), **({"count": str(len(value))} if counted else {})}

def answer(name, pattern, session):
    pattern = pattern.replace('\\\\-', '_')
    here = home_of(session)
    if not pattern:
        name = name.replace("-", "_")
        module = here if name in ("Hy", "__main__") else sys.modules.get(name)
        if module is None:
            return {}
        found = [row(name, value) for name, value in own(module)]
    else:
        hit = re.compile(pattern).fullmatch
        found = []
        modules = [one for one in sorted(sys.modules.items()) if isinstance(one[1], type(sys))]
        for home, module in [("", here), *modules] if here else modules:
            found += [row(home, module)] if home and home[0] != "_" and hit(home.lower()) else []
            for name, value in own(module) if home[:1] != "_" else ():
                full = name if home in ("", "builtins") else home + "." + name
                if hit((full if "." in pattern.replace(".*", "") else name).lower()):
                    found.append(row(full, value))
    return {"rows": found[:50], "omitted": max(0, len(found) - 50)}
"""


def _by_python(call: str) -> str:
    """Hy that runs the code above in a namespace of its own, and gives what a function of it gives."""
    space = '{"__name__" "names"}'
    return f"((fn [space] (exec {json.dumps(_PYTHON)} space) {call}) {space})"


NAMES_HY: Final = _by_python('((get space "answer") $name $pattern $session)')
GLIMPSE_HY: Final = _by_python('((get space "glimpse") $name $session)')
"""By Python: Hy's names are Python's. `$session` is the id of the session whose definitions count too."""
