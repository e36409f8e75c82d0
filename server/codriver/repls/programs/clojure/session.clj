;; Returns an atom with the bindings of the nREPL session $session.

(get @@(or (resolve 'nrepl.middleware.session/sessions)
                   (resolve 'clojure.tools.nrepl.middleware.session/sessions)) $session)
