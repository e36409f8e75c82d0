;; Runs tests of `cljs.test`, which may still be running when this form returns. It then returns `pending`, and
;; stores the run in a property of the global object.

(let [home (when (seq $ns) (find-ns (symbol $ns)))]
 (if (and (seq $ns) (nil? home))
  {:missing true}
  (let [state (atom {:results [] :times [] :seen #{} :done false})
   has? HAS
   selected? IS_SELECTED
   vars (if (seq $name)
    [(or (when home (get (ns-interns home) (symbol $name)))
         (throw (js/Error. (str "there is no test " $name " in " $ns))))]
    (sort-by (comp :line meta)
      (filter (fn [v] (selected? (str (ns-name (:ns (meta v)))) (str (:name (meta v)))))
       (filter (comp :test meta) (mapcat (comp vals ns-interns)
        (cond home [home] (seq $spaces) (keep (comp find-ns symbol) $spaces) :else (all-ns)))))))
   place (fn [v] {:test (str (:name (meta v))) :ns (str (ns-name (:ns (meta v)))) :file (:file (meta v))
                  :line (:line (meta v))})
   told (fn [m] (let [{[v] :testing-vars contexts :testing-contexts} (cljs.test/get-current-env) e (:actual m)]
     (merge (when v (place v))
      {:outcome (name (:type m)) :context (apply str (interpose " " (reverse contexts))) :message (:message m)}
      (when (not= :pass (:type m))
       {:expected (when (some? (:expected m)) (pr-str (:expected m)))
        :actual (if (instance? js/Error e) (str (.-name e) ": " (ex-message e)) (pr-str e))})
      (when-let [l (or (:line m) (:line (ex-data e)))] {:line l}))))]
   (doseq [kind [:begin-run-tests :end-run-tests :begin-test-ns :end-test-ns :begin-test-all-vars :end-test-all-vars
                 :begin-test-vars :end-test-vars :begin-test-var :end-test-var :summary :pass :fail :error]]
    (defmethod cljs.test/report [:codriver kind] [m]
     (when-let [now (.-codriverTests js/globalThis)]
      (when (= kind :begin-test-var) (swap! now update :seen conj (:var m))
       (swap! now assoc :now (:var m) :at (js/performance.now)))
      (when (= kind :end-test-var) (let [{n :ns t :name} (meta (:var m))]
       (swap! now assoc :now nil)
       (swap! now update :times conj [(str (ns-name n)) (str t) (/ (- (js/performance.now) (:at @now)) 1e3)])))
      (when (#{:pass :fail :error} kind) (swap! now update :results conj (told m))))))
   (swap! state assoc :of (count vars))
   (set! (.-codriverTests js/globalThis) state)
   (cljs.test/set-env! (reduce (fn [env n] (reduce (fn [env [k s]]
       (if-let [v (get (ns-interns n) s)] (assoc-in env [k (ns-name n)] @v) env)) env
      [[:once-fixtures 'cljs-test-once-fixtures] [:each-fixtures 'cljs-test-each-fixtures]]))
     (cljs.test/empty-env :codriver) (distinct (map (comp :ns meta) vars))))
   (cljs.test/run-block (concat (cljs.test/test-vars-block vars) [(fn [] (swap! state assoc :done true))]))
   {:pending true})))
