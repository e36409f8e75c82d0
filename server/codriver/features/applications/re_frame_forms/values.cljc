(ns codriver.seam-values
  "Print an application's values for agents, without sensitive parts.

  This namespace is not loaded in the application. `framework_forms.py` copies the functions that an accessor uses into its
  expression. Runs on the JVM, in ClojureScript and in nbb, and requires only clojure.core and clojure.string.")

;; Refusals

(defn refuse
  "End the accessor with a refusal. The reason is one of a closed list."
  [reason hint]
  (throw (ex-info hint {:ok false :reason reason :hint hint})))

(defn needed
  "Return a function of the framework by its role. Refuse if the framework lacks it."
  [rf role]
  (or (get rf role)
      (refuse "band-missing" (get (:missing rf) role (str "this framework has no " (name role))))))

;; Texts

(defn clip [text most]
  (if (< most (count text)) (str (subs text 0 most) "…") text))

(defn plain
  "Return the name of a keyword without its colon, or any other value as it prints."
  [x]
  (cond (nil? x) nil
        (keyword? x) (subs (str x) 1)
        (string? x) x
        :else (pr-str x)))

(defn named?
  "Return whether a string names this value, with or without its colon."
  [x text]
  (let [text (str text)] (or (= text (pr-str x)) (= text (plain x)))))

(defn read-text
  "Read one EDN form without evaluating it."
  [rf reason text]
  (let [found (try ((:read rf) (str "[" text "\n]"))
                   (catch #?(:clj Throwable :cljs :default) _ nil))]
    (if (= 1 (count found))
      (first found)
      (refuse reason (str "the text must be a single EDN form: " (clip (str text) 80))))))

(defn path-of
  "Parse a path, which is either a vector in EDN or names and numbers separated by dots."
  [rf text]
  (let [text (str text)]
    (cond (= "" text) []
          (= "[" (subs text 0 1)) (vec (read-text rf "path-not-found" text))
          :else (mapv (fn [part] (cond (re-matches #"\d+" part) (read-text rf "path-not-found" part)
                                       (= ":" (subs part 0 1)) (keyword (subs part 1))
                                       :else (keyword part)))
                      (remove #{""} (clojure.string/split text #"\."))))))

;; Printing values, with markers for sensitive and large parts

(defn covered? [hidden path]
  (boolean (some (fn [prefix] (and (<= (count prefix) (count path)) (= prefix (subvec path 0 (count prefix))))) hidden)))

(defn mark [seen kind size path]
  (vswap! (:elided seen) inc)
  (str "#codriver/elided {:type " kind " :count " size " :path " (pr-str path) "}"))

(defn listed [text-of all] (apply str (interpose ", " (map text-of all))))

(declare show)

(defn branch [v path seen kind pairs]
  (let [texts (mapv (fn [[k part]] [k (show part (conj path k) seen)]) pairs)
        joined (fn [parts] (apply str (interpose " " parts)))]
    (cond (= "map" kind) (str "{" (listed (fn [[k text]] (str (pr-str k) " " text)) texts) "}")
          (= "vector" kind) (str "[" (joined (map second texts)) "]")
          (= "set" kind) (str "#{" (joined (map second texts)) "}")
          :else (str "(" (joined (map second texts)) ")"))))

(defn show
  "Print the value at a path.

  Parts are omitted beyond 2,048 characters in a string, 50 elements, 8 levels, or 20,000 characters altogether."
  [v path seen]
  (let [kind (cond (map? v) "map" (vector? v) "vector" (set? v) "set" (sequential? v) "list")
        size (when kind (if (counted? v) (count v) (bounded-count 51 v)))
        text (cond (covered? (:hidden seen) path) (do (vswap! (:redacted seen) inc) ":codriver/redacted")
                   (and kind (pos? size) (not (:whole seen))
                        (or (< 50 size) (<= 8 (count path)) (neg? @(:left seen))))
                   (mark seen kind (if (counted? v) size "many") path)
                   kind (branch v path seen kind (if (= "map" kind) (seq v) (map-indexed vector v)))
                   (and (string? v) (< 2048 (count v)) (not (:whole seen))) (mark seen "string" (count v) path)
                   :else (let [text (pr-str v)]
                           (if (and (< 12288 (count text)) (not (:whole seen)))
                             (mark seen "value" (count text) path)
                             text)))]
    (vswap! (:left seen) - (if kind 2 (count text)))
    text))

(defn looking
  "Return the settings for printing a value, with counters for the redacted and omitted parts."
  [hidden whole]
  {:hidden hidden :whole whole :left (volatile! 20000) :redacted (volatile! 0) :elided (volatile! 0)})

(defn brief
  "Print a value briefly, for a line of the trace."
  [v]
  (clip (if (string? v) v (show v [] (looking [] false))) 200))

(defn texts-in [v]
  (cond (string? v) (when (<= 8 (count v)) [v])
        (map? v) (mapcat texts-in (vals v))
        (coll? v) (mapcat texts-in v)))

(defn without
  "Return an answer with each secret in its strings replaced."
  [hidden x]
  (cond (empty? hidden) x
        (string? x) (reduce (fn [text secret]
                              (clojure.string/replace (clojure.string/replace text secret "<redacted>")
                                                      (let [printed (pr-str secret)]
                                                        (subs printed 1 (dec (count printed))))
                                                      "<redacted>"))
                            x hidden)
        (map? x) (into {} (map (fn [[k v]] [k (without hidden v)])) x)
        (coll? x) (mapv (fn [v] (without hidden v)) x)
        :else x))

(defn differences
  "Return the differences between two values, each as an operation, path, old value and new value."
  [a b path]
  (cond (identical? a b) nil
        (and (map? a) (map? b))
        (mapcat (fn [k] (cond (not (contains? b k)) [["removed" (conj path k) (get a k) nil]]
                              (not (contains? a k)) [["added" (conj path k) nil (get b k)]]
                              :else (differences (get a k) (get b k) (conj path k))))
                (distinct (concat (keys a) (keys b))))
        (and (vector? a) (vector? b))
        (mapcat (fn [i] (cond (<= (count b) i) [["removed" (conj path i) (get a i) nil]]
                              (<= (count a) i) [["added" (conj path i) nil (get b i)]]
                              :else (differences (get a i) (get b i) (conj path i))))
                (range (max (count a) (count b))))
        (= a b) nil
        :else [["changed" path a b]]))

(defn part
  "Return the requested part of a long value. Its secrets must have been replaced, because parts of them would not be."
  [answer args]
  (let [text (:value answer) from (or (:from args) 0)]
    (if (and (string? text) (or (pos? from) (and (:maxChars args) (< (:maxChars args) (count text)))))
      (let [from (min from (count text)) to (min (count text) (+ from (or (:maxChars args) (count text))))]
        (assoc answer :value (subs text from to) :from from :total (count text)))
      answer)))
