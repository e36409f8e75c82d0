"""Expressions in the Lisps that servers have no op for: tests run, and names completed within their namespace.

Tests: `$ns` and `$name` are string literals, `$spaces` the namespaces to run where there are several, `$files` those to
load before, each with its file (JavaScript's are loaded by the server's op: a first expression tells which are not
yet); `$words` and `$only` choose, as `python_tests` says. Each expression gives what
`codriver.repls.nrepl.responses.tests_of` reads. What JavaScript runs may end later than its expression, which then
gives `pending` and keeps the run in a property of the global object: another one gives what became of it. A third gives
the part that was over when a run was interrupted.

Completion, for servers whose own op leaves some names out or makes some up: `$owner` is what stands before the slash,
an alias or a namespace; `$name` how the name begins, which may be empty. One that gives nil, not an empty list, leaves
the answer to the op.
"""

from __future__ import annotations

import json
import re
from typing import Final

_MEANT: Final = """meant? (fn [n t] (let [text (LOWER (str n "/" t))]
   (and (or (empty? $words) (some (fn [every] (every? (fn [w] (if (= "!" (subs w 0 1))
           (not (has? text (subs w 1))) (has? text w))) every)) $words))
        (or (empty? $only) (some (fn [one] (and (= n (first one)) (= t (second one)))) $only)))))"""
_MEANT_ON_THE_JVM: Final = "has? (fn [^String a ^String b] (.contains a b))\n  " + _MEANT.replace(
    "LOWER", ".toLowerCase"
)
_MEANT_IN_JAVASCRIPT: Final = "has? (fn [a b] (.includes a b))\n  " + _MEANT.replace("LOWER", ".toLowerCase")
_MEANT_IN_PYTHON: Final = "has? (fn [a b] (not= -1 (.find a b)))\n  " + _MEANT.replace("LOWER", ".lower")

TEST_CLOJURE: Final = """(if (and (seq $ns) (empty? $files) (not (find-ns (symbol $ns)))
  (try (require (symbol $ns)) false (catch java.io.FileNotFoundException _ true)))
 {:missing true}
 (let [results (atom []) seen (atom #{}) now (atom nil) times (atom [])
  _ (intern (create-ns 'codriver.tests) 'run {:results results :seen seen :now now :times times})
  on-path? (fn [^String n ^String f] (clojure.java.io/resource
             (str (-> n (.replace "-" "_") (.replace "." "/")) (subs f (.lastIndexOf f ".")))))
  _ (doseq [[n f] $files :when (not (find-ns (symbol n)))]
     (try (binding [*ns* *ns*] (if (on-path? n f) (require (symbol n)) (load-file f)))
      (catch Throwable e (swap! results conj {:test "(load)" :ns n :outcome "error" :file f
        :actual (apply str (interpose ": " (map (fn [^Throwable t] (.getMessage t))
          (take-while some? (iterate (fn [^Throwable t] (when t (.getCause t))) e)))))}))))
  $meant
  home (when (seq $ns) (find-ns (symbol $ns)))
  spaces (cond home [home] (seq $ns) [] (seq $spaces) (keep (comp find-ns symbol) $spaces) :else (all-ns))
  tests (if (and home (seq $name)) [(or (ns-resolve home (symbol $name))
      (throw (ex-info (str "there is no test " $name " in " $ns) {})))]
    (filter (fn [v] (meant? (str (ns-name (:ns (meta v)))) (str (:name (meta v)))))
     (filter (comp :test meta) (mapcat (comp vals ns-interns) spaces))))
  path (fn [f] (if-let [u (when (and f (not (.startsWith f "/"))) (clojure.java.io/resource f))]
    (if (= "file" (.getProtocol u)) (str (clojure.java.io/as-file u)) (str u)) f))
  frames (fn [^Throwable e] (let [root (last (take-while some? (iterate (fn [^Throwable t] (when t (.getCause t))) e)))]
    (map (fn [^StackTraceElement f] {:class (.getClassName f) :method (.getMethodName f)
      :file (.getFileName f) :line (.getLineNumber f)})
     (take-while (fn [^StackTraceElement f] (not (.startsWith (.getClassName f) "clojure.test$")))
      (take 40 (.getStackTrace ^Throwable root))))))
  ends? (fn [f base] (and f (or (= f base) (.endsWith f (str "/" base)))))
  place (fn [base own] (path (cond (or (nil? base) (.contains base "/")) base (ends? own base) own
    :else (let [files (distinct (filter #(ends? % base)
                (keep (comp :file meta) (mapcat (comp vals ns-interns) (all-ns)))))]
            (if (= 1 (count files)) (first files) base)))))
  report (fn [m] (let [v (first clojure.test/*testing-vars*) vm (meta v)]
    (when (= :begin-test-var (:type m)) (swap! seen conj (:var m)) (reset! now {:var (:var m) :at (System/nanoTime)}))
    (when (= :end-test-var (:type m)) (swap! times conj
      [(str (ns-name (:ns (meta (:var m))))) (str (:name (meta (:var m)))) (/ (- (System/nanoTime) (:at @now)) 1e9)]))
    (when (and (= :error (:type m)) (instance? InterruptedException (:actual m)))
     ; an interrupt ends the whole run, not only the test that waits
     (swap! now assoc :frames (frames (:actual m))) (throw (:actual m)))
    (when (#{:pass :fail :error} (:type m))
     (swap! results conj {:test (str (:name vm)) :ns (str (some-> (:ns vm) ns-name)) :outcome (name (:type m))
      :message (let [c (apply str (interpose " " (reverse clojure.test/*testing-contexts*)))
                     s (str c (when (and (seq c) (:message m)) ": ") (:message m))] (when (seq s) s))
      :expected (when (not= :pass (:type m)) (pr-str (:expected m)))
      :actual (when (not= :pass (:type m)) (let [a (:actual m)] (if (instance? Throwable a)
         (str (.getName (class a)) ": " (.getMessage ^Throwable a)) (pr-str a))))
      :frames (when (instance? Throwable (:actual m)) (frames (:actual m)))
      :file (place (:file m) (:file vm)) :line (:line m) :var-file (path (:file vm)) :var-line (:line vm)}))))]
  (binding [clojure.test/report report clojure.test/*test-out* *out*]
   (doseq [[n vs] (group-by (comp :ns meta) tests)] (clojure.test/test-vars vs)))
  {:tests (count @seen) :times (take 20000 @times)
   :results (take 2000 (sort-by (comp {"error" 0 "fail" 1 "pass" 2} :outcome) @results))}))""".replace(
    "$meant", _MEANT_ON_THE_JVM
)
TEST_CLOJURE_PARTIAL: Final = """(let [run @(resolve 'codriver.tests/run) now @(:now run) v (:var now) m (meta v)]
 {:tests (- (count @(:seen run)) (if v 1 0)) :times (take 20000 @(:times run))
  :results (take 2000 (sort-by (comp {"error" 0 "fail" 1 "pass" 2} :outcome)
   (remove (fn [row] (and v (= [(str (ns-name (:ns m))) (str (:name m))] [(:ns row) (:test row)]))) @(:results run))))
  :stopped (when v {:test (str (:name m)) :ns (str (ns-name (:ns m))) :outcome "error" :file (:file m)
                    :line (:line m) :frames (:frames now)})})"""
"""A failure is reported with the base name of its file alone; its path is that of a var with such a file."""

TEST_BASILISP: Final = """(if (and (seq $ns) (empty? $files) (not (find-ns (symbol $ns)))
  (try (require (symbol $ns)) false
   (catch python/ImportError e
    (or (.startswith (str (munge $ns) ".") (str (python/getattr (or (.-__cause__ e) e) "name" nil) "."))
     (throw e)))))
 {:missing true}
 (let [is-test (fn [v] (:basilisp.test/test (meta v)))
  unread (vec (mapcat (fn [[n f]] (when-not (find-ns (symbol n))
     (try (binding [*ns* *ns*] (try (require (symbol n)) (catch python/ImportError e
        (if (= -1 (.find (python/str e) (str "'" n "'"))) (throw e) (load-file f))))) nil
      (catch python/Exception e [{:test "(load)" :ns n :outcome "error" :file f :actual (python/repr e)}])))) $files))
  $meant
  home (when (seq $ns) (find-ns (symbol $ns)))
  spaces (cond home [home] (seq $ns) [] (seq $spaces) (keep (comp find-ns symbol) $spaces) :else (all-ns))
  tests (if (and home (seq $name))
    [(or (get (ns-interns home) (symbol $name))
       (throw (ex-info (str "there is no test " $name " in " $ns) {})))]
    (filter (fn [v] (and (is-test v) (meant? (str (:ns (meta v))) (name (:name (meta v))))))
     (mapcat (comp vals ns-interns) spaces)))
  frames (fn [e] (vec (take 40 (reverse (map (fn [f] {:file (.-filename f) :line (.-lineno f) :function (.-name f)})
    (.extract_tb (python/__import__ "traceback") (.-__traceback__ e)))))))
  place (fn [v] {:test (name (:name (meta v))) :ns (str (:ns (meta v))) :file (:file (meta v)) :line (:line (meta v))})
  text (fn [x] (when (some? x) (pr-str x)))
  told (fn [v f] (merge (place v) {:outcome (if (= :error (:type f)) "error" "fail")
    :context (:test-section f) :message (:message f) :expected (text (:expected f)) :actual (text (:actual f))
    :frames (when (instance? python/BaseException (:actual f)) (frames (:actual f)))
    :line (or (:line f) (:line (meta v)))}))
  results (atom unread)
  times (atom []) clock (.-perf_counter (python/__import__ "time"))
  state (atom {:results results :times times})
  _ (python/setattr (python/__import__ "sys") "codriver_tests" state)
  run (fn [v] (try
     (let [failures (:failures (v))]
      (if (seq failures) (map (fn [f] (told v f)) failures) [(assoc (place v) :outcome "pass")]))
     (catch python/Exception e [(assoc (place v) :outcome "error" :actual (python/repr e) :frames (frames e))])
     (catch python/KeyboardInterrupt e
       (swap! state assoc :stopped (assoc (place v) :outcome "error" :frames (frames e))) (throw e))))
  run-ns (fn [n vs] (let [once (basilisp.test/join-fixtures (:basilisp.test/once-fixtures (meta n)))
      each (basilisp.test/join-fixtures (:basilisp.test/each-fixtures (meta n)))]
    (basilisp.test/with-fixtures [once]
     (doseq [v vs] (basilisp.test/with-fixtures [each] (let [at (clock)]
        (swap! results into (run v)) (swap! times conj [(str n) (name (:name (meta v))) (- (clock) at)])))))))]
  (doseq [[n vs] (group-by (fn [v] (the-ns (:ns (meta v)))) tests)] (run-ns n vs))
  {:tests (count tests) :results @results :times @times}))""".replace("$meant", _MEANT_IN_PYTHON)

TEST_BASILISP_PARTIAL: Final = """(let [state @(.-codriver-tests (python/__import__ "sys")) results @(:results state)]
 {:tests (count (set (map (fn [row] [(:ns row) (:test row)]) results))) :results results :times @(:times state)
  :stopped (:stopped state)})"""

TEST_NBB_UNLOADED: Final = "(vec (keep (fn [[n _]] (when-not (find-ns (symbol n)) n)) $files))"
TEST_NBB: Final = """(let [home (when (seq $ns) (find-ns (symbol $ns)))]
 (if (and (seq $ns) (nil? home))
  {:missing true}
  (let [state (atom {:results [] :times [] :seen #{} :done false})
   $meant
   vars (if (seq $name)
    [(or (when home (get (ns-interns home) (symbol $name)))
         (throw (js/Error. (str "there is no test " $name " in " $ns))))]
    (sort-by (comp :line meta)
      (filter (fn [v] (meant? (str (ns-name (:ns (meta v)))) (str (:name (meta v)))))
       (filter (comp :test meta) (mapcat (comp vals ns-interns)
        (cond home [home] (seq $spaces) (keep (comp find-ns symbol) $spaces) :else (all-ns)))))))
   place (fn [v] {:test (str (:name (meta v))) :ns (str (ns-name (:ns (meta v)))) :file (:file (meta v))
                  :line (:line (meta v))})
   told (fn [m] (let [{[v] :testing-vars contexts :testing-contexts} (cljs.test/get-current-env) e (:actual m)]
     (merge (when v (place v))
      {:outcome (name (:type m)) :context (apply str (interpose " " (reverse contexts))) :message (:message m)}
      (when (not= :pass (:type m))
       {:expected (when (some? (:expected m)) (pr-str (:expected m)))
        :actual (if (instance? js/Error e) (str (.-name e) ": " (ex-message e)) (pr-str e))})
      (when-let [l (or (:line m) (:line (ex-data e)))] {:line l}))))]
   (doseq [kind [:begin-run-tests :end-run-tests :begin-test-ns :end-test-ns :begin-test-all-vars :end-test-all-vars
                 :begin-test-vars :end-test-vars :begin-test-var :end-test-var :summary :pass :fail :error]]
    (defmethod cljs.test/report [:codriver kind] [m]
     (when-let [now (.-codriverTests js/globalThis)]
      (when (= kind :begin-test-var) (swap! now update :seen conj (:var m))
       (swap! now assoc :now (:var m) :at (js/performance.now)))
      (when (= kind :end-test-var) (let [{n :ns t :name} (meta (:var m))]
       (swap! now assoc :now nil)
       (swap! now update :times conj [(str (ns-name n)) (str t) (/ (- (js/performance.now) (:at @now)) 1e3)])))
      (when (#{:pass :fail :error} kind) (swap! now update :results conj (told m))))))
   (set! (.-codriverTests js/globalThis) state)
   (cljs.test/set-env! (reduce (fn [env n] (reduce (fn [env [k s]]
       (if-let [v (get (ns-interns n) s)] (assoc-in env [k (ns-name n)] @v) env)) env
      [[:once-fixtures 'cljs-test-once-fixtures] [:each-fixtures 'cljs-test-each-fixtures]]))
     (cljs.test/empty-env :codriver) (distinct (map (comp :ns meta) vars))))
   (cljs.test/run-block (concat (cljs.test/test-vars-block vars) [(fn [] (swap! state assoc :done true))]))
   {:pending true})))""".replace("$meant", _MEANT_IN_JAVASCRIPT)

TEST_NBB_REST: Final = """(let [now @(.-codriverTests js/globalThis)]
 (if (:done now)
  {:tests (count (:seen now)) :times (take 20000 (:times now))
   :results (take 2000 (sort-by (comp {"error" 0 "fail" 1 "pass" 2} :outcome) (:results now)))}
  {:pending true}))"""

TEST_NBB_PARTIAL: Final = """(let [now @(.-codriverTests js/globalThis) v (:now now)]
 {:tests (count (disj (:seen now) v)) :times (take 20000 (:times now))
  :results (take 2000 (sort-by (comp {"error" 0 "fail" 1 "pass" 2} :outcome) (:results now)))
  :stopped (when v {:test (str (:name (meta v))) :ns (str (ns-name (:ns (meta v)))) :file (:file (meta v))
                    :line (:line (meta v)) :outcome "error"})})"""

TEST_SQUINT_UNLOADED: Final = """(mapv first
 (filterv (fn [one] (empty? (codriver-tests/registered-tests (first one)))) $files))"""
TEST_SQUINT: Final = """(let [within (fn [o k] (when (some? o) (aget o k)))
  home (reduce within js/globalThis (.split (.replaceAll $ns "-" "_") "."))
  known (if (= "" $ns) (codriver-tests/registered-tests) (codriver-tests/registered-tests $ns))
  $meant
  listed (filterv (fn [t] (or (empty? $spaces) (some (fn [n] (= n (:ns (meta t)))) $spaces))) known)
  chosen (filterv (fn [t] (if (= "" $name) (meant? (:ns (meta t)) (:name (meta t))) (= $name (:name (meta t))))) listed)
  state {:done false :results [] :times [] :tests 0 :test nil}
  ended (fn [_] (set! codriver-tests/*current-reporter* "cljs.test/default") (aset state "done" true))]
 (cond
  (and (not= "" $ns) (nil? home)) {:missing true}
  (and (not= "" $name) (empty? chosen)) (throw (js/Error. (str "there is no test " $name " in " $ns)))
  (empty? chosen) {:tests 0 :results []}
  :else (do
   (doseq [kind ["pass" "fail" "error" "begin-test-var" "end-test-var" "begin-test-ns" "end-test-ns" "summary"]]
    (defmethod codriver-tests/report ["codriver" kind] [m]
     (let [now (aget js/globalThis "codriverTests") e (:actual m)]
      (when (= kind "begin-test-var")
       (aset now "tests" (inc (:tests now)))
       (aset now "test" m) (aset now "at" (js/performance.now)))
      (when (and (= "end-test-var" kind) (some? (:test now)))
       (.push (:times now) [(:ns (:test now)) (:name (:test now)) (/ (- (js/performance.now) (:at now)) 1000)]))
      (when (contains? #{"pass" "fail" "error"} kind)
       (.push (:results now)
        {:test (:name (:test now)) :ns (:ns (:test now)) :outcome kind :line (:line m)
         :context (codriver-tests/testing-contexts-str) :message (when (not= "error" kind) (:message m))
         :expected (when (= "fail" kind) (pr-str (:expected m)))
         :actual (cond (= "pass" kind) nil (instance? js/Error e) (str (.-name e) ": " (.-message e))
                  :else (pr-str e))})))))
   (aset js/globalThis "codriverTests" state)
   (set! codriver-tests/*current-reporter* "codriver")
   (try
    (let [run (apply codriver-tests/run-tests chosen)]
     (if (instance? js/Promise run) (.then run ended ended) (ended nil)))
    (catch :default e (ended nil) (throw e)))
   {:pending true})))""".replace("$meant", _MEANT_IN_JAVASCRIPT)
"""Of squint's `clojure.test`, which newer versions of it bring along."""

TEST_SQUINT_PARTIAL: Final = """(let [now (aget js/globalThis "codriverTests") t (:test now)]
 {:tests (dec (:tests now)) :times (:times now) :results (vec (take 2000 (:results now)))
  :stopped (when (some? t) {:test (:name t) :ns (:ns t) :outcome "error"})})"""

TEST_SQUINT_REST: Final = """(let [now (aget js/globalThis "codriverTests")]
 (if (:done now) {:tests (:tests now) :times (:times now) :results (vec (take 2000 (sort-by
   (fn [row] (cond (= "error" (:outcome row)) 0 (= "fail" (:outcome row)) 1 :else 2)) (:results now))))}
  {:pending true}))"""


COMPLETE_IN_BASILISP: Final = """(let [here (or (find-ns (symbol $ns)) *ns*) owner (symbol $owner)
  home (or (get (ns-aliases here) owner) (find-ns owner))
  module (if (= "python" $owner) (python/__import__ "builtins")
            (get (.-imports here) (or (get (.-import-aliases here) owner) owner)))
  row (fn [s kind] {:candidate (str $owner "/" s) :type kind})]
 (take 500 (sort-by :candidate (cond
  home (map (fn [[s v]] (let [kind (cond (:macro (meta v)) "macro" (:arglists (meta v)) "function" :else "var")]
          (assoc (row (name s) kind) :ns (str home))))
        (filter (fn [[s _]] (.startswith (name s) $name)) (if (= home here) (ns-interns home) (ns-publics home))))
  module (map (fn [[s v]] (row s (if (python/callable v) "function" "var")))
          (filter (fn [[s _]] (and (.startswith s $name) (or (.startswith $name "_") (not (.startswith s "_")))))
                  (python/list (.items (python/vars module)))))
  :else []))))"""
"""Its op takes an alias for every longer one that begins with it, and knows a namespace only where it has an alias."""

_OBJECTS_OF_SQUINT: Final = """within (fn [o k] (when (some? o) (aget o k)))
  munged (fn [s] (.replaceAll s "-" "_"))
  home (fn [s] (reduce within js/globalThis (.split (munged s) ".")))
  plain (fn [s] (if (re-matches #"[A-Z0-9_]+" s) s
    (reduce (fn [s [from to]] (.replaceAll s from to)) s
     [["_BANG_" "!"] ["_QMARK_" "?"] ["_STAR_" "*"] ["_GT_" ">"] ["_LT_" "<"] ["_EQ_" "="] ["_PLUS_" "+"]
      ["_" "-"]])))"""
"""Its namespaces are objects below the global one, under the names of JavaScript, as what they define is."""

COMPLETE_IN_SQUINT: Final = f"""(let [{_OBJECTS_OF_SQUINT}
  owner (or (within (home $ns) (.replaceAll (munged $owner) "." "_DOT_")) (home $owner))]
 (if (nil? owner) nil
  (vec (take 500 (map (fn [[s v]] {{:candidate (str $owner "/" s) :type (if (fn? v) "function" "var")}})
   (sort-by first (filter (fn [[s _]] (.startsWith s $name)) (map (fn [k] [(plain k) (aget owner k)])
    (js/Object.keys owner)))))))))"""
"""Its op knows the names of the current namespace alone. The objects hold what they require too."""

_REMOVE = """(let [n (find-ns (symbol $ns)) s (symbol $name) v (when n (get (ns-map n) s))]
 (when (and (var? v) (= $home (str (:ns (meta v))))) (ns-unmap n s)))"""
# Basilisp's own takes out what is defined there, and leaves what is referred to.
_REMOVE_FROM_BASILISP = _REMOVE.replace(
    "(ns-unmap n s)", '(do (ns-unmap n s) (python/setattr n "_refers" (.dissoc (.-refers n) s)) nil)'
)
_REMOVE_FROM_HY = '(do (.pop (globals) ((. (__import__ "hy") mangle) $name) None) None)'
# What is referred to stands under the place it comes from.
_REMOVE_FROM_SQUINT = f"""(let [{_OBJECTS_OF_SQUINT}
  o (when (= $ns $home) (home $ns)) k (when (some? o) (first (filter (fn [k] (= $name (plain k))) (js/Object.keys o))))]
 (when (some? k) (js/Reflect.deleteProperty o k)) nil)"""
REMOVALS: Final[dict[str, str]] = {
    "clojure": _REMOVE,
    "babashka": _REMOVE,
    "nbb": _REMOVE,
    "basilisp": _REMOVE_FROM_BASILISP,
    "hy": _REMOVE_FROM_HY,
    "squint": _REMOVE_FROM_SQUINT,
}


def removal(dialect: str, namespace: str, name: str, home: str) -> tuple[str, str] | None:
    """Code that takes `name` out of a namespace where it is that of `home`, and the same in a few words for the log.

    None where the dialect has no way to.
    """
    texts = {"$ns": namespace, "$name": name, "$home": home}
    code = REMOVALS.get(dialect)
    # In one pass: a name may look like a place for another.
    if code is None:
        return None
    said = f"(del {name})" if dialect == "hy" else f"(ns-unmap '{namespace} '{name})"
    whole = re.sub(r"\$(?:ns|name|home)\b", lambda found: json.dumps(texts[found[0]], ensure_ascii=False), code)
    return whole, said
