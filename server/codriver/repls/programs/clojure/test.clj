;; Runs tests of `clojure.test`, and reports them row by row. A failure only contains the base name of its file.
;; Its path is taken from a var in a file with this name.

(if (and (seq $ns) (empty? $files) (not (find-ns (symbol $ns)))
  (try (require (symbol $ns)) false (catch java.io.FileNotFoundException _ true)))
 {:missing true}
 (let [results (atom []) seen (atom #{}) now (atom nil) times (atom []) of (atom nil)
  _ (intern (create-ns 'codriver.tests) 'run {:results results :seen seen :now now :times times :of of})
  on-path? (fn [^String n ^String f] (clojure.java.io/resource
             (str (-> n (.replace "-" "_") (.replace "." "/")) (subs f (.lastIndexOf f ".")))))
  _ (doseq [[n f] $files :when (not (find-ns (symbol n)))]
     (try (binding [*ns* *ns*] (if (on-path? n f) (require (symbol n)) (load-file f)))
      (catch Throwable e (swap! results conj {:test "(load)" :ns n :outcome "error" :file f
        :actual (apply str (interpose ": " (map (fn [^Throwable t] (.getMessage t))
          (take-while some? (iterate (fn [^Throwable t] (when t (.getCause t))) e)))))}))))
  has? HAS
  selected? IS_SELECTED
  home (when (seq $ns) (find-ns (symbol $ns)))
  spaces (cond home [home] (seq $ns) [] (seq $spaces) (keep (comp find-ns symbol) $spaces) :else (all-ns))
  tests (if (and home (seq $name)) [(or (ns-resolve home (symbol $name))
      (throw (ex-info (str "there is no test " $name " in " $ns) {})))]
    (filter (fn [v] (selected? (str (ns-name (:ns (meta v)))) (str (:name (meta v)))))
     (filter (comp :test meta) (mapcat (comp vals ns-interns) spaces))))
  path (fn [f] (if-let [u (when (and f (not (.startsWith f "/"))) (clojure.java.io/resource f))]
    (if (= "file" (.getProtocol u)) (str (clojure.java.io/as-file u)) (str u)) f))
  frames (fn [^Throwable e] (let [root (last (take-while some? (iterate (fn [^Throwable t] (when t (.getCause t))) e)))]
    (map (fn [^StackTraceElement f] {:class (.getClassName f) :method (.getMethodName f)
      :file (.getFileName f) :line (.getLineNumber f)})
     (take-while (fn [^StackTraceElement f] (not (.startsWith (.getClassName f) "clojure.test$")))
      (take 40 (.getStackTrace ^Throwable root))))))
  ends? (fn [f base] (and f (or (= f base) (.endsWith f (str "/" base)))))
  place (fn [base own] (path (cond (or (nil? base) (.contains base "/")) base (ends? own base) own
    :else (let [files (distinct (filter #(ends? % base)
                (keep (comp :file meta) (mapcat (comp vals ns-interns) (all-ns)))))]
            (if (= 1 (count files)) (first files) base)))))
  mark (or (some-> (find-ns 'codriver.traces) (ns-resolve 'mark)) (fn [_ _])) ; if calls are recorded
  report (fn [m] (let [v (first clojure.test/*testing-vars*) vm (meta v)]
    (when (= :begin-test-var (:type m)) (mark "begin" (:var m)))
    (when (= :end-test-var (:type m)) (mark "end" (:var m)))
    (when (= :begin-test-var (:type m)) (swap! seen conj (:var m)) (reset! now {:var (:var m) :at (System/nanoTime)}))
    (when (= :end-test-var (:type m)) (swap! times conj
      [(str (ns-name (:ns (meta (:var m))))) (str (:name (meta (:var m)))) (/ (- (System/nanoTime) (:at @now)) 1e9)]))
    (when (and (= :error (:type m)) (instance? InterruptedException (:actual m)))
     ; an interrupt ends the whole run, not only the test that is waiting
     (swap! now assoc :frames (frames (:actual m))) (throw (:actual m)))
    (when (#{:pass :fail :error} (:type m))
     (swap! results conj {:test (str (:name vm)) :ns (str (some-> (:ns vm) ns-name)) :outcome (name (:type m))
      :message (let [c (apply str (interpose " " (reverse clojure.test/*testing-contexts*)))
                     s (str c (when (and (seq c) (:message m)) ": ") (:message m))] (when (seq s) s))
      :expected (when (not= :pass (:type m)) (pr-str (:expected m)))
      :actual (when (not= :pass (:type m)) (let [a (:actual m)] (if (instance? Throwable a)
         (str (.getName (class a)) ": " (.getMessage ^Throwable a)) (pr-str a))))
      :frames (when (instance? Throwable (:actual m)) (frames (:actual m)))
      :file (place (:file m) (:file vm)) :line (:line m) :var-file (path (:file vm)) :var-line (:line vm)}))))]
  (mark "load" nil)
  (reset! of (count tests))
  (binding [clojure.test/report report clojure.test/*test-out* *out*]
   (doseq [[n vs] (group-by (comp :ns meta) tests)] (clojure.test/test-vars vs)))
  {:tests (count @seen) :times (take 20000 @times)
   :results (take 2000 (sort-by (comp {"error" 0 "fail" 1 "pass" 2} :outcome) @results))}))
