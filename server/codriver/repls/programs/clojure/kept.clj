;; Prints part of a stored value, starting at $from. The steps of $path are pairs: `i` and an index, or `k` and
;; a key, either as text or as printed.

(let [known (ns-resolve (create-ns 'codriver.kept) 'values)
  rows (when known (filter (fn [[e n]] (and (= e $evaluation) (or (= "" $number) (= n $number)))) @@known))
  step (fn [v [kind t]]
   (let [index (when (= kind "i") (Long/parseLong t))
         fail (fn [] (throw (ex-info "no" {:codriver/step t :codriver/in (.getSimpleName (class v))})))]
    (cond
     (map? v) (if-let [e (first (filter (fn [[k _]] (or (= k index) (= k t) (= t (pr-str k)))) v))] (val e) (fail))
     (and index (or (sequential? v) (set? v) (and v (.isArray (class v)))))
      (let [part (nth (seq v) index ::none)] (if (= part ::none) (fail) part))
     :else (fail))))]
 (if (empty? rows)
  {:missing "it is no longer stored, because the REPL only stores the 8 newest truncated values"}
  (try
   (let [v (reduce step (nth (last rows) 2) $path)
         from (Long/parseLong $from)
         part (if (pos? from) (drop from v) v)
         text (binding [*print-length* (when (seq $length) (Long/parseLong $length))
                        *print-level* (when (seq $depth) (Long/parseLong $depth))] (pr-str part))]
    {:text (if (seq $quota) (subs text 0 (min (count text) (Long/parseLong $quota))) text)
     :size (count text) :count (when (counted? v) (count v))})
   (catch clojure.lang.ExceptionInfo e
    (if-let [at (:codriver/step (ex-data e))]
     {:missing (str "the " (:codriver/in (ex-data e)) " has no " at ", which is the next step of the path")}
     (throw e))))))
