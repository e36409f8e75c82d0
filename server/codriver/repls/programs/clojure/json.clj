;; Serializes a value as JSON, without a library.

(letfn [(j [x] (cond (nil? x) "null" (string? x) (pr-str x)
  (or (number? x) (true? x) (false? x)) (str x)
  (map? x) (str "{" (apply str (interpose "," (map (fn [[k v]] (str (j (name k)) ":" (j v))) x))) "}")
  (coll? x) (str "[" (apply str (interpose "," (map j x))) "]")
  :else (pr-str (str x))))] (j VALUE))
