;; A value as one JSON text. `*1` and the like are put back once more, as a namespace that is required for the
;; first time is awaited over several turns.

(let [said (js/JSON.stringify (clj->js VALUE))]
 (js/setImmediate @(resolve 'codriver.kept/restore))
 said)
