(ns codriver.seam
  "The seam of a Clojure application: state, epochs, trace and changes, for an agent that looks into it while it runs.

  An application requires this namespace, calls `install!`, and names its state by `watch-atom!` or `frame!`; its state and
  its events then reach whoever evaluates code in its process, by `call`. No dependencies: Clojure 1.10 or later, ClojureScript, nbb.
  Loading it does nothing, and without `install!` nothing is kept but the places of handlers."
  (:require [clojure.edn :as edn]
            [clojure.string :as str])
  #?@(:org.babashka/nbb [] :cljs [(:require-macros [codriver.seam])]))

(def ^:private contract "The version of the shapes of answers." 1)
(def ^:private most
  "What is kept and shown at most. Kept: events in all, failures that are known again, epochs of a frame, secrets of a frame, events that are waited for.
  Shown: characters of a text, items of a collection, levels, characters of a value, characters of a tag, parts of one."
  {:events 2000, :failures 100, :epochs 50, :secrets 200, :queued 200, :text 2048, :items 50, :depth 8, :shown 20000, :tag 300, :parts 8,
   :changes 100, :endless 100000})
(def ^:private secret-chars "The shortest text that is looked for as a secret." 8)
(def ^:private torn-chars "So many characters of a secret at the end of a text that was cut are taken out too." 4)
(def ^:private redacted "What stands in a text in place of a secret." "<redacted>")
(def ^:private refusal "The source of the event of a change that was refused: an agent's mistake, and no issue of the application." "refusal")
(def ^:private failed "The refusal where code of the application failed: its getters, setters and predicates." "accessor-failed")
(def ^:private overdue-ms "An event that was queued so long ago, and has no epoch, may never have one." 5000)

(def ^:private at-rest
  {:last-id 0, :last-dispatch 0, :last-subscription 0, :installed-ms 0, :probes 0, :loads 0, :events [], :failures [], :frames {},
   :draining {}, :queued {}, :handlers {}, :machines {}, :predicates {}, :subscriptions {}, :wrapped {}})
(defonce ^{:doc "Holds the id by which the seam is found: made by `install!`, another one in each process."} session-id
  (atom nil))
(defonce ^{:private true, :doc "Holds all that the seam of this process knows."} state (atom at-rest))
(def ^:dynamic *origin* "Who caused what happens, and by which evaluation; nil: the application." nil)
(def ^:dynamic *cause* "The dispatch under way: its `:dispatch-id`, and by frame the epoch that goes on." nil)
(def ^:dynamic *reading?* "Whether we read for an agent, which makes no events." false)
(def ^:dynamic *written* "The frame whose state we set ourselves, which is no change of the application's." nil)

;; Hosts

#?(:clj (defn- evaluating "The origin that the message of the evaluation under way on this thread names: of nREPL, a thread of its own." []
          (when (str/starts-with? (.getName (Thread/currentThread)) "nREPL-")
            (some (fn [space]
                    (let [message (some-> (find-ns space) (ns-resolve '*msg*))]
                      (when-let [{:keys [who evaluation]} (:codriver/origin (some-> message deref))]
                        {:who who, :evaluation evaluation})))
                  '[nrepl.middleware.interruptible-eval clojure.tools.nrepl.middleware.interruptible-eval]))))

(defn- origin-now "Who causes what happens here, and by which evaluation; nil: the application." []
  (or *origin* #?(:clj (evaluating) :cljs nil)))

(defn- now-s "The time, in seconds since the epoch." []
  (/ #?(:clj (System/currentTimeMillis) :cljs (js/Date.now)) 1000.0))

(defn- clock-ms "A clock that never goes back." []
  #?(:clj (/ (System/nanoTime) 1e6) :cljs (js/performance.now)))

(defn- process-id [] ; Java 8 has no other way
  #?(:clj (edn/read-string (first (str/split (.getName (java.lang.management.ManagementFactory/getRuntimeMXBean)) #"@")))
     :cljs (some-> js/globalThis .-process .-pid)))

(defn- switched-on? "Whether the environment switches the seam on." []
  (= "1" #?(:clj (System/getenv "CODRIVER_SEAM")
            :cljs (some-> js/globalThis .-process .-env (js/Reflect.get "CODRIVER_SEAM")))))

(defn- host-map? [value] #?(:clj (instance? java.util.Map value) :cljs (object? value)))

(defn- host-list? [value]
  #?(:clj (or (instance? java.util.Collection value) (boolean (some-> value class .isArray))) :cljs (array? value)))

(defn- must-end? "Whether an error is the host's way to end a thread." [error]
  #?(:clj (= "java.lang.ThreadDeath" (.getName (class error))) :cljs (do error false)))

(defn- error-name [error]
  #?(:clj (last (str/split (.getName (class error)) #"\."))
     :cljs (cond (ex-data error) "ExceptionInfo" (instance? js/Error error) (.-name error) :else "Thrown")))

;; Texts

(defn- cut "A text, or so many of its characters and a mark that there were more." [text chars]
  (if (<= (count text) chars) text (str (subs text 0 chars) "\u2026")))

(defn- words-of "The message of an error." [error]
  (cut (str (or (ex-message error) #?(:cljs (when-not (instance? js/Error error) (pr-str error))) "")) (:text most)))

(defn- told "An error in words: its name and message." [error]
  (str (error-name error) ": " (words-of error)))

(defn- printed "A value as it prints itself, whatever comes of that." [value]
  (try (pr-str value)
       (catch #?(:clj Throwable :cljs :default) error
         (if (must-end? error) (throw error) (str "#<cannot be printed: " (error-name error) ">")))))

(defn- label "A name as it is shown: a text as it is, anything else as it prints itself." [value]
  (cond (string? value) value (keyword? value) (str value) :else (printed value)))

(def ^:private unprintable
  #?(:clj #"[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cn}\p{Cs}\u00a0\u3000]"
     :cljs (js/RegExp. "[\\p{Cc}\\p{Cf}\\p{Zl}\\p{Zp}\\p{Co}\\p{Cn}\\p{Cs}\\u00a0\\u3000]" "gu")))

(defn- hex "The code of a character in so many digits." [code digits]
  (let [text #?(:clj (Integer/toHexString code) :cljs (.toString code 16))]
    (str (subs "0000" 0 (max 0 (- digits (count text)))) text)))

(defn- code-of [text]
  #?(:clj (.codePointAt ^String text 0) :cljs (.codePointAt text 0)))

(defn- one-line "A text with every character visible: whoever uses the application writes it." [text]
  (str/replace text unprintable
               (fn [found]
                 (let [code (code-of found)]
                   (case code
                     9 "\\t" 10 "\\n" 13 "\\r"
                     (if (< code 256) (str "\\x" (hex code 2)) (str "\\u" (hex code 4))))))))

(defn- three-digits "A number with three significant digits." [number]
  #?(:clj (.toPlainString (.stripTrailingZeros (.round (bigdec number) (java.math.MathContext. 3))))
     :cljs (str (js/Number (.toPrecision number 3)))))

(defn- json-text [text]
  (str "\""
       (str/replace text #"[\"\\\u0000-\u001f\u007f\u2028\u2029\ud800-\udfff]"
                    (fn [found]
                      (case found
                        "\"" "\\\"" "\\" "\\\\" "\n" "\\n"
                        (str "\\u" (hex #?(:clj (int (first found)) :cljs (.charCodeAt found 0)) 4)))))
       "\""))

(defn- camel "The name of a key in JSON." [key]
  (str/replace (name key) #"-(.)" #(str/upper-case (second %))))

(defn- kebab "The key by its name in JSON." [key]
  (keyword (str/replace (name key) #"[A-Z]" #(str "-" (str/lower-case %)))))

(defn- json "A value as JSON; keys that are keywords are ours." [value]
  (cond
    (nil? value) "null"
    (string? value) (json-text value)
    (boolean? value) (str value)
    (integer? value) (str value)
    (number? value) (let [number (double value)]
                      (if #?(:clj (or (Double/isNaN number) (Double/isInfinite number)) :cljs (not (js/isFinite number)))
                        "null"
                        (str number)))
    (map? value) (str "{"
                      (str/join "," (for [[k v] value]
                                      (str (json-text (if (keyword? k) (camel k) (str k))) ":" (json v))))
                      "}")
    (coll? value) (str "[" (str/join "," (map json value)) "]")
    :else (json-text (label value))))

;; Values: parts by path, differences, and text without what is sensitive

(defn- kind-of "The kind of a collection, nil of any other value. Values of one kind are compared by their parts." [value]
  (cond (record? value) (type value) (map? value) :map (vector? value) :vector (set? value) :set
        (sequential? value) :seq (host-map? value) :host-map (host-list? value) :host-list))

(defn- parts-of "The parts of a collection, each with the step of a path that leads to it; nil of any other value." [value]
  (case (kind-of value)
    nil nil
    :host-map #?(:clj (map (juxt key val) value) :cljs (map (juxt identity #(js/Reflect.get value %)) (js-keys value)))
    (if (map? value) (map (juxt key val) value) (map-indexed vector value))))

(defn- bounded-parts "The parts of a collection, which may be an endless one." [value]
  (take (:endless most) (parts-of value)))

(defn- record-name [value]
  (or (re-find #"^#[^{\[( ]+" (binding [*print-length* 0] (printed value))) "#record"))

(defn- kind-name [value]
  (let [kind (kind-of value)]
    (cond (string? value) "string"
          (keyword? kind) (name kind)
          kind (record-name value)
          :else #?(:clj (if (nil? value) "nil" (.getSimpleName (class value))) :cljs (or (some-> value .-constructor .-name not-empty) "object")))))

(defn- mutable? "Whether a value can change and stay the object that it is, as far as its type tells." [value]
  (not (or (coll? value) (nil? value) (string? value) (number? value) (boolean? value) (ident? value) (uuid? value)
           (char? value) (fn? value))))

(defn- unread? "Whether there is a reason in place of a state that could not be kept." [kept]
  (boolean (and (map? kept) (::unread kept))))

(defn- covers? "Whether a path is that of something hidden, or leads on into it." [hidden path]
  (and (<= (count hidden) (count path))
       (every? true? (map #(or (= :* %1) (= %1 %2)) hidden path))))

(defn- egress "The one exit of values: what stands at `hidden` paths is not shown, and what is large is marked." [hidden whole?]
  {:hidden hidden, :whole? whole?, :counts (volatile! {:left (:shown most), :redacted 0, :elided 0})})

(defn- mark "A mark for what is large: its kind, its size, and the path that gives the whole." [{:keys [counts]} kind size path]
  (vswap! counts update :elided inc)
  (str "#codriver/elided {:kind " (printed kind) ", :count " size ", :path " (printed path) "}"))

(defn- unrealised? [value]
  #?(:clj (and (instance? clojure.lang.IPending value) (not (realized? value)))
     :cljs (and (satisfies? IPending value) (not (realized? value)))))

(declare shown)

(defn- leaf [{:keys [whole?] :as egress} value path]
  (if (and (string? value) (not whole?) (> (count value) (:text most)))
    (mark egress "string" (count value) path)
    (let [text #?(:clj (if (instance? clojure.lang.IDeref value) (str "#object[" (.getName (class value)) "]") (printed value))
                  :cljs (if (satisfies? IDeref value) "#object[reference]" (printed value)))]
      (if (and (> (count text) (* 6 (:text most))) (not whole?))
        (mark egress (kind-name value) (count text) path)
        text))))

(defn- realised-parts "The parts of a collection that are there without any work." [value]
  (if (= :seq (kind-of value))
    (map-indexed vector (loop [found [], rest-of value]
                          (if (or (unrealised? rest-of) (empty? rest-of) (> (count found) (:items most)))
                            found
                            (recur (conj found (first rest-of)) (rest rest-of)))))
    (parts-of value)))

(defn- branch [{:keys [whole? counts careful?] :as egress} value path]
  (let [items (if whole? (:endless most) (:items most))
        size (cond (counted? value) (count value)
                   careful? (count (realised-parts value))
                   :else (bounded-count (inc items) (parts-of value)))
        deep? (and (not whole?) (pos? size) (or (>= (count path) (:depth most)) (<= (:left @counts) 0)))]
    (if (or deep? (and (> size items) (not (and whole? (counted? value)))))
      (mark egress (kind-name value) (if (or (counted? value) (<= size items)) size (str "\"more than " items "\"")) path)
      (let [parts (mapv (fn [[step part]] [step (shown egress part (conj path step))]) (if careful? (realised-parts value) (parts-of value)))
            entries #(str "{" (str/join ", " (for [[step text] parts] (str (cut (printed step) (:text most)) " " text))) "}")
            items #(str %1 (str/join " " (map second parts)) %2)]
        (case (kind-of value)
          :vector (items "[" "]")
          :set (items "#{" "}")
          :seq (items "(" ")")
          :map (entries)
          :host-list (items #?(:clj "[" :cljs "#js [") "]")
          :host-map (str #?(:clj "" :cljs "#js ") (entries))
          (str (record-name value) (entries)))))))

(def ^:private secret-name "Names of variables and keys whose values a capture does not show."
  #"(?i)passw|secret|token|api.?key|credential")

(defn- shown "The text of a value that stands at a path of the state." [{:keys [hidden counts careful?] :as egress} value path]
  (cond
    (some #(covers? % path) hidden)
    (do (vswap! counts update :redacted inc) ":codriver/redacted")
    (and careful? (let [step (peek path)] (and (or (ident? step) (string? step)) (re-find secret-name (name step)))))
    "<not shown>"
    (and careful? (unrealised? value)) "<not realised>"
    :else
    (let [branch? (kind-of value)
          text (if branch? (branch egress value path) (leaf egress value path))]
      (vswap! counts update :left - (if branch? 2 (count text)))
      text)))

(defn- refuse "Ends a question or a change that is refused, for a `reason` of the closed list." [reason hint & {:as more}]
  (throw (ex-info hint {::refusal (merge {:ok false, :reason reason, :hint hint} more)})))

(defn- word-steps "The steps that a word of a dotted path may be." [word]
  (concat (when (re-matches #"\d+" word) [(edn/read-string word)]) [(keyword word) word (symbol word)]))

(defn- step-into "The step and the part of a value to which it leads, if any." [value step]
  (let [steps (if (::word (meta step)) (word-steps (first step)) [step])]
    (when-not (set? value)
      (some (fn [step]
              (if (and (associative? value) (not (host-list? step)))
                (when (contains? value step) [step (get value step)])
                (some #(when (= step (first %)) %) (bounded-parts value))))
            steps))))

(defn- part-at "The path as it was found in a value, and the part there; refused where there is none." [value path]
  (loop [found [], value value, [step & more :as steps] path]
    (if (empty? steps)
      [found value]
      (if-let [[step part] (step-into value step)]
        (recur (conj found step) part more)
        (let [names (when-not (set? value) (str/join ", " (map (comp printed first) (take (:items most) (parts-of value)))))]
          (refuse "path-not-found" (str "the path exists up to " (printed found) ", "
                                        (if (seq names) (str "where the keys are " names)
                                            "where the value has no parts"))))))))

(defn- found-at "As `part-at`; nil where there is none." [value path]
  (try (part-at value path)
       (catch #?(:clj clojure.lang.ExceptionInfo :cljs :default) error
         (when-not (::refusal (ex-data error)) (throw error)))))

(defn- texts-at "The texts at a sensitive path, and below it, that are long enough to be looked for." [value [step & more :as path]]
  (cond
    (and (string? value) (empty? path)) (when (<= secret-chars (count value)) (list value))
    (empty? path) (filter #(and (string? %) (<= secret-chars (count %)))
                          (take (:endless most) (tree-seq kind-of #(map second (parts-of %)) value)))
    (and (= :* step) (map? value) (not (record? value)) (= 1 (count more)) (keyword? (first more)) (not= :* (first more)))
    (mapcat #(when (map? %) (when-some [part (get % (first more))] (texts-at part nil))) (take (:endless most) (vals value)))
    (and (map? value) (not= :* step)) (when (contains? value step) (texts-at (get value step) more))
    :else (mapcat (fn [[at part]] (when (or (= :* step) (= at step)) (texts-at part more))) (bounded-parts value))))

(defn- differences "The differences between two values: what was added, removed or changed, each with its path."
  ([old new] (differences old new []))
  ([old new path]
   (when-not (identical? old new)
     (let [kind (kind-of old)]
       (if (or (nil? kind) (= :set kind) (not= kind (kind-of new)))
         (when-not (try (= old new) (catch #?(:clj Exception :cljs :default) _ false))
           [{:op "changed", :path path, :old old, :new new}])
         (let [olds (into {} (bounded-parts old)), news (into {} (bounded-parts new))]
           (concat
            (mapcat (fn [[step was]]
                      (if-let [[_ is] (find news step)]
                        (differences was is (conj path step))
                        [{:op "removed", :path (conj path step), :old was}]))
                    (bounded-parts old))
            (for [[step is] (bounded-parts new) :when (not (contains? olds step))]
              {:op "added", :path (conj path step), :new is}))))))))

(defn- untorn "The text without the beginnings of secrets that end where it was cut." [text secrets]
  (let [[end & pieces] (reverse (str/split text #"\u2026" -1))
        whole (fn [piece]
                (or (some (fn [secret]
                            (some #(when (str/ends-with? piece (subs secret 0 %))
                                     (str (subs piece 0 (- (count piece) %)) redacted))
                                  (range (count secret) (dec torn-chars) -1)))
                          secrets)
                    piece))]
    (str/join "\u2026" (concat (map whole (reverse pieces)) [end]))))

(defn- without "An answer with each secret taken out of its texts, as it is and as it is printed; the longest first." [value secrets]
  (cond
    (empty? secrets) value
    (string? value) (let [forms (fn [secret]
                                  (let [inner (printed secret), inner (subs inner 1 (dec (count inner)))]
                                    (distinct [secret inner (one-line secret) (one-line inner)])))
                          text (reduce #(str/replace %1 %2 redacted) value (mapcat forms secrets))]
                      (if (str/includes? text "\u2026") (untorn text secrets) text))
    (map? value) (into (empty value) (for [[k v] value] [k (without v secrets)]))
    (coll? value) (mapv #(without % secrets) value)
    :else value))

;; Recording

(defn- newest "The newest so many of a vector." [kept size]
  (if (> (count kept) size) (subvec kept (- (count kept) size)) kept))

(defn- ring "A vector of at most so many, and one more." [kept size one]
  (let [kept (conj kept one)] (if (> (count kept) size) (into [] (newest kept size)) kept)))

(defn- loose-ring "As `ring`, cut when it is twice as long: what comes is not copied each time." [kept size one]
  (let [kept (conj kept one)] (if (> (count kept) (* 2 size)) (into [] (newest kept size)) kept)))

(defn- scalar? [value] ; `inst?` of anything else takes as long as all of this
  (or (nil? value) (ident? value) (number? value) (boolean? value) (uuid? value) (char? value)
      #?(:clj (instance? java.util.Date value) :cljs (inst? value))))

(defn- tag-part [value]
  (cond (string? value) (cut value (quot (:tag most) (:parts most)))
        (scalar? value) value
        :else (symbol (str "<" (kind-name value) ">"))))

(defn- tag "A tag as it is kept: no text is long, no object lives on by it, and none is printed." [value]
  (cond (string? value) (cut value (:tag most))
        (scalar? value) value
        (and (coll? value) (counted? value) (<= (count value) (:parts most)))
        (if (map? value)
          (into {} (map (fn [[k v]] [(tag-part k) (tag-part v)])) value)
          (mapv tag-part value))
        :else (str "<" (kind-name value) ">")))

(def ^:private fields "The fields of an event by which it is found; all else that is told of it are its tags."
  #{:frame :event-id :handler-id :source :ms})

(defn emit!
  "Notes an event; its id, or 0 where the seam is off or an agent reads.

  `op-type` is event, fx, error, warning, info, log or any other. `details` may have `:frame`, `:event-id`, `:handler-id`,
  `:source` and `:ms`; all else are tags of the event."
  ([op-type operation] (emit! op-type operation nil))
  ([op-type operation details]
   (if (or (nil? @session-id) *reading?*)
     0
     (let [origin (origin-now)
           told (cond-> {:time (now-s), :op-type (if (ident? op-type) (name op-type) (str op-type)), :operation operation}
                  origin (assoc :origin origin)
                  *cause* (assoc :dispatch-id (:dispatch-id *cause*)))
           event (reduce-kv (fn [event k v]
                              (cond (not (contains? fields k)) (assoc event :tags (assoc (:tags event) k (tag v)))
                                    (some? v) (assoc event k (tag v))
                                    :else event))
                            told details)
           {:keys [last-id events subscriptions]}
           (swap! state (fn [{:keys [last-id events] :as s}]
                          (let [id (inc last-id)]
                            (assoc s :last-id id :events (loose-ring events (:events most) (assoc event :id id))))))]
       (when (seq subscriptions)
         (doseq [[_ {:keys [offer]}] subscriptions] (offer (peek events))))
       last-id))))

(defn- next-dispatch! "The id of a dispatch that begins." []
  (:last-dispatch (swap! state update :last-dispatch inc)))

(defn- note-secrets! "Remembers the texts at the sensitive paths of a frame's value." [{:keys [id sensitive]} value]
  (let [found (into [] (mapcat #(texts-at value %)) sensitive)
        {:keys [secrets standing]} (get-in @state [:frames id])]
    (when-not (= found standing)
      (let [new (take-last (:secrets most) (distinct (remove (set secrets) found)))]
        (swap! state (fn [s]
                       (if (get-in s [:frames id])
                         (-> (assoc-in s [:frames id :standing] found)
                             (update-in [:frames id :secrets]
                                        #(reduce (fn [kept text] (ring kept (:secrets most) text)) % new)))
                         s)))))))

(defn- look "The state of a frame now, whose texts at sensitive paths are remembered." [frame]
  (let [value ((:get frame))]
    (note-secrets! frame value)
    value))

(defn- copied "A state that stays as it is, whatever the application does with that one." [{:keys [snapshot]} value]
  (if snapshot (snapshot value) value))

(defn- keep-state "The state of a frame now, so that it stays as it is; in its place the reason where it cannot be kept." [frame]
  (try (copied frame (look frame))
       (catch #?(:clj Throwable :cljs :default) error
         (if (must-end? error) (throw error) {::unread (told error)}))))

(defn- record-epoch! "Keeps an epoch of a frame, with its id." [{:keys [id sure? depth]} {:keys [before after] :as epoch}]
  (let [epoch (assoc epoch :time (now-s) :origin (origin-now) :dispatch-id (:dispatch-id *cause*)
                     ; One object that can change cannot tell what changed.
                     :told? (boolean (or sure? (not (identical? before after)) (not (mutable? before)))))
        {:keys [last-id]} (swap! state (fn [s]
                                         (let [number (inc (:last-id s))]
                                           (cond-> (assoc s :last-id number)
                                             (get-in s [:frames id])
                                             (update-in [:frames id :epochs] ring depth (assoc epoch :id number))))))]
    (assoc epoch :id last-id)))

(defn- within-epoch? "Whether an epoch of the frame goes on here." [frame-id]
  (when-let [token (get-in *cause* [:epochs frame-id])]
    (contains? (get-in @state [:draining frame-id]) token)))

#?(:clj
   (defn- file-of "The file of code with that base name in a namespace; nil where it is a library's." [ns-name base]
     (let [path (str (first (re-find #"^.*/|^" (str/replace (munge ns-name) "." "/"))) base)
           resource (.getResource (clojure.lang.RT/baseLoader) path)]
       (cond (nil? resource) (or (some (fn [v]
                                         (let [file (str (:file (meta v)))]
                                           (when (str/ends-with? file base) file)))
                                       (some-> (find-ns (symbol ns-name)) ns-interns vals))
                                 base)
             (= "file" (.getProtocol resource)) (.getPath resource)))))

(defn- place-of "The innermost place in the application's own code that an error came through." [error]
  #?(:clj (let [^Throwable root (last (take-while some? (iterate ex-cause error)))]
            (or (some (fn [^StackTraceElement frame]
                        (let [class-name (.getClassName frame), base (str (.getFileName frame))]
                          (when (and (re-find #"\.cljc?$|^NO_SOURCE" base)
                                     (not (re-find #"^(clojure|nrepl|codriver\.seam)[.$]" class-name)))
                            (when-let [file (file-of (clojure.main/demunge (first (str/split class-name #"\$"))) base)]
                              (str file ":" (.getLineNumber frame))))))
                      (.getStackTrace root))
                ""))
     :org.babashka/nbb (let [{:keys [file line]} (ex-data error)] (if line (str file ":" line) ""))
     :cljs (str/trim (or (second (str/split-lines (str (.-stack error)))) ""))))

(defn- root-of "What an error was raised from in the end: errors of one root are one failure." [error]
  (last (take 20 (take-while some? (iterate ex-cause error)))))

(defn- weakly "A reference to an error that does not keep it, or nil where the host has none." [error]
  #?(:clj (java.lang.ref.WeakReference. error)
     :cljs (when (and (exists? js/WeakRef) (instance? js/Error error)) (js/WeakRef. error))))

(defn- refers? "Whether a reference is to that error." [reference error]
  (identical? error #?(:clj (.get ^java.lang.ref.WeakReference reference) :cljs (.deref reference))))

(defn- index-of "The index of the event with that id, the newest being looked at first; nil where it is not kept." [events id]
  (loop [n (dec (count events))]
    (cond (neg? n) nil (= id (:id (nth events n))) n :else (recur (dec n)))))

(defn- failure-of "The event of an error that was noted before, in the dispatch that goes on or in none." [error]
  (let [{:keys [failures events]} @state, root (root-of error), {:keys [dispatch-id]} *cause*
        index (some #(when (refers? (:root %) root) (index-of events (:id %))) (rseq failures))
        event (when index (nth events index))]
    (when (and event (or (nil? dispatch-id) (contains? #{nil dispatch-id} (:dispatch-id event)))) event)))

(defn- with-facts "An event with what another source tells of it; what was told first stays." [{:keys [event-id tags] :as event} details]
  (let [told (into {} (for [[k v] details :when (some? v)] [k (tag v)])), within (:event-id told)
        more (cond-> (apply dissoc told fields) (and within event-id (not= within event-id)) (assoc :within within))]
    (-> (merge (when-let [origin (origin-now)] {:origin origin}) (when *cause* (select-keys *cause* [:dispatch-id]))
               (select-keys told fields) event)
        (assoc :tags (merge tags more tags)))))

(defn- add-facts! "Adds to the event of a failure; its id." [id details]
  (let [{:keys [events subscriptions]}
        (swap! state update :events (fn [events] (if-let [index (index-of events id)] (update events index with-facts details) events)))]
    (when (seq subscriptions)
      (when-let [index (index-of events id)]
        (doseq [[_ {:keys [offer]}] subscriptions] (offer (nth events index)))))
    id))

(defn- forget-failure! "Has the next sighting of an error be a failure of its own, as after its thread has ended." [error]
  (let [root (root-of error)]
    (swap! state update :failures #(filterv (fn [known] (not (refers? (:root known) root))) %))))

(defn note-error!
  "Notes an error that was caught, with its place. `details` are those of `emit!`. One that was noted in the same dispatch,
  or has the same cause, is the same failure: what is told of it now is added to its event."
  ([error] (note-error! error nil))
  ([error details]
   (let [words (words-of error), known (when-not *reading?* (failure-of error))]
     (if known
       (add-facts! (:id known) (cond-> details
                                 (not= [(:operation known) (get-in known [:tags :message])] [(error-name error) (tag words)])
                                 (assoc :raised (told error))))
       (let [id (emit! "error" (error-name error) (assoc details :message words :at (place-of error)))]
         (when-let [root (when (pos? id) (weakly (root-of error)))]
           (swap! state update :failures ring (:failures most) {:root root, :id id}))
         id)))))

(defn- run-epoch "Handles an event, noted as one epoch of a frame: the value or the error, and the epoch." [frame-id event-id handle]
  (let [frame (get-in @state [:frames frame-id]), token #?(:clj (Object.) :cljs (js-obj))]
    (binding [*cause* {:dispatch-id (or (:dispatch-id *cause*) (next-dispatch!))
                       :epochs (assoc (:epochs *cause*) frame-id token)}]
      (try
        (let [before (keep-state frame), dispatch-id (:dispatch-id *cause*)]
          (swap! state #(-> % (update-in [:draining frame-id] (fnil conj #{}) token) (update :queued dissoc dispatch-id)))
          (emit! "event" "dispatched" {:frame frame-id, :event-id event-id})
          (let [began (clock-ms)
                [value error] (try [(handle)] (catch #?(:clj Throwable :cljs :default) error [nil error]))
                ms (/ (#?(:clj Math/round :cljs js/Math.round) (double (* 1000 (- (clock-ms) began)))) 1000.0)]
            (let [noted (if error (note-error! error {:frame frame-id, :event-id event-id}) 0)
                  recorded (record-epoch! frame {:event-id event-id, :before before, :after (keep-state frame), :ms ms,
                                                 :outcome (if error "error" "ok")})]
              (when (pos? noted) (add-facts! noted {:epoch (:id recorded)}))
              (swap! state update-in [:draining frame-id] disj token)
              (emit! "epoch" "snapshotted" {:frame frame-id, :event-id event-id, :ms ms, :epoch (:id recorded)})
              {:value value, :error error, :recorded recorded})))
        (finally (swap! state update-in [:draining frame-id] disj token))))))

;; What an application calls

(defn install!
  "Switches the seam on if `enabled`, or without that if the environment says CODRIVER_SEAM=1; whether it is on."
  ([] (install! (switched-on?)))
  ([enabled]
   (when (and enabled (nil? @session-id))
     (swap! state assoc :installed-ms (long (* 1000 (now-s))))
     (compare-and-set! session-id nil (str #?(:clj (java.util.UUID/randomUUID) :cljs (random-uuid))))
     #?(:cljs (js/Reflect.set js/globalThis "__codriver_seam"
                              #js {:sessionId @session-id, :installedMs (:installed-ms @state), :contract contract})))
   (some? @session-id)))

(defn forget! "Is as it was when it was loaded: for tests of applications." []
  (doseq [[_ {:keys [unwatch]}] (:frames @state) :when unwatch] (unwatch))
  (doseq [[_ {{:keys [end]} :capture}] (:subscriptions @state) :when end] (end))
  (reset! state at-rest)
  (reset! session-id nil))

(defn loaded! "Notes that code was loaded anew." []
  (swap! state update :loads inc)
  nil)

(defn frame!
  "Shows a part of the application's state under a name.

  `:get` gives it, `:set` replaces it, `:validate` gives nil or true for a value that fits, and else words; `:dispatch`
  handles an event before it returns, `:enqueue` hands it to the application's own loop. `:snapshot` is a function that
  copies a state which is changed in place, or `:none`, a promise that none ever is. At the `:sensitive` paths, with `:*`
  for any step, nothing is shown."
  [id options]
  (when @session-id
    (when-let [unwatch (get-in @state [:frames id :unwatch])] (unwatch))
    (swap! state update-in [:frames id]
           (fn [known]
             (merge {:depth (:epochs most)} options
                    {:id id, :sure? (= :none (:snapshot options)), :snapshot (when (fn? (:snapshot options)) (:snapshot options)),
                     :sensitive (mapv vec (:sensitive options)), :epochs (:epochs known []), :secrets (:secrets known [])})))
    id))

(defn watch-atom!
  "Shows what an atom holds, or a ref, under a name: each change is an epoch. `options` are those of `frame!`."
  ([id reference] (watch-atom! id reference nil))
  ([id reference options]
   (when @session-id
     (let [valid? #?(:clj (get-validator reference) :org.babashka/nbb nil :cljs (.-validator reference))]
       (frame! id (merge {:get #(deref reference), :set #(reset! reference %)}
                         (when valid? {:validate #(boolean (valid? %))})
                         options
                         {:unwatch #(remove-watch reference [::seam id])})))
     (add-watch reference [::seam id]
                (fn [_ _ before after]
                  (when-not (or (identical? before after) (= id *written*) (within-epoch? id))
                    (when-let [frame (get-in @state [:frames id])]
                      (binding [*cause* (or *cause* {:dispatch-id (next-dispatch!)})]
                        (note-secrets! frame after)
                        (let [recorded (record-epoch! frame {:event-id "changed", :before (copied frame before)
                                                             :after (copied frame after), :ms 0, :outcome "ok"})]
                          (emit! "epoch" "changed" {:frame id, :epoch (:id recorded)})))))))
     id)))

(defn machine! "Shows a state machine under a name: `state-of` gives its state." [id state-of]
  (when @session-id (swap! state assoc-in [:machines id] state-of) id))

(defn predicate! "Registers a test of events, which the filter `pred` can name." [id test]
  (when @session-id (swap! state assoc-in [:predicates id] test) id))

(defn handler!
  "Makes a var known, with its place, as a handler of some `kind`: event, fx or other. Also before `install!`."
  [kind id handler]
  (let [{:keys [ns file line column doc]} (meta handler)
        place {:ns (str ns), :file #?(:clj (or (file-of (str ns) (last (str/split (str file) #"/"))) file) :cljs file),
               :line line, :column column}]
    (swap! state assoc-in [:handlers [kind id]]
           (cond-> (merge {:kind (if (ident? kind) (name kind) (str kind)), :id (label id)} place)
             doc (assoc :doc (first (str/split-lines (str/trim doc))))))
    handler))

(defn in-epoch
  "Handles an event by calling `handle`, noted as one epoch of a frame; inside another epoch of it, by nothing.

  Gives its value; what it throws is noted, and goes on."
  [frame-id event-id handle]
  (if (or (nil? @session-id) (nil? (get-in @state [:frames frame-id])) (within-epoch? frame-id))
    (handle)
    (let [{:keys [value error]} (run-epoch frame-id event-id handle)]
      (if error (throw error) value))))

(defmacro epoch "The body, in which an event is handled, noted as one epoch of a frame. See `in-epoch`."
  [frame-id event-id & body]
  `(in-epoch ~frame-id ~event-id (fn [] ~@body)))

(defn bind
  "The function with the origin and the dispatch id of now, wherever it is called: in a queue, a thread, a callback."
  [function & arguments]
  (let [origin (origin-now), cause (some-> *cause* (select-keys [:dispatch-id]))]
    (fn [& more]
      (binding [*origin* origin, *cause* cause]
        (apply function (concat arguments more))))))

;; Reading: each accessor takes the map of its arguments and gives the map of its answer

(defn- same "A test of names: as it was written, or without the colon of a keyword." [wanted]
  (let [wanted (label wanted), forms #{wanted (str ":" wanted)}]
    #(and (some? %) (contains? forms (label %)))))

(defn- who-of "The caller of an origin." [origin]
  (str (:who origin "app")))

(defn- listing [names]
  (str/join ", " (map label names)))

(defn- frame-of "The frame that is named, else the only one; refused where it is not clear which." [{:keys [frame]}]
  (let [frames (:frames @state), names (keys frames)]
    (cond
      (and (nil? frame) (= 1 (count frames))) (val (first frames))
      (nil? frame) (if (seq frames)
                     (refuse "ambiguous-frame" (str "give frame: " (listing names)) :frames (mapv label names))
                     (refuse "no-frame-resolved" (str "give frame: none is registered: the application calls "
                                                      "(watch-atom! name atom) or (frame! name {:get f})") :frames []))
      :else (or (some (fn [[id found]] (when ((same frame) id) found)) frames)
                (refuse "no-such-frame" (str "frames: " (if (seq names) (listing names) "none is registered")))))))

(defn- read-edn "The one value of a text, in a vector; nil where it is none, or several." [text]
  (let [read (try (edn/read-string (str "[" text "\n]"))
                  (catch #?(:clj Throwable :cljs :default) error (when (must-end? error) (throw error))))]
    (when (= 1 (count read)) read)))

(defn- read-literal "The value of a text in EDN; refused where it is none." [name text reason]
  (if-let [[value] (read-edn text)]
    value
    (refuse reason (str name " is read as EDN, and " (printed (cut (str text) 80)) " is no single value of it"))))

(defn- path-of "A path as it is written: a vector, or one key, or names and numbers with dots between." [asked]
  (cond
    (sequential? asked) (vec asked)
    (str/blank? (str asked)) []
    :else (let [[value :as read] (read-edn asked)]
            (cond (sequential? value) (vec value)
                  (or (nil? read) (symbol? value)) (mapv #(with-meta [%] {::word true}) (str/split (str asked) #"\."))
                  :else [value]))))

(defn- last-id "The id of the newest event." []
  (:id (peek (:events @state)) 0))

(declare issues)

(defn- health "The seam itself, with what can be asked of it and why the rest cannot." [_]
  (let [{:keys [frames machines handlers events installed-ms loads]} @state
        none "no frame is registered"
        bare (for [[id {:keys [epochs]}] frames, :let [newest (peek epochs)], :when (and newest (not (:told? newest)))] id)]
    {:contract contract, :session-id @session-id, :installed-ms installed-ms, :build-tick loads,
     :language #?(:clj "clojure" :cljs "clojurescript"), :enabled true, :frames (mapv label (keys frames)),
     :ambiguous-frame (< 1 (count frames)), :pid (process-id),
     :bands {:inspect (if (seq frames) true none)
             :mutate (cond (some #(or (:set %) (:dispatch %) (:enqueue %)) (vals frames)) true
                           (seq frames) "no frame has :set, :dispatch or :enqueue"
                           :else none)
             :stream true
             :epochs (cond (seq bare) (str "no snapshots of " (listing bare)) (seq frames) true :else none)
             :machines (if (seq machines) true "no machine is registered")}
     :last-id (last-id), :events (min (count events) (:events most)), :handlers (count handlers), :issues (:total (issues {}))}))

(defn- state-at "The state of a frame, or its part at a path." [{:keys [path include-sensitive include-large] :as asked}]
  (let [{:keys [id sensitive] :as frame} (frame-of asked)
        [path value] (part-at (look frame) (path-of path))
        {:keys [counts] :as egress} (egress (when-not include-sensitive sensitive) (boolean include-large))
        text (shown egress value path)]
    (merge {:frame (label id), :path (printed path), :value text} (select-keys @counts [:redacted :elided]))))

(defn- limit-of [asked default]
  (max 1 (or (:limit asked) default)))

(declare changes)

(defn- changed-at "The changes that an epoch made to the part at a path; none where one of its states could not be read." [frame {:keys [before after] :as epoch} path]
  (when-not (or (unread? before) (unread? after)) (not-empty (first (changes frame epoch epoch path)))))

(defn- epochs "The epochs of a frame, the newest last; with a path those that changed the part there, and how." [{:keys [since filter path] :as asked}]
  (let [frame (frame-of asked)
        row (fn [epoch]
              (-> (select-keys epoch [:id :time :event-id :ms :origin :dispatch-id :outcome])
                  (update :event-id label) (update :origin who-of) (assoc :epoch-id (:id epoch)) (dissoc :id)))
        path (path-of path)
        rows (for [epoch (:epochs frame)
                   :when (< (or since 0) (:id epoch))
                   :let [row (row epoch)]
                   :when (every? (fn [[k v]] ((same v) (get row k))) filter)
                   :let [changed (when (seq path) (changed-at frame epoch path))]
                   :when (or changed (empty? path))]
               (cond-> row changed (assoc :changes changed)))
        rows (if (or (seq rows) (empty? path)) (vec rows) (do (part-at (look frame) path) []))
        shown (newest rows (limit-of asked 20))]
    {:frame (label (:id frame)), :epochs shown, :count (count shown), :total (count rows)}))

(defn- epoch-of "The epoch of that number, or the newest where none is given; refused where it is not kept." [{:keys [epochs]} number reason]
  (cond
    (empty? epochs) (refuse (if number reason "band-missing")
                            "no epoch is stored: no change was observed, and the application has not handled an event in (epoch \u2026)")
    (nil? number) (peek epochs)
    :else (or (some #(when (= number (:id %)) %) epochs)
              (refuse reason (str "the epochs " (:id (first epochs)) " to " (:id (peek epochs)) " are kept")))))

(defn- differences-at "The differences between two values at a path." [old new path]
  (let [[path-then was :as old?] (found-at old path), [path-now is :as new?] (found-at new path)]
    (cond (and old? new?) (differences was is path-now)
          old? [{:op "removed", :path path-then, :old was}]
          new? [{:op "added", :path path-now, :new is}])))

(defn- changes "The changes from before one epoch to after another at a path, and how many values in them are hidden." [frame from to path]
  (when-not (and (:told? from) (:told? to))
    (refuse "band-missing" (str "what changed is not known: it is the same object as before, and no snapshot was made; the "
                                "application gives the frame a function as :snapshot, or :none where no state is ever "
                                "changed in place")))
  (doseq [kept [(:before from) (:after to)] :when (unread? kept)]
    (refuse failed (str "the state could not be read: " (::unread kept))))
  (let [egress (egress (:sensitive frame) false)
        rows (vec (for [{:keys [op path old new]} (take (:changes most) (differences-at (:before from) (:after to) path))]
                    (cond-> {:op op, :path (printed path)}
                      (not= "added" op) (assoc :before (shown egress old path))
                      (not= "removed" op) (assoc :after (shown egress new path)))))]
    [rows (:redacted @(:counts egress))]))

(defn- diff "The changes of an epoch, or from one to another." [{:keys [epoch-id from to] :as asked}]
  (let [frame (frame-of asked)
        last (epoch-of frame (or to epoch-id) "no-such-epoch")
        first (if from (epoch-of frame from "no-such-epoch") last)
        [rows redacted] (changes frame first last [])]
    {:frame (label (:id frame)), :epoch-id (:id last), :event-id (label (:event-id last)), :changes rows, :count (count rows), :redacted redacted}))

(def ^:private filters
  "The tests of events, by their filters: each a function of the value that is asked for."
  (letfn [(equal [field] (fn [wanted] (comp (same wanted) field)))]
    (array-map
     :op-type (equal :op-type), :operation (equal :operation), :frame (equal :frame), :event-id (equal :event-id),
     :handler-id (equal :handler-id), :source (equal :source), :dispatch-id (equal :dispatch-id),
     :severity (fn [wanted]
                 (when-not (contains? #{"error" "warning" "info"} wanted)
                   (refuse "accessor-failed" "severity is one of error, warning, info"))
                 #(= wanted (:op-type %))),
     :origin (fn [wanted] #(or (= wanted (who-of (:origin %))) (= wanted (get (:origin %) :evaluation ::none))))
     :since (fn [id] #(< id (:id %)))
     :since-ms (fn [ms] #(< ms (* 1000 (:time %))))
     :between (fn [[first last]] #(<= first (* 1000 (:time %)) last))
     :pred (fn [wanted]
             (let [predicates (:predicates @state)]
               (or (some (fn [[id test]] (when ((same wanted) id) test)) predicates)
                   (refuse "no-such-predicate"
                           (str "registered are: " (if (seq predicates) (listing (keys predicates)) "none")))))))))

(defn- matcher "The test of events that a filter asks for: all of it has to hold." [asked]
  (let [tests (doall (for [[k wanted] asked]
                       ((or (filters k)
                            (refuse "accessor-failed" (str "there is no filter " (printed (camel k)) "; filters: "
                                                           (str/join ", " (map camel (keys filters))))))
                        wanted)))]
    (fn [event] (every? #(% event) tests))))

(defn- line-of
  "An event in one line: id, op-type, operation, frame, event, dispatch, time, origin, tags."
  [{:keys [id op-type operation frame event-id dispatch-id ms origin tags]}]
  (one-line
   (str/join " " (concat [id op-type (label operation)]
                         (when (or frame event-id) [(if frame (label frame) "-")])
                         (when event-id [(label event-id)])
                         (when dispatch-id [(str "d" dispatch-id)])
                         (when ms [(str (three-digits ms) "ms")])
                         (when origin [(str "by=" (str/join "/" (keep origin [:who :evaluation])))])
                         (for [[k v] tags] (str (if (ident? k) (name k) (printed k)) "=" (label v)))))))

(defn- row-of "An event as an object, its names as texts." [{:keys [tags] :as event}]
  (cond-> (reduce #(if (contains? event %2) (update %1 %2 label) %1) event
                  [:operation :frame :event-id :handler-id :source])
    tags (assoc :tags (into {} (for [[k v] tags]
                                 [(if (ident? k) (name k) (printed k))
                                  (if (or (nil? v) (number? v) (boolean? v)) v (label v))])))))

(declare note-overdue!)

(defn- trace "The newest events that a filter lets through, a line each, the newest last." [{:keys [filter raw] :as asked}]
  (note-overdue!)
  (let [found (filterv (matcher filter) (newest (:events @state) (:events most)))
        shown (newest found (limit-of asked 50))]
    (merge (if raw {:events (mapv row-of shown)} {:lines (mapv line-of shown)})
           {:count (count shown), :total (count found), :last-id (last-id)})))

(defn- issues
  "Errors and warnings of the application, a line each, the newest last; the same ones once, with their number."
  [{:keys [since filter] :as asked}]
  (note-overdue!)
  (let [test (matcher filter)
        groups (->> (newest (:events @state) (:events most))
                    (clojure.core/filter #(and (contains? #{"error" "warning"} (:op-type %)) (not= refusal (:source %))
                                               (< (or since 0) (:id %)) (test %)))
                    (group-by #(-> (select-keys % [:op-type :operation :frame :event-id :tags]) (update :tags dissoc :epoch)))
                    vals (sort-by (comp :id peek)) vec)
        lines (mapv #(str (line-of (peek %)) (when (next %) (str " \u00d7" (count %)))) (newest groups (limit-of asked 50)))]
    {:lines lines, :count (count lines), :total (count groups), :last-id (last-id)}))

(defn- handlers "The handlers, with their places." [{:keys [kind id]}]
  (let [rows (filterv #(and (or (nil? kind) ((same kind) (:kind %))) (or (nil? id) ((same id) (:id %))))
                      (vals (:handlers @state)))]
    {:handlers rows, :count (count rows)}))

(defn- machines "The state of each machine." [{:keys [id]}]
  (let [known (:machines @state)
        _ (when (empty? known) (refuse "band-missing" "no machine is registered: the application calls (machine! name f)"))
        found (into {} (for [[name state-of] known :when (or (nil? id) ((same id) name))]
                         [(label name) {:state (shown (egress nil false) (state-of) [])}]))]
    {:machines found, :count (count found)}))

(defn- probe "A number that counts these calls, and one that counts loads of code." [_]
  (let [{:keys [probes loads]} (swap! state update :probes inc)]
    {:probe probes, :build-tick loads, :session-id @session-id}))

;; Changing: a change that is refused leaves the state as it was

(defn- refuse-draining [{:keys [id]}]
  (when (seq (get-in @state [:draining id])) (refuse "during-drain" "an event is being handled: call again when it is over")))

(defn- write! "Has the application replace the state of a frame." [{:keys [id set]} value]
  (binding [*written* id] (set value)))

(defn- put-back! "Makes the state what it was; in words what came of that, if it was changed." [frame before]
  (let [now (keep-state frame)]
    (cond
      (identical? before now) (if (or (:sure? frame) (not (mutable? now))) ""
                                  "; it is not known whether the state has changed: the frame was registered without :snapshot")
      (or (unread? before) (unread? now)) "; the state could not be read"
      (empty? (differences before now)) ""
      (nil? (:set frame)) "; the state stays changed: the frame was registered without :set"
      :else (try (write! frame (copied frame before))
                 "; the state was restored"
                 (catch #?(:clj Throwable :cljs :default) error (str "; the state could not be restored: " (told error)))))))

(defn- handle-now "Has an event handled, and tells what changed; where that fails, the state is as it was before." [frame event]
  (refuse-draining frame)
  (let [event-id (first event)
        {:keys [error recorded]} (run-epoch (:id frame) event-id #((:dispatch frame) event))
        _ (when (and error (must-end? error)) (throw error))
        noted (last (filter #(and (= "error" (:op-type %)) (= (:dispatch-id recorded) (:dispatch-id %))) (:events @state)))]
    (when (or error noted)
      (swap! state update-in [:frames (:id frame) :epochs]
             (fn [kept] (mapv #(if (= (:id recorded) (:id %)) (assoc % :outcome "error") %) kept)))
      (refuse "handler-failed"
              ; One that was swallowed was noted all the same.
              (str (if error (told error) (str "the application recorded an error: " (get-in noted [:tags :message] "")))
                   (put-back! frame (:before recorded)))
              :at (or (not-empty (get-in noted [:tags :at]))
                      (some (fn [{:keys [id file line]}] (when (= id (label event-id)) (str file ":" line)))
                            (vals (:handlers @state)))
                      "")))
    (if (:told? recorded)
      (let [[rows] (changes frame recorded recorded [])]
        (cond-> {:epoch-id (:id recorded), :changes rows, :count (count rows)}
          (and (:set frame) (seq rows)) (assoc :undone-by (- (:id recorded)))))
      {:epoch-id (:id recorded), :unknown "the changes are not known: the frame was registered without :snapshot"})))

(defn- note-queued! "Expects an epoch of what was queued, or anything else that is noted of it." [frame-id event-id]
  (let [{:keys [dispatch-id]} *cause*
        details {:at-ms (clock-ms), :origin (origin-now), :dispatch-id dispatch-id, :frame frame-id, :event-id event-id}]
    (swap! state update :queued
           #(let [queued (assoc % dispatch-id details)]
              (if (> (count queued) (:queued most)) (dissoc queued (apply min (keys queued))) queued)))))

(defn- note-overdue! "Notes what was queued for an agent and not begun in time: once each, with the origin of whoever queued it." []
  (doseq [[dispatch-id {:keys [at-ms origin frame event-id]}] (:queued @state)
          :when (< (+ at-ms overdue-ms) (clock-ms))]
    (let [[old _] (swap-vals! state update :queued dissoc dispatch-id)]
      ; What records no epoch of it may have noted something else.
      (when-not (or (nil? (get-in old [:queued dispatch-id])) (some #(= dispatch-id (:dispatch-id %)) (:events old)))
        (binding [*reading?* false, *origin* origin, *cause* {:dispatch-id dispatch-id}]
          (emit! "error" "not-begun" {:frame frame, :event-id event-id, :source "change"
                                      :message (str "not started within " (quot overdue-ms 1000) " s: the code that empties the queue "
                                                    "has ended, or handles the event without bind")}))))))

(defn- dispatch "Has an event handled: by the application's own loop, or with `sync` at once, and then tells what changed." [{:keys [sync event] :as asked}]
  (let [{:keys [id enqueue] :as frame} (frame-of asked)
        queued? (and enqueue (not sync))
        _ (when-not (or queued? (:dispatch frame))
            (refuse "no-dispatch" (str "the frame " (label id) " has no " (if sync ":dispatch" ":enqueue"))))
        event (if (sequential? event) (vec event) (read-literal "event" event "not-an-event-vector"))]
    (when-not (and (sequential? event) (seq event))
      (refuse "not-an-event-vector" "an event is a vector: its id, and then its arguments"))
    (binding [*cause* {:dispatch-id (next-dispatch!)}]
      (merge {:frame (label id), :event-id (label (first event)), :dispatch-id (:dispatch-id *cause*), :origin (who-of (origin-now))}
             (if queued?
               (do (enqueue event) (note-queued! id (first event)) {:mode "queued"})
               (assoc (handle-now frame event) :mode "sync"))))))

(defn- problem "The fault of a value, in the words of the application's validator." [{:keys [validate]} value]
  (when validate
    (let [said (try (validate value)
                    (catch #?(:clj Throwable :cljs :default) error (if (must-end? error) (throw error) (told error))))]
      (cond (or (nil? said) (true? said) (= "" said)) nil
            (false? said) "the value is not valid"
            :else (label said)))))

(defn- restorable? "Whether the state after an epoch is kept, and is whole." [{:keys [outcome told? after]}]
  (and (= "ok" outcome) told? (not (unread? after))))

(defn- keeping! "The epoch that led to the state as it was now; made, where that was changed in none." [{:keys [id]} now operation]
  (let [{:keys [epochs restored] :as frame} (get-in @state [:frames id])
        newest (peek epochs)]
    (or (some #(when (and (restorable? %) (empty? (differences (:after %) now))) (:id %))
              (cons newest (filter #(= restored (:id %)) epochs)))
        (:id (record-epoch! frame {:event-id (str "before-" operation), :after now, :ms 0, :outcome "ok",
                                   :before (if newest (:after newest) {::unread "no earlier state is stored"})})))))

(defn- replace-state! "Makes a value the state, and tells the epoch that undoes it." [frame value operation]
  (note-secrets! frame value)
  (when-let [why (problem frame value)] (refuse "schema-mismatch" why))
  (let [before (keep-state frame)]
    (try (write! frame value)
         (catch #?(:clj Throwable :cljs :default) error
           (if (must-end? error) (throw error)
               (refuse failed (str "set failed: " (told error) (put-back! frame before))))))
    (let [undone-by (keeping! frame before operation)
          recorded (when (= "reset" operation)
                     (record-epoch! frame {:event-id operation, :before before, :after (keep-state frame), :ms 0, :outcome "ok"}))]
      (emit! "epoch" operation {:frame (:id frame), :event-id operation})
      (cond-> {:undone-by undone-by, :origin (who-of (origin-now))}
        recorded (assoc :epoch-id (:id recorded))))))

(defn- changeable "The frame that is named, whose state can be replaced now." [asked]
  (let [frame (frame-of asked)]
    (when-not (:set frame) (refuse "read-only-frame" (str "the frame " (label (:id frame)) " has no :set")))
    (refuse-draining frame)
    frame))

(def ^:private unkept "its state was not kept: the application gives the frame a :snapshot")

(defn- after-of "The state after an epoch; refused where there is none that is whole." [{:keys [id after outcome] :as epoch}]
  (when-not (restorable? epoch)
    (refuse "non-ok-record" (if (= "ok" outcome) unkept (str "that event failed halfway: " (- id) " is the state before it"))))
  after)

(defn- before-of "The state before an epoch; refused where it was not kept." [{:keys [before told?]}]
  (when (or (not told?) (unread? before)) (refuse "non-ok-record" unkept))
  before)

(defn- restore "Makes the state what it was after an epoch, or with a minus what it was before that." [{:keys [epoch-id] :as asked}]
  (let [{:keys [id] :as frame} (changeable asked)
        _ (when-not epoch-id (refuse "unknown-epoch" "give epochId, one of those that the accessor epochs lists"))
        before? (neg? epoch-id)
        epoch (epoch-of frame (if before? (- epoch-id) epoch-id) "unknown-epoch")
        told (replace-state! frame (copied frame ((if before? before-of after-of) epoch)) "restored")]
    (when-not before? (swap! state assoc-in [:frames id :restored] epoch-id))
    (cond-> (assoc told :frame (label id)) (not before?) (assoc :epoch-id epoch-id))))

(defn- reset "Makes a value the state, as an epoch, by which it can be undone." [{:keys [value] :as asked}]
  (let [frame (changeable asked)]
    (merge {:frame (label (:id frame))} (replace-state! frame (read-literal "value" value "schema-mismatch") "reset"))))

;; What leaves

(defn- secrets "The texts at sensitive paths, now and lately, the longest first." []
  (doseq [frame (vals (:frames @state)) :when (seq (:sensitive frame))] (keep-state frame))
  (sort-by (comp - count) (distinct (mapcat :secrets (vals (:frames @state))))))

(defn- sensitive-texts
  "All that stands or lately stood at sensitive paths, with names: for the redactor of whoever asks, and no answer." []
  (secrets)
  {:texts (vec (for [{:keys [id secrets]} (vals (:frames @state)), text secrets] [(label id) text]))})

(defn- plainly "The value of a function, in which values print alike wherever it is called." [f]
  (binding [*print-length* nil, *print-level* nil, *print-readably* true, *print-namespace-maps* false, *print-meta* false]
    (f)))

(defn show
  "A value as an agent may see it, hiding what the frame hides: for code of its own, whose results go past `call`."
  ([value] (show value nil))
  ([value frame-id]
   (plainly #(without (shown (egress (get-in @state [:frames frame-id :sensitive]) false) value []) (secrets)))))

(defn- part-of "The characters of a text from one on, and how many it has; each character is one, as in Python." [text start size]
  #?(:clj (let [^String text text, total (.codePointCount text 0 (count text)), start (min start total)
                end (if size (min total (+ start size)) total), from (.offsetByCodePoints text 0 (int start))]
            [(subs text from (.offsetByCodePoints text from (int (- end start)))) total])
     :cljs (if (re-find #"[\ud800-\udfff]" text)
             (let [all (js/Array.from text), total (.-length all)]
               [(.join (.slice all start (if size (+ start size) total)) "") total])
             (let [total (count text), start (min start total)]
               [(subs text start (if size (min total (+ start size)) total)) total]))))

(defn- leaving "The answer without secrets, and of a value no more than was asked for: the cut must not tear one in two." [answer {:keys [include-sensitive from max-chars]}]
  (let [{:keys [value] :as clean} (if include-sensitive answer (without answer (secrets)))]
    (if (and (string? value) (or (pos? (or from 0)) (and max-chars (< max-chars (count value)))))
      (let [start (or from 0), [part total] (part-of value start max-chars)]
        (assoc clean :value part :from start :total total))
      clean)))

;; Capture: calls of a function as events, for as long as somebody subscribes to them

(def ^:private capture-limits {:hits 50, :most-hits 1000, :arguments 20})
(def ^:private comparisons {"=" =, "==" =, "not=" not=, "!=" not=, "<" <, "<=" <=, ">" >, ">=" >=})

(defn- captured "A value as a capture tells it: short, and nothing of it is realised for that." [value]
  (cut (shown (assoc (egress nil false) :careful? true, :counts (volatile! {:left (:tag most), :redacted 0, :elided 0})) value [])
       (:tag most)))

(defn- named-arguments "The arguments of a call, each with its name, as far as one of the argument lists fits." [arglists arguments]
  (let [size (bounded-count (:arguments capture-limits) arguments)
        fixed #(vec (take-while (complement #{'&}) %))
        list (some #(when (if (some #{'&} %) (<= (count (fixed %)) size) (= (count %) size)) (fixed %)) arglists)]
    (map-indexed (fn [n value] (let [known (get list n)] [(if (symbol? known) (name known) (str "arg" n)) value]))
                 (take size arguments))))

(defn- condition
  "The test of a call's variables that a form means: a comparison of a variable with a literal, or several with and, or.
  It is read, and never evaluated."
  [form]
  (letfn [(bad [] (refuse "accessor-failed" (str "when is a comparison of a variable with a literal, such as (> total 100) or "
                                                 "total > 100, or several with (and ...), (or ...); " (printed form) " is none")))
          (operand [form]
            (cond (symbol? form) (fn [values]
                                   (if-let [[_ value] (find values (name form))] value
                                           (throw (ex-info (str "there is no " form " then") {}))))
                  (and (seq? form) (= 2 (count form)) (keyword? (first form)))
                  (let [[key inner] form, value (operand inner)] #(get (value %) key))
                  :else (bad)))]
    (let [[op & forms] (when (seq? form) form), test (when (symbol? op) (get comparisons (name op)))]
      (cond (and ('#{and or} op) (seq forms))
            (let [tests (mapv condition forms), all? (= 'and op)]
              (fn [values] (boolean (if all? (every? #(% values) tests) (some #(% values) tests)))))
            (and test (= 2 (count forms)) (not (symbol? (second forms))) (not (seq? (second forms))))
            (let [value (operand (first forms)), wanted (second forms)] #(test (value %) wanted))
            :else (bad)))))

(defn- condition-of "The test that a text means, as code or with the comparison in the middle." [text]
  (let [forms (try (edn/read-string (str "[" text "\n]")) (catch #?(:clj Exception :cljs :default) _ nil))]
    (condition (if (= 3 (count forms)) (let [[variable op wanted] forms] (list op variable wanted)) (first forms)))))

(defn- function-var "The var of the function that is meant; refused where there is none that can be wrapped." [text]
  (let [[ns-name function-name] (str/split (str text) #"[:/]" 2)
        none #(refuse "path-not-found" (str "of is namespace/function of what is loaded, not " (printed text) %))]
    #?(:org.babashka/nbb nil :cljs (none ": compiled ClojureScript has no vars to wrap") :default nil)
    (when (or (str/blank? function-name) (re-matches #"\d+" function-name)) (none ""))
    (let [found (when (find-ns (symbol ns-name)) (resolve (symbol ns-name function-name))), {:keys [macro protocol]} (meta found)]
      (cond (nil? found) (none "")
            (or macro protocol (not (fn? @found))) (none ": it is no plain function")
            #?@(:clj [(some #(= "invokePrim" (.getName ^java.lang.reflect.Method %)) (.getMethods (class @found)))
                      (none ": it takes primitive numbers, and whoever calls it expects that")]))
      found)))

(defn- tell-call! "Makes a call an event, if it is one of those that are asked for; it never throws."
  [{:keys [id test hits failed over most-hits operation]} variables outcome ms]
  (try
    (let [{:keys [result raised]} outcome, values (merge (into {} variables) {"result" result, "raised" (some-> raised error-name)})]
      (when (test values)
        (let [number (swap! hits inc)]
          (when (<= number most-hits)
            (plainly
             #(emit! "call" operation
                     (cond-> {:source id, :ms (/ (#?(:clj Math/round :cljs js/Math.round) (double (* 1000 ms))) 1000.0)
                              :args (str "(" (str/join ", " (for [[name value] variables]
                                                              (str name "=" (if (re-find secret-name name) "<not shown>"
                                                                                (captured value)))))
                                         ")")}
                       raised (assoc :raised (told raised))
                       (not raised) (assoc :result (captured result))
                       (= number most-hits) (assoc :ended (str number " hits"))))))
          ; The event comes first: a stream whose capture is over ends when nothing waits.
          (when (<= most-hits number) (reset! over true)))))
    (catch #?(:clj Exception :cljs :default) error (swap! failed #(or % (told error))))))

(defn- wrapped "A function that does what the other does, and tells of it." [original arglists {:keys [over] :as capture}]
  (fn [& arguments]
    (if (or @over *reading?*)
      (apply original arguments)
      (let [variables (named-arguments arglists arguments), began (clock-ms)]
        (try (let [result (apply original arguments)]
               (tell-call! capture variables {:result result} (- (clock-ms) began))
               result)
             (catch #?(:clj Throwable :cljs :default) error
               (tell-call! capture variables {:raised error} (- (clock-ms) began))
               (throw error)))))))

(defn- begin-capture! "Wraps the function that is meant: the capture, with what ends it." [id {:keys [of when pred hits]}]
  (let [found (function-var of), {:keys [arglists ns name file line]} (meta found), original @found
        holds? (if when (condition-of when) (constantly true))
        predicate (if pred ((:pred filters) pred) (constantly true))
        operation (str ns "/" name)
        test #(and (holds? %) (predicate {:op-type "call", :operation operation, :locals %}))
        capture {:id id, :of operation, :test test, :hits (atom 0), :failed (atom nil), :over (atom false), :operation operation
                 :most-hits (max 1 (min (or hits (:hits capture-limits)) (:most-hits capture-limits)))}
        wrapper (wrapped original arglists capture)]
    (swap! state assoc-in [:wrapped wrapper] {:original original, :over (:over capture)})
    (alter-var-root found (constantly wrapper))
    (assoc capture :at (str file ":" line), :end
           (fn []
             (reset! (:over capture) true)
             ; What was defined anew meanwhile stays, and what others wrapped tells on; it may be around ours.
             (alter-var-root found #(loop [function %]
                                      (let [{:keys [original over]} (get-in @state [:wrapped function])]
                                        (if (and over @over) (recur original) function))))
             (swap! state update :wrapped #(if (every? (comp deref :over val) %) {} %))))))

(defn- capture-row [{:keys [of hits failed most-hits]}]
  (cond-> {:of of, :hits (min @hits most-hits), :left (max 0 (- most-hits @hits))} @failed (assoc :why @failed)))

;; Streams: subscriptions, whose events are pushed to whoever asked for them

(def ^:private topics "By topic, the op-type of its events; nil: any." {"trace" nil, "epoch" "epoch", "fx" "fx", "error" "error", "calls" "call"})
(def ^:private stream-limits {:subscriptions 10, :events 500, :bytes 1048576, :batch 100, :rest-ms 20, :lease-s 60})

(defn- waiting "The events that wait: of those kept, the newest for which there is room." [{:keys [kept max-events]}]
  (newest kept max-events))

(defn- dropped "The number of events for which there was no room." [{:keys [offered taken] :as queue}]
  (- offered taken (count (waiting queue))))

(defn- size-of "The bytes of an event, about." [{:keys [tags]}]
  (reduce-kv (fn [size _ tag] (+ size (if (string? tag) (count tag) 8))) 200 (or tags {})))

(defn- without-excess "A queue without the oldest events, where there is no room for their bytes." [{:keys [max-bytes] :as queue}]
  (let [events (waiting queue)
        room (count (take-while #(<= % max-bytes) (reductions + (map size-of (rseq events)))))]
    (assoc queue :kept (into [] (newest events room)))))

(defn- taking "A queue after its oldest events were taken, which are `:batch`." [queue]
  (let [{:keys [kept] :as queue} (without-excess queue), batch (subvec kept 0 (min (count kept) (:batch stream-limits)))]
    (-> (assoc queue :batch batch :kept (into [] (subvec kept (count batch))))
        (update :taken + (count batch)))))

(defn- pushed "An event as it is pushed: its fields, each in one line and not long, and its line of the trace." [event]
  (let [short-text #(cut (one-line (label %)) (:tag most))]
    (-> (reduce #(if (contains? event %2) (update %1 %2 short-text) %1)
                (select-keys event [:id :time :op-type :operation :frame :event-id :handler-id :source :origin :dispatch-id :ms])
                [:operation :frame :event-id :handler-id :source])
        (assoc :line (cut (line-of event) (:text most))))))

(defn- as-now "An event that was taken, with all that is told of it by now." [{:keys [op-type id] :as event}]
  (let [events (:events @state), index (when (= "error" op-type) (index-of events id))]
    (if index (nth events index) event)))

(defn- flush! "Writes what waits for a subscriber, at most a batch; whether there was anything." [{:keys [id queue write]}]
  (when (seq (waiting @queue))
    (let [{:keys [batch told] :as now} (swap! queue taking), lost (dropped now)]
      (when (seq batch)
        (write (str \u001e (json {:sub id, :dropped (- lost told), :depth (count (waiting now)),
                                  :events (without (mapv (comp pushed as-now) batch) (secrets))}) "\n"))
        (swap! queue #(-> % (assoc :told lost) (update :sent + (count batch))))))))

(defn- writer "Writes to what is the output now, and throws where nobody is there any more." []
  #?(:clj (let [^java.io.Writer out *out*]
            (fn [^String text]
              (.write out text)
              (.flush out)
              (when (and (instance? java.io.PrintWriter out) (.checkError ^java.io.PrintWriter out))
                (throw (ex-info "the output is closed" {})))))
     ; Whose output it is, nbb tells by the asynchronous context, which is else that of whoever emits.
     :cljs (let [print-fn *print-fn*
                 built-in (some-> js/globalThis .-process .-getBuiltinModule)
                 in-context (if built-in (.. (built-in "async_hooks") -AsyncResource -bind) identity)]
             (in-context (fn [text] (print-fn text))))))

(defn- end-subscriptions! "Ends the subscriptions that a test picks, and their captures." [ended?]
  (doseq [[id {{:keys [end]} :capture :as subscription}] (:subscriptions @state) :when (ended? subscription)]
    (when end (end))
    (swap! state update :subscriptions dissoc id)))

(defn- told-all? "Whether a subscription is of a capture that is over, and all of that is written." [{:keys [capture queue]}]
  (and capture @(:over capture) (let [{:keys [taken sent] :as queue} @queue] (and (= taken sent) (empty? (waiting queue))))))

(defn- pump! "Writes what waits, for each subscription whose lease goes on." []
  (end-subscriptions! #(or (< @(:ends %) (clock-ms)) (told-all? %)))
  (binding [*reading?* true]
    (note-overdue!)
    (doseq [{:keys [id] :as subscription} (vals (:subscriptions @state))]
      (try (plainly #(flush! subscription))
           (catch #?(:clj Exception :cljs :default) _ (end-subscriptions! #(= id (:id %))))))))

#?(:clj (defn- pump-while-subscribed! "The work of the one thread that writes, which ends with the last subscription." [token]
          (loop []
            (pump!)
            (Thread/sleep (:rest-ms stream-limits))
            (when (identical? token (:pump (swap! state #(if (empty? (:subscriptions %)) (dissoc % :pump) %)))) (recur)))))

(defn- wake! "Has the writer run soon, where no thread of its own does." []
  #?(:clj nil
     :cljs (when-not (:pump @state)
             (let [timer (js/setTimeout (fn []
                                          (swap! state dissoc :pump)
                                          (pump!)
                                          (end-subscriptions! told-all?)
                                          (when (some #(seq (waiting @(:queue %))) (vals (:subscriptions @state))) (wake!)))
                                        (:rest-ms stream-limits))]
               (swap! state assoc :pump true)
               (when (.-unref timer) (.unref timer)))))) ; it keeps no program from ending

(defn- offering "Takes each event of the application, on its thread: it never waits, formats or throws." [topic filter queue]
  (let [op-type (topics topic), wanted? (matcher (dissoc filter :of :when :hits))]
    (fn [event]
      (when (and (or (nil? op-type) (= op-type (:op-type event)))
                 (try (wanted? event) (catch #?(:clj Throwable :cljs :default) _ false)))
        (swap! queue (fn [{:keys [max-events failures] :as queue}]
                       (let [id (when (= "error" (:op-type event)) (:id event))]
                         (if (and id (some #(= id %) failures)) ; a failure of which more is told
                           queue
                           (cond-> (-> queue (update :offered inc) (update :kept loose-ring max-events event))
                             id (update :failures ring (:failures most) id))))))
        (wake!)))))

(defn- subscribe "Has the events of a topic pushed to the output of whoever asks." [{:keys [topic filter max-events max-bytes lease-s]}]
  (let [topic (or topic "trace"), {:keys [subscriptions]} @state, most (:events stream-limits)
        lease-ms (* 1000 (or lease-s (:lease-s stream-limits)))
        queue (atom {:kept [], :failures [], :offered 0, :taken 0, :sent 0, :told 0, :max-events (max 1 (min (or max-events most) most)),
                     :max-bytes (or max-bytes (:bytes stream-limits))})]
    (when-not (contains? topics topic) (refuse "unknown-topic" (str "topics: " (str/join ", " (keys topics)))))
    (when (<= (:subscriptions stream-limits) (count subscriptions))
      (refuse "too-many-subscriptions" (str (count subscriptions) " are the most; end one: " (listing (keys subscriptions)))))
    (let [id (str "s" (:last-subscription (swap! state update :last-subscription inc)) "-" (subs @session-id 0 6))
          calls? (= "calls" topic)
          ; Of a capture, `pred` is about the variables, and told there.
          offer (offering topic (if calls? (-> filter (dissoc :pred) (assoc :source id)) filter) queue)
          capture (when calls? (begin-capture! id filter))
          token #?(:clj (Object.) :cljs nil)
          subscription {:id id, :topic topic, :filter (or filter {}), :origin (who-of (origin-now)), :created-at (now-s),
                        :lease-ms lease-ms, :ends (atom (+ (clock-ms) lease-ms)), :queue queue, :write (writer), :offer offer,
                        :capture capture}
          {:keys [pump]} (swap! state #(cond-> (assoc-in % [:subscriptions id] subscription)
                                         (and token (nil? (:pump %))) (assoc :pump token)))]
      #?(:clj (when (identical? token pump)
                (doto (Thread. ^Runnable #(pump-while-subscribed! token) "codriver seam") (.setDaemon true) .start))
         :cljs pump)
      (cond-> {:sub-id id, :topic topic, :last-id (last-id)}
        capture (assoc :capture {:of (:of capture), :at (:at capture), :hits (:most-hits capture), :how "wrapped"})))))

(defn- unsubscribe "Ends a subscription." [{:keys [sub-id]}]
  (let [existed (contains? (:subscriptions @state) sub-id)]
    (end-subscriptions! #(= sub-id (:id %)))
    {:sub-id sub-id, :existed existed}))

(defn- subscriptions "The subscriptions; the leases of those in `renew` begin anew." [{:keys [renew]}]
  (let [now (clock-ms)]
    (end-subscriptions! #(< @(:ends %) now))
    (let [subs (for [{:keys [id queue ends lease-ms] :as subscription} (vals (:subscriptions @state))
                     :let [{:keys [sent taken] :as queue} @queue]]
                 (do (when (some #{id} renew) (reset! ends (+ now lease-ms)))
                     (merge (select-keys subscription [:id :topic :filter :origin :created-at])
                            {:queue-depth (+ (count (waiting queue)) (- taken sent)), :queue-bytes (reduce + (map size-of (waiting queue))),
                             :dropped (dropped queue), :sent sent}
                            (when-let [capture (:capture subscription)] {:capture (capture-row capture)}))))]
      {:subs (vec subs), :count (count subs)})))

(defn- reset-for-test "Forgets who wants events, and the calls of `probe`." [_]
  (end-subscriptions! (constantly true))
  (swap! state assoc :probes 0)
  {:session-id @session-id})

;; The one entry

(def ^:private reading
  (array-map
   "health" health, "state" state-at, "epochs" epochs, "diff" diff, "trace" trace, "issues" issues, "handlers" handlers
   "machines" machines, "subscribe" subscribe, "unsubscribe" unsubscribe, "subscriptions" subscriptions, "probe" probe
   "reset-for-test" reset-for-test))
(def ^:private changing (array-map "dispatch" dispatch, "restore" restore, "reset" reset))

(defn- answer [accessor asked]
  (try
    (when-not @session-id
      (refuse "not-enabled" "the application calls (codriver.seam/install! true), or runs with CODRIVER_SEAM=1"))
    (let [function (or (get reading accessor) (get changing accessor)
                       (when (= accessor "sensitive") (fn [_] (sensitive-texts)))
                       (refuse "no-such-accessor" (str "accessors: " (str/join ", " (concat (keys reading) (keys changing))))))]
      (merge {:ok true} (function asked)))
    (catch #?(:clj Throwable :cljs :default) error
      (cond (must-end? error) (throw error)
            (::refusal (ex-data error)) (::refusal (ex-data error))
            :else {:ok false, :reason failed, :hint (told error)}))))

(defn call
  "The answer of an accessor, as JSON. `arguments` is a map in EDN, whose keys are named as in JSON: `{:epochId 3}`.
  `origin` is a map in EDN with `:who` and `:evaluation`, or nil."
  ([accessor] (call accessor "{}"))
  ([accessor arguments] (call accessor arguments "nil"))
  ([accessor arguments origin]
   (let [kebab-keys #(into {} (for [[k v] %] [(kebab k) v]))
         {:keys [filter] :as asked} (kebab-keys (edn/read-string arguments))
         asked (cond-> asked filter (assoc :filter (kebab-keys filter)))
         change? (contains? changing accessor)]
     (plainly
      #(binding [*origin* (edn/read-string origin), *reading?* (not change?)]
         (let [{:keys [reason hint] :as answered} (answer accessor asked)]
           ; What the handler raised is an event already.
           (when (and change? (not (contains? #{nil "handler-failed" "not-enabled"} reason)))
             (emit! "error" reason {:frame (:frame asked), :source (if (= failed reason) "change" refusal), :message hint}))
           (binding [*reading?* true]
             (json (if (= accessor "sensitive") answered (leaving answered asked))))))))))

;; Sources of events: each is asked for by the application; twice is once

(defn- note-tap [value]
  (plainly #(emit! "tap" "tap>" {:source "tap", :value (cut (shown (egress nil false) value []) (:tag most))})))

(defonce ^{:private true, :doc "Notes what is tapped: one function, however often this file is loaded."} tapped
  (fn [value] (#'note-tap value)))

(defn tap! "Notes each value that is given to `tap>`." []
  (when @session-id (add-tap tapped))
  nil)

(defn watch-uncaught! "Notes each error that nobody catches, which otherwise goes its way." []
  (when (and @session-id (not (:uncaught? (first (swap-vals! state assoc :uncaught? true)))))
    #?(:clj (let [next-handler (Thread/getDefaultUncaughtExceptionHandler)]
              (Thread/setDefaultUncaughtExceptionHandler
               (reify Thread$UncaughtExceptionHandler
                 (uncaughtException [_ thread error]
                   (note-error! error {:source "uncaught", :thread (.getName thread)})
                   (if next-handler
                     (.uncaughtException next-handler thread error)
                     (binding [*out* *err*] ; as the host does without one
                       (println (str "Exception in thread \"" (.getName thread) "\" " error))
                       (.printStackTrace error)))
                   (forget-failure! error)))))
       :cljs (if (exists? js/process)
               ; It is told first, and the program ends as it would.
               (js/process.on "uncaughtExceptionMonitor" (fn [error] (note-error! error {:source "uncaught"})))
               (doseq [kind ["error" "unhandledrejection"]]
                 (js/globalThis.addEventListener
                  kind (fn [event] (note-error! (or (.-error event) (.-reason event)) {:source "uncaught"})))))))
  nil)
