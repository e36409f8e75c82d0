;; Records calls to a project's functions, by replacing the values of vars with wrappers while a run is leased.
;; A wrapper records calls where its run's tape is bound: in code evaluated by `eval-ID`, and wherever bindings
;; are conveyed from it. Elsewhere it only calls the function. If a run is not renewed, a thread in the JVM ends
;; it. The thread also removes this namespace when there has been no run for the duration of a lease. A var is
;; only restored if it still contains the wrapper, so definitions made during the run are preserved. Functions
;; that a wrapper would break are not recorded: callers of functions with primitive signatures cast them to an
;; interface, protocols cache methods, and watches and validators would run. Source: Clojure 1.10 to 1.12,
;; `Var`, `IFn`, `RestFn`, `Compiler`.

(or (find-ns 'codriver.traces) (let [home (create-ns 'codriver.traces)
  each (int 200) most (int 10000) most-chars 4000000 most-arguments 8
  ^clojure.lang.Var tape-of-thread (doto ^clojure.lang.Var (intern home '*tape* nil) (.setDynamic))
  runs (atom {}) quiet (atom {:ms 0 :since 0}) watcher (atom nil)
  ^java.util.Map wrapped (java.util.concurrent.ConcurrentHashMap.)
  ^java.util.Map names (java.util.Collections/synchronizedMap (java.util.WeakHashMap.))
  {:keys [hidden lazy later? secret? elements value failure]} (TEXTS names)
  now (fn [] (System/currentTimeMillis))

  ; A tape is an array: functions by var, calls, their number, and the current call of each thread. A call is an array:
  ; function, caller, thread, start and end time, texts of arguments, result and error, and the current calls.
  began (fn [^objects tape function arguments more]
   (let [i (.getAndIncrement ^java.util.concurrent.atomic.AtomicInteger (aget tape 2))]
    (when (< i (int most))
     (let [^ThreadLocal under-way (aget tape 3) call (object-array 9)
       texts (into (mapv value arguments) (elements more value (max 0 (- most-arguments (count arguments)))))
       places (when-let [places-of (:secret-at function)] (places-of (count texts)))]
      (aset call 0 function) (aset call 1 (.get under-way)) (aset call 2 (Thread/currentThread))
      (aset call 5 (if places (vec (map-indexed (fn [i t] (if (places i) hidden t)) texts)) texts))
      (aset call 8 under-way)
      (.set under-way call)
      (aset call 3 (Long/valueOf (System/nanoTime)))
      (aset ^objects (aget tape 1) i call) call))))
  enter (fn [^objects tape v arguments more]
   (when-some [function (.get ^java.util.Map (aget tape 0) v)]
    (let [^java.util.concurrent.atomic.AtomicInteger number (:number function)]
     (if (<= (.incrementAndGet number) (int each)) (began tape function arguments more)
      (.set number (unchecked-inc-int each))))))
  left (fn [^objects call]
   (aset call 4 (Long/valueOf (System/nanoTime)))
   (.set ^ThreadLocal (aget call 8) (aget call 1)))
  ; A lazy result is described at the end of the run, as far as it is realized then, unless it was garbage-collected.
  leave (fn [^objects call x] (left call) (aset call 6 (if (later? x) (java.lang.ref.SoftReference. x) (value x))) x)
  fail (fn [^objects call e] (left call) (aset call 7 (failure e)) (throw e))

  ; A wrapper has as many fixed parameters as its function. With more, it would realize more of a lazy rest argument.
  arity (fn [given more]
   (let [call (if more (list '.applyTo 'was (cons `list* (conj given 'more))) (list* '.invoke 'was given))]
    (list (if more (conj given '& 'more) given)
     (list `if-some ['tape '(.deref tape-of-thread)]
      (list `if-some ['call (list 'enter 'tape 'v given (when more 'more))]
       (list 'try (list 'leave 'call call) '(catch Throwable e (fail call e)))
       call)
      call))))
  maker (memoize (fn [rest-at]
   (let [letters '[a b c d e f] most-fixed (min 6 (or rest-at 6))]
    (eval (list `fn [(with-meta 'tape-of-thread {:tag 'clojure.lang.Var}) 'enter 'leave 'fail]
     (list `fn ['v (with-meta 'was {:tag 'clojure.lang.IFn})]
      (cons `fn (concat (for [n (range (if (= rest-at most-fixed) most-fixed (inc most-fixed)))]
                          (arity (subvec letters 0 n) false))
                        [(arity (subvec letters 0 most-fixed) true)]))))))))
  wrapper (fn [v was]
   (let [rest-at (when (instance? clojure.lang.RestFn was) (.getRequiredArity ^clojure.lang.RestFn was))
     made (((maker rest-at) tape-of-thread enter leave fail) v was)]
    (if (meta was) (with-meta made (meta was)) made)))

  ; The functions to record
  folder (fn [^String path] (str (.getCanonicalPath (java.io.File. path)) java.io.File/separator))
  within? (fn [folders ^java.io.File file] (let [path (.getCanonicalPath file)]
   (some (fn [^String folder] (and (.startsWith path folder)
     (not (re-find #"(^|[/\\])[.][^/\\]+[/\\]" (subs path (count folder)))))) folders)))
  own? (fn [folders n]
   (let [path (.. (str (ns-name n)) (replace \- \_) (replace \. \/))
     found (keep (fn [e] (.getResource (clojure.lang.RT/baseLoader) (str path e))) [".clj" ".cljc" "__init.class"])]
    (cond (re-find #"^(clojure|cider|refactor-nrepl|orchard|leiningen)([.]|$)" (str (ns-name n))) false
     (seq found) (every? (fn [^java.net.URL u]
       (and (= "file" (.getProtocol u)) (within? folders (java.io.File. (.toURI u))))) found)
     :else (every? (fn [v] (let [f (:file (meta v)) ^java.io.File f (when (string? f) (java.io.File. ^String f))]
       (or (nil? f) (not (.isAbsolute f)) (within? folders f)))) (vals (ns-interns n))))))
  place (fn [run n] (or (get @(:places run) n)
   (let [found (cond (re-find #"^(clojure[.]core|clojure[.]main|nrepl|clojure[.]tools[.]nrepl|codriver)([.]|$)"
                       (str (ns-name n))) :tooling
                 (own? (:folders run) n) :own
                 :else :library)]
    (swap! (:places run) assoc n found) found)))
  matches? (fn [run n named] (let [^String space (str (ns-name n)) is-own (= :own (place run n))]
   (some (fn [^String text] (or (= text space) (.startsWith space (str text ".")) (= text (str space "/" named))
     (and is-own (= text (str named))))) (:names run))))
  selector (fn [run n] (cond (= :tooling (place run n)) (constantly false)
   (empty? (:names run)) (constantly (= :own (place run n)))
   :else (fn [named] (matches? run n named))))
  primitive? (fn [f] (some (fn [^Class c] (.startsWith (.getName c) "clojure.lang.IFn$")) (supers (class f))))
  kind (fn [^clojure.lang.Var v] (let [m (meta v) f (.getRawRoot v) named (str (:name m))]
   (cond (or (not (.hasRoot v)) (:macro m) (and (:test m) (not (:arglists m)))) nil
    (instance? clojure.lang.MultiFn f) "multimethods"
    (:protocol m) "protocol methods"
    (not (fn? f)) nil
    (:inline m) "inlined functions"
    (primitive? f) "primitive signatures"
    (and (re-find #"^(map)?->." named)
         (class? (get (ns-map (.ns v)) (symbol (.replaceAll named "^(map)?->" ""))))) "constructors"
    (or (seq (.getWatches v)) (.getValidator v)) "watched vars"
    (not (instance? clojure.lang.AFunction f)) "objects called as functions"
    :else :function)))
  ; A class from a file only refers to other classes of its namespace if its calls are linked directly.
  linked? (fn [f] (let [^Class c (class f) own (.replace (.getName c) "." "/")]
   (when-not (instance? clojure.lang.DynamicClassLoader (.getClassLoader c))
    (when-let [in (.getResourceAsStream c (str (subs own (inc (.lastIndexOf own "/"))) ".class"))]
     (let [space (java.util.regex.Pattern/quote (subs own 0 (inc (.indexOf own "$"))))]
      (some (fn [^String named] (not (or (= own named) (.startsWith named (str own "$")))))
       (re-seq (re-pattern (str space "[A-Za-z0-9_$]+")) (slurp in :encoding "ISO-8859-1"))))))))
  named-as (fn [i p] (cond (symbol? p) (str p)
   (and (map? p) (:as p)) (str (:as p))
   (and (vector? p) (= :as (last (butlast p)))) (str (last p))
   :else (str "arg" (inc i))))
  secret-at (fn [lists] (when (some secret? (flatten lists)) (memoize (fn [n]
   (or (some (fn [given] (let [[fixed [_ more]] (split-with (fn [p] (not= "&" p)) given)]
     (when (or (= n (count fixed)) (and more (> n (count fixed))))
      (set (keep-indexed (fn [i p] (when (secret? p) i)) (concat fixed (repeat (- n (count fixed)) more))))))) lists)
    #{})))))
  function-of (fn [v] (let [m (meta v) lists (mapv (fn [given] (vec (map-indexed named-as given))) (:arglists m))]
   {:var v :space (str (ns-name (:ns m))) :named (str (:name m)) :file (or (:file m) "") :line (or (:line m) 0)
    :parameters lists :secret-at (secret-at lists) :number (java.util.concurrent.atomic.AtomicInteger.)}))
  functions (fn [run] (aget ^objects (:tape run) 0))
  has? (fn [run v] (.containsKey ^java.util.Map (functions run) v))
  wraps? (fn [^clojure.lang.Var v] (when-let [known (.get wrapped v)] (identical? (.getRawRoot v) (:now known))))
  ; Code that compares or stores definitions during a run must use the value behind a wrapper.
  under (fn [v root] (let [known (.get wrapped v)] (if (and known (identical? root (:now known))) (:was known) root)))
  wrap (fn [run ^clojure.lang.Var v]
   (when-not (wraps? v)
    (let [was (.getRawRoot v) now (wrapper v was)]
     (.put names now (subs (str v) 2))
     (.put wrapped v {:was was :now now})
     (alter-var-root v (fn [f] (if (identical? f was) now f)))))
   (when-not (has? run v)
    (let [f (:was (.get wrapped v))]
     (cond (.startsWith (.getName (class f)) "clojure.core$") (swap! (:unseen run) assoc v "stored functions")
      (linked? f) (swap! (:unseen run) assoc v "functions that are linked directly"))
     (.put ^java.util.Map (functions run) v (function-of v)))))
  wrap-all (fn [run] (locking home
   (doseq [n (all-ns) :let [mappings (ns-map n) [known vs] (get @(:seen run) n)
             vs (if (identical? known mappings) vs (let [selected? (selector run n)]
               (vec (for [[named v] (ns-interns n) :when (selected? named)] v))))]]
    (swap! (:seen run) assoc n [mappings vs])
    (doseq [v vs :when (not (and (has? run v) (wraps? v)))]
     (let [k (if (wraps? v) :function (kind v))]
      (cond (= :function k) (wrap run v) k (swap! (:unseen run) assoc v k)))))))
  unwrap (fn [] (doseq [[^clojure.lang.Var v {:keys [was now]}] (into {} wrapped)
                        :when (not-any? (fn [run] (has? run v)) (vals @runs))]
   (alter-var-root v (fn [f] (if (identical? f now) was f)))
   (.remove wrapped v)))

  ; Runs
  finish (fn [id] (locking home (when-let [run (get @runs id)]
   (swap! runs dissoc id)
   (swap! quiet assoc :since (now))
   (doseq [n ["eval-" "print-"]] (ns-unmap home (symbol (str n id))))
   (let [known (into {} (functions run))]
    (.clear ^java.util.Map (functions run))
    (unwrap)
    (assoc run :known known)))))
  check-leases (fn [] (locking home
   (doseq [[id run] @runs :when (> (now) @(:until run))] (finish id))
   (when (and (empty? @runs) (> (- (now) (:since @quiet)) (:ms @quiet)))
    (remove-ns 'codriver.traces) (reset! watcher nil) true)))
  begin (fn [id wants folders lease]
   (let [ms (Long/parseLong lease) calls (object-array most) number (java.util.concurrent.atomic.AtomicInteger.)
     tape (object-array [(java.util.concurrent.ConcurrentHashMap.) calls number (ThreadLocal.)])
     run {:names wants :folders (vec (distinct (map folder (cons (System/getProperty "user.dir") folders))))
          :tape tape :ms ms :until (atom (+ ms (now))) :places (atom {}) :seen (atom {}) :unseen (atom {})
          :is-entered (atom false)}
     printer (some-> (find-ns 'codriver.kept) (ns-resolve 'print))
     taped (fn [act] (push-thread-bindings {tape-of-thread tape}) (try (act) (finally (pop-thread-bindings))))]
    (swap! runs assoc id run)
    (swap! quiet assoc :ms ms :pause (max 50 (min 1000 (quot ms 4))))
    (wrap-all run)
    (intern home (symbol (str "eval-" id)) (fn [form]
     (reset! (:is-entered run) true)
     (let [x (taped (fn [] (eval form)))] (when (contains? @runs id) (wrap-all run)) x)))
    (intern home (symbol (str "print-" id)) (fn [x writer options] (taped (fn [] (printer x writer options)))))
    (when-not @watcher
     (let [work (fn [] (Thread/sleep (long (:pause @quiet))) (when-not (check-leases) (recur)))]
      (reset! watcher (doto (Thread. ^Runnable work "codriver-traces") (.setDaemon true) (.setContextClassLoader nil)
                            (.start)))))
    {:eval (str "codriver.traces/eval-" id) :print (when printer (str "codriver.traces/print-" id))}))
  rows (fn [calls]
   (let [numbers (java.util.IdentityHashMap.) places (java.util.HashMap.) threads (java.util.LinkedHashMap.)
     start (when (seq calls) (aget ^objects (first calls) 3))
     put (fn [^java.util.Map m x] (or (.get m x) (let [n (.size m)] (.put m x n) n)))
     us (fn [a b] (quot (- (long b) (long a)) 1000))]
    (loop [left calls found [] chars (long 0)]
     (if (or (empty? left) (> chars most-chars))
      {:calls found :functions (mapv key (sort-by val places))
       :threads (mapv (fn [^Thread t] (.getName t)) (keys threads))}
      (let [[function parent thread began ended arguments result error] (first left)
            result (if (instance? java.lang.ref.SoftReference result)
                    (let [x (.get ^java.lang.ref.SoftReference result)] (if (nil? x) lazy (value x))) result)]
       (.put numbers (first left) (count found))
       (recur (rest left)
        (conj found [(put places function) (or (get numbers parent) -1) (put threads thread) (us start began)
          (if ended (us began ended) -1) arguments result error 0])
        (long (+ chars 80 (count result) (count error) (reduce + (map count arguments))))))))))
  ; A fingerprint of a function's current text in its file: the lines from its first to the start of the next form.
  lines-of (fn [^String file] (let [at (or (.getResource (clojure.lang.RT/baseLoader) file) (java.io.File. file))]
   (vec (.split ^String (slurp at) "\n"))))
  text-mark (fn [all line] (let [[own & more] (drop (dec line) all)
    within (take-while (fn [^String line] (not (or (.startsWith line "(") (.startsWith line "#")))) more)
    blank? (fn [^String line] (or (= "" (.trim line)) (.startsWith (.trim line) ";")))]
   (when own (hash (cons own (reverse (drop-while blank? (reverse within))))))))
  marks (fn [] (let [known (memoize lines-of)] (fn [file line]
   (try (when (pos? line) (text-mark (known file) line)) (catch Exception _ nil)))))

  report (fn [run]
   (let [tape (:tape run) number (.get ^java.util.concurrent.atomic.AtomicInteger (aget ^objects tape 2))
     calls (filter some? (take number (aget ^objects tape 1)))
     {called :functions :as found} (rows calls)
     missing (remove (fn [^String text] (some (fn [v] (matches? (assoc run :names [text])
                                                                (:ns (meta v)) (:name (meta v))))
                (concat (keys (:known run)) (keys @(:unseen run))))) (:names run))
     unseen (for [[k n] (sort (frequencies (vals @(:unseen run))))] (str k " (" n ")"))
     listed (fn [parts] (apply str (interpose ", " parts)))
     n (count (:calls found)) mark-of (marks)]
    (assoc found :functions (for [{:keys [space named file line parameters number]} called
                                  :let [n (.get ^java.util.concurrent.atomic.AtomicInteger number)]]
                             [space named file line parameters (min n each) (> n each) (mark-of file line)])
     :lisp true
     :notes (remove nil?
      [(when (< n number) (str "only the first " n " calls are recorded"))
       (when (seq missing) (str "no loaded function matches " (listed missing)))
       (when (seq unseen) (str "not recorded: " (listed unseen)))]))))
  direct? (fn [] (or (= "true" (System/getProperty "clojure.compiler.direct-linking"))
                     (:direct-linking *compiler-options*)))
  expired "the server did not renew the lease in time, so the wrapped functions were restored"
  run (fn [step id & [wants folders lease]] (locking home (case step
   "begin" (cond (not (identical? home (find-ns 'codriver.traces))) {:missing true}
            (direct?)
             {:refused "the REPL compiles code with direct linking, which bypasses vars: start it without"}
            :else (begin id wants folders lease))
   "renew" (if-let [run (get @runs id)] (do (reset! (:until run) (+ (:ms run) (now))) true) false)
   "end" (let [run (finish id)] (cond (nil? run) {:refused expired}
          (not @(:is-entered run)) {:refused "this nREPL server cannot use another function than eval"}
          :else (report run))))))
  mark (fn [step v] (when-some [^objects tape (.deref tape-of-thread)]
   (when-let [run (first (filter (fn [run] (identical? tape (:tape run))) (vals @runs)))]
    (case step
     "load" (wrap-all run)
     "begin" (when ((selector run (:ns (meta v))) (:name (meta v)))
              (let [function (function-of v)]
               (.incrementAndGet ^java.util.concurrent.atomic.AtomicInteger (:number function))
               (began tape function [] nil)))
     "end" (let [^ThreadLocal under-way (aget tape 3)]
            (loop [call (.get under-way)]
             (when call (if (= v (:var (aget ^objects call 0))) (leave call nil) (recur (aget ^objects call 1))))))))))]
 (intern home 'run run) (intern home 'mark mark) (intern home 'under under) home))
