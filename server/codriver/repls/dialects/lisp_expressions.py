"""Expressions in the Lisps that servers have no op for: tests run, and names completed within their namespace.

Tests: `$ns` and `$name` are string literals. Each expression gives what `codriver.repls.nrepl.responses.tests_of`
reads. What JavaScript runs may end later than its expression, which then gives `pending` and keeps the run in a
property of the global object: another one gives what became of it.

Completion, for servers whose own op leaves some names out or makes some up: `$owner` is what stands before the slash,
an alias or a namespace; `$name` how the name begins, which may be empty. One that gives nil, not an empty list, leaves
the answer to the op.
"""

from __future__ import annotations

from typing import Final

TEST_CLOJURE: Final = """(if (and (seq $ns) (not (find-ns (symbol $ns)))
  (try (require (symbol $ns)) false (catch java.io.FileNotFoundException _ true)))
 {:missing true}
 (let [results (atom []) seen (atom #{})
  tests (if (seq $name) [(or (ns-resolve (the-ns (symbol $ns)) (symbol $name))
      (throw (ex-info (str "there is no test " $name " in " $ns) {})))]
    (filter (comp :test meta) (mapcat (comp vals ns-interns) (if (seq $ns) [(the-ns (symbol $ns))] (all-ns)))))
  path (fn [f] (if-let [u (when (and f (not (.startsWith f "/"))) (clojure.java.io/resource f))]
    (if (= "file" (.getProtocol u)) (str (clojure.java.io/as-file u)) (str u)) f))
  ends? (fn [f base] (and f (or (= f base) (.endsWith f (str "/" base)))))
  place (fn [base own] (path (cond (or (nil? base) (.contains base "/")) base (ends? own base) own
    :else (let [files (distinct (filter #(ends? % base)
                (keep (comp :file meta) (mapcat (comp vals ns-interns) (all-ns)))))]
            (if (= 1 (count files)) (first files) base)))))
  report (fn [m] (let [v (first clojure.test/*testing-vars*) vm (meta v)]
    (when (= :begin-test-var (:type m)) (swap! seen conj (:var m)))
    (when (#{:pass :fail :error} (:type m))
     (swap! results conj {:test (str (:name vm)) :ns (str (some-> (:ns vm) ns-name)) :outcome (name (:type m))
      :message (let [c (apply str (interpose " " (reverse clojure.test/*testing-contexts*)))
                     s (str c (when (and (seq c) (:message m)) ": ") (:message m))] (when (seq s) s))
      :expected (when (not= :pass (:type m)) (pr-str (:expected m)))
      :actual (when (not= :pass (:type m)) (let [a (:actual m)] (if (instance? Throwable a)
         (str (.getName (class a)) ": " (.getMessage ^Throwable a)) (pr-str a))))
      :file (place (:file m) (:file vm)) :line (:line m) :var-file (path (:file vm)) :var-line (:line vm)}))))]
  (binding [clojure.test/report report clojure.test/*test-out* *out*]
   (doseq [[n vs] (group-by (comp :ns meta) tests)] (clojure.test/test-vars vs)))
  {:tests (count @seen) :results (take 2000 (sort-by (comp {"error" 0 "fail" 1 "pass" 2} :outcome) @results))}))"""
"""A failure is reported with the base name of its file alone; its path is that of a var with such a file."""

TEST_BASILISP: Final = """(if (and (seq $ns) (not (find-ns (symbol $ns)))
  (try (require (symbol $ns)) false
   (catch python/ImportError e
    (or (.startswith (str (munge $ns) ".") (str (python/getattr (or (.-__cause__ e) e) "name" nil) "."))
     (throw e)))))
 {:missing true}
 (let [is-test (fn [v] (:basilisp.test/test (meta v)))
  tests (if (seq $name)
    [(or (get (ns-interns (the-ns (symbol $ns))) (symbol $name))
       (throw (ex-info (str "there is no test " $name " in " $ns) {})))]
    (filter is-test (mapcat (comp vals ns-interns) (if (seq $ns) [(the-ns (symbol $ns))] (all-ns)))))
  place (fn [v] {:test (name (:name (meta v))) :ns (str (:ns (meta v))) :file (:file (meta v)) :line (:line (meta v))})
  text (fn [x] (when (some? x) (pr-str x)))
  told (fn [v f] (merge (place v) {:outcome (if (= :error (:type f)) "error" "fail")
    :context (:test-section f) :message (:message f) :expected (text (:expected f)) :actual (text (:actual f))
    :line (or (:line f) (:line (meta v)))}))
  run (fn [v] (try
     (let [failures (:failures (v))]
      (if (seq failures) (map (fn [f] (told v f)) failures) [(assoc (place v) :outcome "pass")]))
     (catch python/Exception e [(assoc (place v) :outcome "error" :actual (python/repr e))])))
  run-ns (fn [n vs] (let [once (basilisp.test/join-fixtures (:basilisp.test/once-fixtures (meta n)))
      each (basilisp.test/join-fixtures (:basilisp.test/each-fixtures (meta n)))]
    (basilisp.test/with-fixtures [once]
     (vec (mapcat (fn [v] (basilisp.test/with-fixtures [each] (vec (run v)))) vs)))))]
  {:tests (count tests) :results (vec (mapcat (fn [[n vs]] (run-ns n vs))
    (group-by (fn [v] (the-ns (:ns (meta v)))) tests)))}))"""

TEST_NBB: Final = """(let [home (when (seq $ns) (find-ns (symbol $ns)))]
 (if (and (seq $ns) (nil? home))
  {:missing true}
  (let [state (atom {:results [] :seen #{} :done false})
   vars (if (seq $name)
    [(or (when home (get (ns-interns home) (symbol $name)))
         (throw (js/Error. (str "there is no test " $name " in " $ns))))]
    (sort-by (comp :line meta)
      (filter (comp :test meta) (mapcat (comp vals ns-interns) (if home [home] (all-ns))))))
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
      (when (= kind :begin-test-var) (swap! now update :seen conj (:var m)))
      (when (#{:pass :fail :error} kind) (swap! now update :results conj (told m))))))
   (set! (.-codriverTests js/globalThis) state)
   (cljs.test/set-env! (reduce (fn [env n] (reduce (fn [env [k s]]
       (if-let [v (get (ns-interns n) s)] (assoc-in env [k (ns-name n)] @v) env)) env
      [[:once-fixtures 'cljs-test-once-fixtures] [:each-fixtures 'cljs-test-each-fixtures]]))
     (cljs.test/empty-env :codriver) (distinct (map (comp :ns meta) vars))))
   (cljs.test/run-block (concat (cljs.test/test-vars-block vars) [(fn [] (swap! state assoc :done true))]))
   {:pending true})))"""

TEST_NBB_REST: Final = """(let [now @(.-codriverTests js/globalThis)]
 (if (:done now)
  {:tests (count (:seen now))
   :results (take 2000 (sort-by (comp {"error" 0 "fail" 1 "pass" 2} :outcome) (:results now)))}
  {:pending true}))"""

TEST_SQUINT: Final = """(let [within (fn [o k] (when (some? o) (aget o k)))
  home (reduce within js/globalThis (.split (.replaceAll $ns "-" "_") "."))
  known (if (= "" $ns) (codriver-tests/registered-tests) (codriver-tests/registered-tests $ns))
  chosen (if (= "" $name) known (filterv (fn [t] (= $name (:name (meta t)))) known))
  state {:done false :results [] :tests 0 :test nil}
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
       (aset now "test" m))
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
   {:pending true})))"""
"""Of squint's `clojure.test`, which newer versions of it bring along."""

TEST_SQUINT_REST: Final = """(let [now (aget js/globalThis "codriverTests")]
 (if (:done now) {:tests (:tests now) :results (vec (take 2000 (sort-by
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

COMPLETE_IN_SQUINT: Final = """(let [within (fn [o k] (when (some? o) (aget o k)))
  munged (fn [s] (.replaceAll s "-" "_"))
  home (fn [s] (reduce within js/globalThis (.split (munged s) ".")))
  owner (or (within (home $ns) (.replaceAll (munged $owner) "." "_DOT_")) (home $owner))
  plain (fn [s] (if (re-matches #"[A-Z0-9_]+" s) s
    (reduce (fn [s [from to]] (.replaceAll s from to)) s
     [["_BANG_" "!"] ["_QMARK_" "?"] ["_STAR_" "*"] ["_GT_" ">"] ["_LT_" "<"] ["_EQ_" "="] ["_PLUS_" "+"] ["_" "-"]])))]
 (if (nil? owner) nil
  (vec (take 500 (map (fn [[s v]] {:candidate (str $owner "/" s) :type (if (fn? v) "function" "var")})
   (sort-by first (filter (fn [[s _]] (.startsWith s $name)) (map (fn [k] [(plain k) (aget owner k)])
    (js/Object.keys owner)))))))))"""
"""Its op knows the names of the current namespace alone. Namespaces are objects, which hold what they require too."""
