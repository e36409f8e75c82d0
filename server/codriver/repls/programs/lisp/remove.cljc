;; A name is taken out of the namespace $ns where it is that of $home.

(let [n (find-ns (symbol $ns)) s (symbol $name) v (when n (get (ns-map n) s))]
 (when (and (var? v) (= $home (str (:ns (meta v))))) (ns-unmap n s)))
