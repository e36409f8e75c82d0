;; Serializes a value as JSON. `*1` and the other result vars are restored again, because requiring a namespace
;; for the first time takes several turns of the event loop.

(let [said (js/JSON.stringify (clj->js VALUE))]
 (js/setImmediate @(resolve 'codriver.kept/restore))
 said)
