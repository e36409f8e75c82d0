;; Returns the namespaces loaded from files in a directory, and the outdated objects that they still contain.
;; `known` has a line for each known namespace: its name, its fingerprint, and whether it belongs to the
;; directory. Namespaces with unchanged fingerprints are not described again. A fingerprint changes when a var,
;; its metadata or something that the namespace refers to is replaced. No user code is run. Values are only
;; searched inside Clojure's own collections and references, and inside closures.

(fn [^String known ^String root-path]
 (let [known (into {} (map (fn [l] (let [[n h w] (.split ^String l " ")] [n [h w]])) (.split known "\n")))
  root (str (.getCanonicalPath (java.io.File. root-path)) java.io.File/separator)
  within? (fn [^java.io.File f] (.startsWith (str (.getCanonicalPath f) java.io.File/separator) ^String root))
  loaders (take-while some? (iterate (fn [^ClassLoader l] (.getParent l)) (clojure.lang.RT/baseLoader)))
  urls (concat (map (fn [p] (java.io.File. ^String p))
                (.split (System/getProperty "java.class.path") java.io.File/pathSeparator))
        (for [l loaders :when (instance? java.net.URLClassLoader l)
              ^java.net.URL u (.getURLs ^java.net.URLClassLoader l) :when (= "file" (.getProtocol u))]
          (java.io.File. (.getPath u))))
  dirs (doall (distinct (filter (fn [^java.io.File f] (and (.isDirectory f) (within? f))) urls)))
  place (memoize (fn [^String p] (when p (let [f (java.io.File. p)]
    (if (.isAbsolute f) (when (and (.isFile f) (within? f)) p)
     (some (fn [^java.io.File d] (let [g (java.io.File. d p)] (when (.isFile g) (.getPath g)))) dirs))))))
  core (the-ns 'clojure.core)
  under (or (some-> (find-ns 'codriver.traces) (ns-resolve 'under)) (fn [_ x] x)) ; if calls are recorded
  root-of (fn [^clojure.lang.Var v] (under v (.getRawRoot v)))
  scan (fn [^clojure.lang.Namespace n]
    (let [own (java.util.ArrayList.) far (java.util.ArrayList.)
          entries (.iterator ^Iterable (.getMappings n))]
     (loop [h 0]
      (if (.hasNext entries)
       (let [^java.util.Map$Entry e (.next entries) v (.getValue e)]
        (if (instance? clojure.lang.Var v)
         (let [^clojure.lang.Var v v]
          (cond
           (identical? n (.ns v))
            (do (.add own e) (recur (+ h (* 31 (long (System/identityHashCode (root-of v))))
                                       (long (System/identityHashCode (.meta v))))))
           (identical? core (.ns v)) (recur h)
           :else (do (.add far e) (recur (+ h (long (System/identityHashCode v)))))))
         (if (instance? clojure.lang.DynamicClassLoader (.getClassLoader ^Class v))
          (do (.add far e) (recur (+ h (long (System/identityHashCode v)))))
          (recur h))))
       {:mark (str h) :own own :far far}))))
  base (fn [n] (.replace (.replace (str n) "-" "_") "." "/"))
  nowhere? #{"NO_SOURCE_PATH" "NO_SOURCE_FILE"}
  row (fn [[s ^clojure.lang.Var v]] (let [m (.meta v) f (:file m)]
    [(str s) (or (place f) (when-not (nowhere? f) f)) (:line m) (str (System/identityHashCode (root-of v)))
     (str (System/identityHashCode m))]))
  spaces (doall (for [^clojure.lang.Namespace n (all-ns)
    :let [name (str (ns-name n)) [was in] (known name) {h :mark own :own :as scanned} (scan n)
          it (assoc scanned :ns name :the n)]]
   (if (= h was) (assoc it :in (= in "1") :same true)
    (let [rows (map row own)
      files (distinct (keep identity (concat (map (fn [e] (place (str (base name) e))) [".clj" ".cljc"])
                                             (map (comp place second) rows))))]
     (if (seq files) (assoc it :in true :files files :vars rows) (assoc it :in false))))))
  ours (filter :in spaces)
  homes (into {} (map (fn [o] [(munge (:ns o)) (:the o)]) ours))
  home (fn [^Class c] (let [s (.getName c) at (.lastIndexOf s ".")] (when (pos? at) (homes (subs s 0 at)))))
  heir? (fn [^Class c] (when-let [^clojure.lang.Namespace n (home c)]
    (let [now (.getMapping n (symbol (subs (.getName c) (inc (.lastIndexOf (.getName c) ".")))))]
      (and (class? now) (not (identical? now c)) (= (.getName ^Class now) (.getName c))))))
  faces (into {} (for [o ours [_ ^clojure.lang.Var v] (:own o)
    :let [r (root-of v) i (when (map? r) (:on-interface r))] :when (class? i)]
    [(.getName ^Class i) [i (str (:ns o) "/" (.sym v))]]))
  former (fn [^Class c] (some (fn [^Class i] (let [[now p] (faces (.getName i))]
    (when (and now (not (identical? now i))) p))) (.getInterfaces c)))
  old (for [o ours [s v] (:far o)
    :let [row (if (class? v)
      (when (home v) (if (heir? v) ["old" (.getName ^Class v)]
        (when (identical? (:the o) (home v)) (when-let [p (former v)] ["former" p]))))
      (let [^clojure.lang.Var v v] (when-not (identical? v (.findInternedVar (.ns v) (.sym v)))
        ["old" (str (.name (.ns v)) "/" (.sym v))])))]
    :when row] (into [(:ns o) (str s)] row))
  left (atom 10000) counts (atom {}) held (atom #{}) here (atom nil)
  functions (into {} (for [o ours [s ^clojure.lang.Var v] (:own o) :let [r (root-of v)]
    :when (and (instance? clojure.lang.AFunction r)
           (= (.getName (class r)) (str (munge (:ns o)) "$" (munge (str s)))))]
    [(.getName (class r)) [(class r) (str (:ns o) "/" s)]]))
  function (fn [x] (when-let [[now v] (functions (.getName (class x)))]
    (when-not (identical? now (class x)) (swap! held conj (conj @here "old" v)))))
  inside (fn [x] (for [^java.lang.reflect.Field f (.getDeclaredFields (class x))
    :when (not (java.lang.reflect.Modifier/isStatic (.getModifiers f)))]
    (try (.setAccessible f true) (.get f x) (catch Throwable _ nil))))
  tell (fn [x] (when (heir? (class x)) (let [c (.getName (class x))]
    (swap! counts update [(str (ns-name (home (class x)))) (subs c (inc (.lastIndexOf c ".")))] (fnil inc 0)))))
  box? (fn [x] (or (instance? clojure.lang.Atom x) (instance? clojure.lang.Ref x) (instance? clojure.lang.Agent x)
                   (instance? clojure.lang.Volatile x)))
  plain? (fn [x] (and (coll? x) (counted? x) (.startsWith (.getName (class x)) "clojure.lang.Persistent")))
  walk (fn walk [x depth] (when (and (some? x) (pos? depth) (pos? (swap! left dec)))
    (cond
      (box? x) (walk @x (dec depth))
      (record? x) (do (tell x) (doseq [[_ v] x :while (pos? @left)] (walk v (dec depth))))
      (instance? clojure.lang.IType x) (tell x)
      (instance? clojure.lang.AFunction x)
       (do (function x) (doseq [v (inside x) :while (pos? @left)] (walk v (dec depth))))
      (and (map? x) (plain? x)) (doseq [[k v] x :while (pos? @left)] (walk k (dec depth)) (walk v (dec depth)))
      (plain? x) (doseq [v x :while (pos? @left)] (walk v (dec depth))))))]
  (doseq [o ours [s ^clojure.lang.Var v] (:own o)] (reset! here [(:ns o) (str s)]) (walk (root-of v) 6))
  {:began (str (.getStartTime (java.lang.management.ManagementFactory/getRuntimeMXBean)))
   :names (apply str (interpose " " (map :ns spaces)))
   :spaces (map (fn [s] (select-keys s [:ns :mark :files :vars])) (remove :same spaces))
   :old (concat old @held) :instances (map (fn [[[n c] x]] [n c (str x)]) @counts)}))
