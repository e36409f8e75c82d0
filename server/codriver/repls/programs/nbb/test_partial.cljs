;; Returns the results of an interrupted test run.

(let [now @(.-codriverTests js/globalThis) v (:now now)]
 {:tests (count (disj (:seen now) v)) :of (:of now) :times (take 20000 (:times now))
  :results (take 2000 (sort-by (comp {"error" 0 "fail" 1 "pass" 2} :outcome) (:results now)))
  :stopped (when v {:test (str (:name (meta v))) :ns (str (ns-name (:ns (meta v)))) :file (:file (meta v))
                    :line (:line (meta v)) :outcome "error"})})
