;; The expansion of $code in the namespace $ns by the function $expand.

(binding [*ns* (the-ns (symbol $ns))]
 (require 'clojure.walk) (pr-str ($expand (read-string $code))))
