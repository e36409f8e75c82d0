;; Holds: records what a load changes, so that it can be reverted. Before and after a load, records the vars,
;; mappings and aliases of all namespaces and the tables of multimethods, and stores each object that differs.
;; This includes protocols, because their maps and functions are values of vars. To revert a load, the objects
;; are put back through private fields of Clojure, so no code of the user runs, including watches and
;; validators. Definitions that have changed again since the load are not reverted. This program defines the
;; function that does all of it, because compiling takes longer than running it. Source: Clojure 1.10 to 1.12,
;; `Var`, `Namespace`, `MultiFn`.

(let [home (create-ns 'codriver.holds)
  held (deref (or (find-var 'codriver.holds/held) (intern home 'held (atom {}))))
  field (fn [^Class c ^String n] (doto (.getDeclaredField c n) (.setAccessible true)))
  look (fn [^java.lang.reflect.Field f x] (.get f x))
  put (fn [^java.lang.reflect.Field f x y] (.set f x y))
  root (field clojure.lang.Var "root") maps (field clojure.lang.Namespace "mappings")
  aka (field clojure.lang.Namespace "aliases")
  table (field clojure.lang.MultiFn "methodTable") prefer (field clojure.lang.MultiFn "preferTable")
  ; While calls are recorded, the root of a var may be a wrapper of its value.
  roots (fn [] (let [under (or (some-> (find-ns 'codriver.traces) (ns-resolve 'under)) (fn [_ x] x))]
    (fn [v] (under v (look root v)))))
  cell (fn ^java.util.concurrent.atomic.AtomicReference [f n] (look f n))
  now-of (fn [f n] (.get ^java.util.concurrent.atomic.AtomicReference (look f n)))
  snapshot (fn [] (let [root-of (roots) spaces (remove #{home} (all-ns))
     vars (distinct (mapcat (fn [n] (filter (fn [v] (and (var? v) (= n (.ns ^clojure.lang.Var v))))
       (vals (now-of maps n)))) spaces))]
    {:vars (into {} (map (fn [v] [v [(root-of v) (meta v)]]) vars))
     :spaces (into {} (map (fn [n] [n [(now-of maps n) (now-of aka n)]]) spaces))
     :multis (into {} (keep (fn [v] (let [r (look root v)]
       (when (instance? clojure.lang.MultiFn r) [r [(look table r) (look prefer r)]]))) vars))}))
  of-project (fn [n] (let [path (.. (str n) (replace \- \_) (replace \. \/))
     found (keep (fn [e] (clojure.java.io/resource (str path e))) [".clj" ".cljc" "__init.class"])]
    (every? (fn [^java.net.URL u] (= "file" (.getProtocol u))) found)))
  changes (fn [was now] (let [root-of (roots)] (concat
    (for [[n _] (:spaces now) :when (not (contains? (:spaces was) n))] {:kind :space :of n})
    (for [[v [r m]] (:vars was) :let [[r2 m2] (get (:vars now) v [r m])]
          :when (not (and (identical? r r2) (identical? m m2)))] {:kind :var :of v :old r :meta m :new (root-of v)})
    (for [[n [m a]] (:spaces was) :let [[m2 a2] (get (:spaces now) n [m a])] :when (not (identical? m m2))
          s (distinct (concat (keys m) (keys m2))) :when (not (identical? (get m s) (get m2 s)))]
      {:kind :name :of n :name s :old (get m s) :new (get m2 s)})
    (for [[n [_ a]] (:spaces was) :let [[_ a2] (get (:spaces now) n [nil a])] :when (not (identical? a a2))]
      {:kind :aliases :of n :old a :new a2})
    (for [[r [t p]] (:multis was) :let [[t2 p2] (get (:multis now) r [t p])]
          :when (not (and (identical? t t2) (identical? p p2)))] {:kind :multi :of r :old t :prefers p :new t2}))))
  set-key (fn [^java.util.concurrent.atomic.AtomicReference a s old new]
    (loop [] (let [m (.get a)] (cond (not (identical? new (get m s))) false
      (.compareAndSet a m (if (nil? old) (dissoc m s) (assoc m s old))) true :else (recur)))))
  revert (fn [{:keys [kind of old new] :as c}] (case kind
    :var (when (identical? new ((roots) of))
      (put root of old) (alter-meta! of (constantly (:meta c))) true)
    :name (set-key (cell maps of) (:name c) old new)
    :aliases (.compareAndSet ^java.util.concurrent.atomic.AtomicReference (cell aka of) new old)
    :multi (when (identical? new (look table of))
      (put table of old) (put prefer of (:prefers c)) (remove-method of (Object.)) true)
    :space true))
  label (fn [{:keys [kind of] :as c}] (case kind :var (subs (str of) 2) :name (str of "/" (:name c)) (str of)))
  run (fn [id step] (case step
  "before" (do (swap! held (fn [h] (let [h (if (> (count h) 8) {} h)]
     (update h id (fn [hold] (assoc hold :was (snapshot) :known (or (:known hold) (set (all-ns))))))))) [])
  "after" (do (swap! held update id (fn [hold] (if-let [was (:was hold)]
     (-> hold (dissoc :was) (update :changes into (changes was (snapshot)))) hold))) [])
  "keep" (do (swap! held dissoc id) [])
  "restore" (let [{:keys [changes known]} (get @held id)
     left (doall (keep (fn [c] (when-not (revert c) (label c))) changes))]
   (swap! held dissoc id)
   (doseq [n (all-ns) :when (and known (not (known n)) (not (.startsWith (str n) "codriver."))
                      (of-project (ns-name n)))]
     (remove-ns (ns-name n)) (dosync (commute @#'clojure.core/*loaded-libs* disj (ns-name n))))
   (vec (distinct left)))))]
 (intern home 'run run) nil)
