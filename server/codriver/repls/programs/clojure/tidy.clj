;; Class loaders that carry nothing are unlinked. nREPL 1.0 leaves one behind with every evaluation, each the child
;; of the one before: evaluations become slower, and after some 2,400 of them every one fails with a stack
;; overflow.

(let [loader? (fn [l] (= clojure.lang.DynamicClassLoader (class l)))
  up (fn [^ClassLoader l] (.getParent l))
  spare? (fn [l] (and (loader? l) (loader? (up l)) (empty? (.getURLs ^java.net.URLClassLoader l))))]
 (doseq [^Thread t (keys (Thread/getAllStackTraces)) :when (.contains (.getName t) $session)]
  (.setContextClassLoader t (first (drop-while spare? (iterate up (.getContextClassLoader t)))))))
