;; Describes the var that a name refers to in the namespace $ns: its documentation, arguments and location.

(let [n (or (find-ns (symbol $ns)) *ns*)
  v (try (ns-resolve n (symbol $name)) (catch Throwable _ nil)) m (meta v)]
 (when (var? v) {:name (str (:name m)) :ns (str (ns-name (:ns m))) :doc (:doc m)
  :arglists (map pr-str (:arglists m)) :file (:file m) :line (:line m) :column (:column m) :macro (:macro m)}))
