;; The toy framework under the names that re-frame 2 has, for a server to find it by.
(load-file (str (.getParent (java.io.File. ^String *file*)) "/toy.cljc"))
(defn- named [space names]
  (create-ns space)
  (doseq [[name value] names] (intern space name value)))
(named 're-frame.core
       {'frame-ids toy/frame-ids 'app-db-value toy/db-of 'dispatch-sync* toy/dispatch-sync* 'dispatch* toy/dispatch-sync*
        'registrations (fn [kind] (get (toy/handlers) kind {})) 'elision-sensitive-declarations toy/sensitive})
(named 're-frame.interop {'debug-enabled? true})
(named 're-frame.trace.tooling
       {'trace-buffer toy/trace-buffer 'register-listener! toy/listen! 'unregister-listener! toy/unlisten!})
(named 're-frame.epoch
       {'epoch-history toy/history 'restore-epoch toy/restore-epoch 'reset-frame-db! toy/replace-app-db!})
