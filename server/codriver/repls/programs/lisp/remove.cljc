;; Removes a name from the namespace $ns, if it belongs to $home.

(let [n (find-ns (symbol $ns)) s (symbol $name) v (when n (get (ns-map n) s))]
 (when (and (var? v) (= $home (str (:ns (meta v))))) (ns-unmap n s)))
