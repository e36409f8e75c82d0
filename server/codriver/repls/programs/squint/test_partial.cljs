;; The part of a run that was over when the run was interrupted.

(let [now (aget js/globalThis "codriverTests") t (:test now)]
 {:tests (dec (:tests now)) :of (:of now) :times (:times now) :results (vec (take 2000 (:results now)))
  :stopped (when (some? t) {:test (:name t) :ns (:ns t) :outcome "error"})})
