;; Returns the results of an interrupted test run.

(let [run @(resolve 'codriver.tests/run) now @(:now run) v (:var now) m (meta v)]
 {:tests (- (count @(:seen run)) (if v 1 0)) :of @(:of run) :times (take 20000 @(:times run))
  :results (take 2000 (sort-by (comp {"error" 0 "fail" 1 "pass" 2} :outcome)
   (remove (fn [row] (and v (= [(str (ns-name (:ns m))) (str (:name m))] [(:ns row) (:test row)]))) @(:results run))))
  :stopped (when v {:test (str (:name m)) :ns (str (ns-name (:ns m))) :outcome "error" :file (:file m)
                    :line (:line m) :frames (:frames now)})})
