;; Runs a step of a recorded run: `begin`, `renew` or `end`. Returns `missing` if the program for recorded runs
;; is not loaded.

(if-let [f (some-> (find-ns 'codriver.traces) (ns-resolve 'run))] (f $step $id $names $folders $lease) {:missing true})
