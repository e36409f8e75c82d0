;; Names of $owner that begin with $name. Squint's op knows the names of the current namespace alone; the objects
;; hold what they require too.

(let [owner (or (within (home $ns) (.replaceAll (munged $owner) "." "_DOT_")) (home $owner))]
 (if (nil? owner) nil
  (vec (take 500 (map (fn [[s v]] {:candidate (str $owner "/" s) :type (if (fn? v) "function" "var")})
   (sort-by first (filter (fn [[s _]] (.startsWith s $name)) (map (fn [k] [(plain k) (aget owner k)])
    (js/Object.keys owner)))))))))
