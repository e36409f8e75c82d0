;; The var with this name in the namespace n, if it has a value.

(let [v (try (ns-resolve n (symbol $name)) (catch Throwable _ nil))] (when (and (var? v) (bound? v)) v))
