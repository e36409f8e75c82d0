;; A function as `eval` is, but that code which it compiles bears the request's file in stack traces; its name is
;; the value. nREPL binds `*file*` alone, from which come `:file` of a var and the place of a compiler's error. The
;; compiler writes the other name into each class. Source: `clojure.lang.Compiler`, `SOURCE` and `SOURCE_PATH`. The
;; function is in the namespace in which nREPL looks for it, as without it no request would end; its own frame is
;; the tooling's there.

(when-let [n (or (find-ns 'nrepl.middleware.interruptible-eval)
                 (find-ns 'clojure.tools.nrepl.middleware.interruptible-eval))]
 (intern n 'codriver-eval-in-file
  (binding [*ns* n]
   (eval '(clojure.core/fn [form]
    (clojure.core/binding [clojure.core/*source-path* (.getName (java.io.File. (clojure.core/str clojure.core/*file*)))]
     (clojure.core/eval form))))))
 (str n "/codriver-eval-in-file"))
