;; A printer as `nrepl.util.print/pr` is, except that limits which the user has set win over our defaults. With
;; `for-session` the session goes on so, within `quota` characters, where a request says nothing of printing: the
;; names are read and resolved but once. A function that the user has set for the session stays, within the quota.
;; The printer runs at the end of an evaluation on the session's own thread, where nREPL before 1.3 has left a
;; class loader behind, the child of the one before. That loader is unlinked if nothing was added to it: each
;; loader between is asked for every class that the next evaluation needs, which takes 0.2 ms where there are a
;; hundred. With `keep-loaders` all stay: code that has got hold of one may add to it later. Source of the check:
;; nREPL's pull request 327.

(let [^ThreadLocal base (ThreadLocal.)
 function (resolve 'nrepl.middleware.print/*print-fn*) quota (resolve 'nrepl.middleware.print/*quota*)
 unlink (fn [] (let [t (Thread/currentThread) l (.getContextClassLoader t) below (.get base)]
  (if (and below (= clojure.lang.DynamicClassLoader (class l)) (identical? below (.getParent l))
           (empty? (.getURLs ^java.net.URLClassLoader l)))
   (.setContextClassLoader t below)
   (.set base l))))
 write (fn [value ^java.io.Writer writer length level unlinks?]
  (binding [*print-length* length *print-level* level]
   (if *print-dup* (print-dup value writer) (print-method value writer)))
  (when unlinks? (unlink)))
 usual? (fn [f] (or (:codriver/print (meta f)) (identical? f (.getRawRoot ^clojure.lang.Var function))))]
 (intern (create-ns 'codriver.kept) 'print
  (fn [value writer {length :default-length level :default-level :as options}]
   (let [unlinks? (not (:keep-loaders options))]
    (when (and (:for-session options) function (thread-bound? function quota))
     (var-set quota (:quota options))
     (when (usual? @function)
      (var-set function (with-meta
       (fn [v w] (write v w (or *print-length* length) (or *print-level* level) unlinks?)) {:codriver/print true}))))
    (write value writer (or (:print-length options) *print-length* length)
     (or (:print-level options) *print-level* level) unlinks?))))
 nil)
