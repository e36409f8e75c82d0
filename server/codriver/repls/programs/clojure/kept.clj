;; A part of a kept value as text, from $from on. The steps of $path are pairs: `i` and a place, or `k` and a key
;; as text or as it is printed.

(let [known (ns-resolve (create-ns 'codriver.kept) 'values)
  rows (when known (filter (fn [[e n]] (and (= e $evaluation) (or (= "" $number) (= n $number)))) @@known))
  step (fn [v [kind t]]
   (let [place (when (= kind "i") (Long/parseLong t))
         fail (fn [] (throw (ex-info "no" {:codriver/step t :codriver/in (.getSimpleName (class v))})))]
    (cond
     (map? v) (if-let [e (first (filter (fn [[k _]] (or (= k place) (= k t) (= t (pr-str k)))) v))] (val e) (fail))
     (and place (or (sequential? v) (set? v) (and v (.isArray (class v)))))
      (let [part (nth (seq v) place ::none)] (if (= part ::none) (fail) part))
     :else (fail))))]
 (if (empty? rows)
  {:missing "it is not kept: the REPL keeps the 8 newest values that were cut"}
  (try
   (let [v (reduce step (nth (last rows) 2) $path)
         from (Long/parseLong $from)
         shown (if (pos? from) (drop from v) v)
         text (binding [*print-length* (when (seq $length) (Long/parseLong $length))
                        *print-level* (when (seq $depth) (Long/parseLong $depth))] (pr-str shown))]
    {:text (if (seq $quota) (subs text 0 (min (count text) (Long/parseLong $quota))) text)
     :size (count text) :count (when (counted? v) (count v))})
   (catch clojure.lang.ExceptionInfo e
    (if-let [at (:codriver/step (ex-data e))]
     {:missing (str "the " (:codriver/in (ex-data e)) " has no " at ", which is the next step of the path")}
     (throw e))))))
