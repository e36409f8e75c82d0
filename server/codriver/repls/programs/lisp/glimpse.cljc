;; Describes a var's value: its class, its count, and the value on one line. Calls no user code and realizes no
;; lazy sequences.

(let [n (or (find-ns (symbol $ns)) *ns*) v RESOLVED]
 (when (and v (not (fn? @v)))
  (let [x @v
        known? (fn [x] KNOWN)
        line (fn line [x levels]
         (cond
          (or (nil? x) (number? x) (keyword? x) (symbol? x) (true? x) (false? x)) (pr-str x)
          (string? x) (if (< 60 (count x)) (str "<String of " (count x) ">") (pr-str x))
          (and (pos? levels) (known? x))
           (let [[before after] (cond (map? x) ["{" "}"] (set? x) ["#{" "}"] (vector? x) ["[" "]"] :else ["(" ")"])
                 one (fn [e] (line e (dec levels)))
                 parts (map (if (map? x) (fn [[k e]] (str (one k) " " (one e))) one) (take 10 x))]
            (str before (apply str (interpose " " (if (< 10 (count x)) (concat parts ["..."]) parts))) after))
          :else (str "<" CLASS ">")))]
   {:class (if (nil? x) "nil" CLASS) :count (when (known? x) (str (count x))) :value (line x 3)})))
