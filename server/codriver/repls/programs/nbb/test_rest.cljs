;; Returns the results of a run that was pending, when it has finished.

(let [now @(.-codriverTests js/globalThis)]
 (if (:done now)
  {:tests (count (:seen now)) :times (take 20000 (:times now))
   :results (take 2000 (sort-by (comp {"error" 0 "fail" 1 "pass" 2} :outcome) (:results now)))}
  {:pending true}))
