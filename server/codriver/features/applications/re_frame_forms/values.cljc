(ns codriver.seam-values
  "Values of an application as an agent may see them, for forms that Codriver evaluates in it. Pure.

  Nothing of it is loaded there: `re_frame.py` puts what a form mentions into it. Runs on the JVM, in ClojureScript and
  nbb; needs clojure.core and clojure.string alone.")

;; Refusals

(defn refuse
  "Ends the accessor with a refusal, its reason of the closed list."
  [reason hint]
  (throw (ex-info hint {:ok false :reason reason :hint hint})))

(defn needed
  "A function of the framework, or the refusal that names what is missing."
  [rf role]
  (or (get rf role)
      (refuse "band-missing" (get (:missing rf) role (str "this framework has no " (name role))))))

;; Texts

(defn clip [text most]
  (if (< most (count text)) (str (subs text 0 most) "…") text))

(defn plain
  "A name without its colon; what is no name as it prints."
  [x]
  (cond (nil? x) nil
        (keyword? x) (subs (str x) 1)
        (string? x) x
        :else (pr-str x)))

(defn named?
  "Whether a text names this value: with or without its colon."
  [x text]
  (let [text (str text)] (or (= text (pr-str x)) (= text (plain x)))))

(defn read-text
  "The value of one EDN form; never evaluated."
  [rf reason text]
  (let [found (try ((:read rf) (str "[" text "\n]"))
                   (catch #?(:clj Throwable :cljs :default) _ nil))]
    (if (= 1 (count found))
      (first found)
      (refuse reason (str "one EDN form is needed, and this is none: " (clip (str text) 80))))))

(defn path-of
  "A path as it is written: a vector of EDN, or names and numbers with dots between."
  [rf text]
  (let [text (str text)]
    (cond (= "" text) []
          (= "[" (subs text 0 1)) (vec (read-text rf "path-not-found" text))
          :else (mapv (fn [part] (cond (re-matches #"\d+" part) (read-text rf "path-not-found" part)
                                       (= ":" (subs part 0 1)) (keyword (subs part 1))
                                       :else (keyword part)))
                      (remove #{""} (clojure.string/split text #"\."))))))

;; ValueFormatter: values as text, without what is declared sensitive, and with marks for what is large

(defn covered? [hidden path]
  (boolean (some (fn [one] (and (<= (count one) (count path)) (= one (subvec path 0 (count one))))) hidden)))

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
  "A value at a path as text. Large is a text above 2,048 characters, 50 elements, 8 levels, 20,000 characters in all."
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
  "The state of one egress: what is hidden, and what was met."
  [hidden whole]
  {:hidden hidden :whole whole :left (volatile! 20000) :redacted (volatile! 0) :elided (volatile! 0)})

(defn brief
  "A value in a line of the trace."
  [v]
  (clip (if (string? v) v (show v [] (looking [] false))) 200))

(defn texts-in [v]
  (cond (string? v) (when (<= 8 (count v)) [v])
        (map? v) (mapcat texts-in (vals v))
        (coll? v) (mapcat texts-in v)))

(defn without
  "An answer with each secret taken out of its texts."
  [hidden x]
  (cond (empty? hidden) x
        (string? x) (reduce (fn [text one] (clojure.string/replace
                                            (clojure.string/replace text one "<redacted>")
                                            (let [printed (pr-str one)] (subs printed 1 (dec (count printed))))
                                            "<redacted>"))
                            x hidden)
        (map? x) (into {} (map (fn [[k v]] [k (without hidden v)])) x)
        (coll? x) (mapv (fn [v] (without hidden v)) x)
        :else x))

(defn differences
  "Each difference of two values: what was done, its path, before, after."
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
  "A long value's part that was asked for; cut when nothing secret is left in it that could be torn in two."
  [told args]
  (let [text (:value told) from (or (:from args) 0)]
    (if (and (string? text) (or (pos? from) (and (:maxChars args) (< (:maxChars args) (count text)))))
      (let [from (min from (count text)) to (min (count text) (+ from (or (:maxChars args) (count text))))]
        (assoc told :value (subs text from to) :from from :total (count text)))
      told)))
