;; nbb has a single `*1` for all clients, and sets it when a form has been evaluated. It is restored before the
;; request after the answer is read, because Node runs `setImmediate` callbacks at the end of the turn in which
;; it reads.

(let [[a b c e] [*1 *2 *3 *e]
  restore (fn [] (doseq [[v x] [[#'*1 a] [#'*2 b] [#'*3 c] [#'*e e]]] (alter-var-root v (constantly x))))]
 (intern (create-ns 'codriver.kept) 'restore restore)
 (js/setImmediate restore)
 nil)
