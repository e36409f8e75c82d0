;; The results of a run that went on, once it is over.

(let [now (aget js/globalThis "codriverTests")]
 (if (:done now) {:tests (:tests now) :times (:times now) :results (vec (take 2000 (sort-by
   (fn [row] (cond (= "error" (:outcome row)) 0 (= "fail" (:outcome row)) 1 :else 2)) (:results now))))}
  {:pending true}))
