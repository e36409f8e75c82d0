;; Defines a printer like `nrepl.util.print/pr`, except that print limits set by the user take precedence over
;; Codriver's defaults. With `for-session`, the session then also uses it for requests that do not mention
;; printing, limited to `quota` characters, so the names are only read and resolved once. A print function set
;; by the user is not replaced, but gets the quota. The printer runs at the end of an evaluation, on the
;; session's thread. nREPL before 1.3 leaves a class loader behind there, whose parent is the previous one. The
;; loader is unlinked if nothing was added to it, because all loaders in the chain are searched for every class
;; that the next evaluation needs, which takes 0.2 ms with a hundred of them. With `keep-loaders`, none are
;; unlinked, because code that has a reference to one may add to it later. Source of the check: nREPL's pull
;; request 327.

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
