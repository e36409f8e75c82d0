;; The session's last value is kept under its evaluation and number; the newest eight stay. The answer counts what
;; can be counted without being realised, and has the session's own limits.

(let [v (get @SESSION #'clojure.core/*1)
  known (ns-resolve (create-ns 'codriver.kept) 'values)
  kept (if known @known @(intern 'codriver.kept 'values (atom [])))]
 (swap! kept (fn [rows] (vec (take-last 8 (conj rows [$evaluation $number v])))))
 {:count (when (counted? v) (count v))
   :length (get @SESSION #'*print-length*) :level (get @SESSION #'*print-level*)})
