;; Defines a function like `eval`, except that stack traces of the code it compiles contain the request's file
;; name. Returns the function's name. nREPL only binds `*file*`, which determines the `:file` of vars and the
;; location of compiler errors. The compiler writes `*source-path*` into classes. Source:
;; `clojure.lang.Compiler`, `SOURCE` and `SOURCE_PATH`. The function is defined in the namespace where nREPL
;; looks it up. Otherwise, no request would end. There, its frame counts as one of the tooling.

(when-let [n (or (find-ns 'nrepl.middleware.interruptible-eval)
                 (find-ns 'clojure.tools.nrepl.middleware.interruptible-eval))]
 (intern n 'codriver-eval-in-file
  (binding [*ns* n]
   (eval '(clojure.core/fn [form]
    (clojure.core/binding [clojure.core/*source-path* (.getName (java.io.File. (clojure.core/str clojure.core/*file*)))]
     (clojure.core/eval form))))))
 (str n "/codriver-eval-in-file"))
