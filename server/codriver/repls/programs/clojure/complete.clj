;; Names that start with $name in the namespace $ns, or in another namespace if $name contains a slash.

(let [n (or (find-ns (symbol $ns)) *ns*) p $name
  at (.indexOf p "/") owner (when (pos? at) (subs p 0 at))
  home (when owner (or (get (ns-aliases n) (symbol owner)) (find-ns (symbol owner))))
  names (cond home (map (fn [[s v]] [(str owner "/" s) v]) (if (= home n) (ns-interns n) (ns-publics home)))
         owner [] :else (map (fn [[s v]] [(str s) v]) (ns-map n)))]
 (map (fn [[s v]] {:candidate s :type (cond (class? v) "class" (:macro (meta v)) "macro"
   (:arglists (meta v)) "function" :else "var")})
  (take 200 (sort-by first (filter (fn [[s _]] (.startsWith s p)) names)))))
