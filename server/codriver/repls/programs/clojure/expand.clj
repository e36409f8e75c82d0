;; Expands $code in the namespace $ns with the function $expand.

(binding [*ns* (the-ns (symbol $ns))]
 (require 'clojure.walk) (pr-str ($expand (read-string $code))))
