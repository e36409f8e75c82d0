;; Returns the names in a namespace, or those that match a pattern. $name is the namespace or the pattern.
;; $pattern is the pattern as a lower-case regular expression. $ns is the current namespace.

(let [here (find-ns (symbol $ns)) spaces (set (all-ns))
  re (when (seq $pattern) (re-pattern $pattern))
  line (fn [d] (re-find #"\S[^\n]*" (str d)))
  text (fn [s] LOWER)
  hit (fn [s] (re-matches re (text s)))
  row (fn [[n v]] (let [m (meta v)]
    {:name n :type (if (contains? spaces v) "namespace" (when (:macro m) "macro")) :doc (line (:doc m))
     :args (apply str (interpose " " (map pr-str (:arglists m))))}))
  rank (fn [n] (let [s (str (ns-name n))]
    (cond (= n here) 0 (re-find #"^(nrepl|cider|orchard|refactor-nrepl|shadow|leiningen)\b" s) 3
      (re-find #"^(clojure|cljs|basilisp|nbb|sci)\." s) 2 :else 1)))
  held (fn [n] (sort-by first (map (fn [[s v]] [(str s) v]) (if (= n here) (ns-interns n) (ns-publics n)))))
  within (fn [n] (let [own (str (ns-name n))]
    (concat (when (hit own) [[own n]])
     (filter (fn [[s _]] (hit (if (re-find #"/" $pattern) s (subs s (inc (count own))))))
      (map (fn [[s v]] [(str own "/" s) v]) (held n))))))
  home (when-not re (or (find-ns (symbol $name)) (when here (get (ns-aliases here) (symbol $name)))))
  found (cond re (mapcat within (sort-by (fn [n] (str (rank n) " " (ns-name n))) (all-ns)))
         home (sort-by first (map (fn [[s v]] [(str s) v]) (ns-publics home))))]
 (if (or re home) {:rows (map row (take 50 found)) :omitted (max 0 (- (count found) 50))} {}))
