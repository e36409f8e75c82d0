;; The name of a value's class, as x. nbb's names of classes are those that a minifier gave, except those of JavaScript.

(cond (record? x) "record" (map? x) "map" (vector? x) "vector" (set? x) "set" (list? x) "list" (seq? x) "seq"
      (keyword? x) "keyword" (symbol? x) "symbol" :else (.slice (.call js/Object.prototype.toString x) 8 -1))
