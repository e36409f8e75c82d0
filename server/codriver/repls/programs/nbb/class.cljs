;; Returns the name of a value's class as `x`. The names of nbb's own classes are minified.

(cond (record? x) "record" (map? x) "map" (vector? x) "vector" (set? x) "set" (list? x) "list" (seq? x) "seq"
      (keyword? x) "keyword" (symbol? x) "symbol" :else (.slice (.call js/Object.prototype.toString x) 8 -1))
