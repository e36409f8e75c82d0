;; Returns whether to run a test. $words has alternatives, each a list of words that must all match, or must not
;; match after an exclamation mark. $only has tests by namespace and name.

(fn [n t] (let [text (LOWER (str n "/" t))]
   (and (or (empty? $words) (some (fn [every] (every? (fn [w] (if (= "!" (subs w 0 1))
           (not (has? text (subs w 1))) (has? text w))) every)) $words))
        (or (empty? $only) (some (fn [one] (and (= n (first one)) (= t (second one)))) $only)))))
