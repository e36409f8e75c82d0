;; nbb has one `*1` for all its clients, and sets it when a form is over. It is put back before a request that
;; comes behind the answer is read: Node runs `setImmediate` at the end of the turn in which it reads.

(let [[a b c e] [*1 *2 *3 *e]
  restore (fn [] (doseq [[v x] [[#'*1 a] [#'*2 b] [#'*3 c] [#'*e e]]] (alter-var-root v (constantly x))))]
 (intern (create-ns 'codriver.kept) 'restore restore)
 (js/setImmediate restore)
 nil)
