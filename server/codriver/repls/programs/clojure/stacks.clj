;; Returns the stacks of a session's threads, with at most 40 frames each.

(map (fn [[^Thread t frames]] {:name (.getName t) :state (str (.getState t))
   :frames (map str (take 40 frames))})
 (filter (fn [[^Thread t _]] (.contains (.getName t) $session)) (Thread/getAllStackTraces)))
