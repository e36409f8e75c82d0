;; The bindings of the nREPL session $session, in an atom.

(get @@(or (resolve 'nrepl.middleware.session/sessions)
                   (resolve 'clojure.tools.nrepl.middleware.session/sessions)) $session)
