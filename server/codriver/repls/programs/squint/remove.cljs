;; A name is taken out of the namespace $ns where it is defined; what is referred to stands under the place it
;; comes from.

(let [o (when (= $ns $home) (home $ns))
  k (when (some? o) (first (filter (fn [k] (= $name (plain k))) (js/Object.keys o))))]
 (when (some? k) (js/Reflect.deleteProperty o k)) nil)
