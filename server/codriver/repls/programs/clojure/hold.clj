;; Held definitions: what a load changed, kept so that it can be put back. Before and after a load the REPL looks
;; at the vars of all namespaces, their mappings and aliases, and the tables of multimethods; what differs is kept,
;; each object as it was, protocols among them, whose maps and functions are values of vars. To put it back, these
;; objects are set again, by fields that Clojure keeps to itself: no code of the user's runs, no watch and no
;; validator. What was defined anew since stays. The form defines the function that does it, as compiling takes
;; longer than the function does. Source: Clojure 1.10 to 1.12, `Var`, `Namespace`, `MultiFn`.

(let [home (create-ns 'codriver.holds)
  held (deref (or (find-var 'codriver.holds/held) (intern home 'held (atom {}))))
  field (fn [^Class c ^String n] (doto (.getDeclaredField c n) (.setAccessible true)))
  look (fn [^java.lang.reflect.Field f x] (.get f x))
  put (fn [^java.lang.reflect.Field f x y] (.set f x y))
  root (field clojure.lang.Var "root") maps (field clojure.lang.Namespace "mappings")
  aka (field clojure.lang.Namespace "aliases")
  table (field clojure.lang.MultiFn "methodTable") prefer (field clojure.lang.MultiFn "preferTable")
  ; Where calls are recorded meanwhile, a var holds a wrapper of its root.
  roots (fn [] (let [under (or (some-> (find-ns 'codriver.traces) (ns-resolve 'under)) (fn [_ x] x))]
    (fn [v] (under v (look root v)))))
  cell (fn ^java.util.concurrent.atomic.AtomicReference [f n] (look f n))
  now-of (fn [f n] (.get ^java.util.concurrent.atomic.AtomicReference (look f n)))
  picture (fn [] (let [root-of (roots) spaces (remove #{home} (all-ns))
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
  back (fn [{:keys [kind of old new] :as c}] (case kind
    :var (when (identical? new ((roots) of))
      (put root of old) (alter-meta! of (constantly (:meta c))) true)
    :name (set-key (cell maps of) (:name c) old new)
    :aliases (.compareAndSet ^java.util.concurrent.atomic.AtomicReference (cell aka of) new old)
    :multi (when (identical? new (look table of))
      (put table of old) (put prefer of (:prefers c)) (remove-method of (Object.)) true)
    :space true))
  said (fn [{:keys [kind of] :as c}] (case kind :var (subs (str of) 2) :name (str of "/" (:name c)) (str of)))
  run (fn [id step] (case step
  "before" (do (swap! held (fn [h] (let [h (if (> (count h) 8) {} h)]
     (update h id (fn [one] (assoc one :was (picture) :known (or (:known one) (set (all-ns))))))))) [])
  "after" (do (swap! held update id (fn [one] (if-let [was (:was one)]
     (-> one (dissoc :was) (update :changes into (changes was (picture)))) one))) [])
  "keep" (do (swap! held dissoc id) [])
  "restore" (let [{:keys [changes known]} (get @held id)
     left (doall (keep (fn [c] (when-not (back c) (said c))) changes))]
   (swap! held dissoc id)
   (doseq [n (all-ns) :when (and known (not (known n)) (not (.startsWith (str n) "codriver."))
                      (of-project (ns-name n)))]
     (remove-ns (ns-name n)) (dosync (commute @#'clojure.core/*loaded-libs* disj (ns-name n))))
   (vec (distinct left)))))]
 (intern home 'run run) nil)
