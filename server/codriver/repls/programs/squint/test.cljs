;; Tests of squint's `clojure.test`, which newer versions of squint bring along. They may end later than this form:
;; it gives `pending`, and keeps the run in a property of the global object.

(let [within (fn [o k] (when (some? o) (aget o k)))
  home (reduce within js/globalThis (.split (.replaceAll $ns "-" "_") "."))
  known (if (= "" $ns) (codriver-tests/registered-tests) (codriver-tests/registered-tests $ns))
  has? HAS
  meant? MEANT
  listed (filterv (fn [t] (or (empty? $spaces) (some (fn [n] (= n (:ns (meta t)))) $spaces))) known)
  chosen (filterv (fn [t] (if (= "" $name) (meant? (:ns (meta t)) (:name (meta t))) (= $name (:name (meta t))))) listed)
  state {:done false :results [] :times [] :tests 0 :test nil :of (count chosen)}
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
   {:pending true})))
