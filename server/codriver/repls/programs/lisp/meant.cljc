;; Whether a test is meant: by the words of $words, of which each alternative lists those that all must hold, an
;; exclamation mark before what must not, and by $only, the tests by namespace and name.

(fn [n t] (let [text (LOWER (str n "/" t))]
   (and (or (empty? $words) (some (fn [every] (every? (fn [w] (if (= "!" (subs w 0 1))
           (not (has? text (subs w 1))) (has? text w))) every)) $words))
        (or (empty? $only) (some (fn [one] (and (= n (first one)) (= t (second one)))) $only)))))
