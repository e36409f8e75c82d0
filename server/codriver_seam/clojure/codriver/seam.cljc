(ns codriver.seam
  "The seam of a Clojure application: its state, epochs, trace and changes, for an agent that inspects it at run time.

  An application requires this namespace, calls `install!`, and names its state with `watch-atom!` or `frame!`. Anyone who
  evaluates code in its process can then read its state and events with `call`. It supports Clojure 1.10 or later, ClojureScript
  and nbb, and has no dependencies. Loading it has no effect, and without `install!`, only the locations of handlers are stored."
  (:require [clojure.edn :as edn]
            [clojure.string :as str])
  #?@(:org.babashka/nbb [] :cljs [(:require-macros [codriver.seam])]))

(def ^:private contract "The version of the answers' format." 1)
(def ^:private most
  "Maximum numbers of what is stored and displayed. Stored: events, recognized failures, epochs per frame, secrets per frame, queued
  events. Displayed: characters of a string, items of a collection, levels, characters of a value, characters and parts of a tag."
  {:events 2000, :failures 100, :epochs 50, :secrets 200, :queued 200, :text 2048, :items 50, :depth 8, :shown 20000, :tag 300, :parts 8,
   :changes 100, :endless 100000})
(def ^:private secret-chars "Minimum length of a string that is redacted as a secret." 8)
(def ^:private torn-chars "Minimum length of a partial secret at the end of a truncated text that is redacted." 4)
(def ^:private redacted "The text that replaces a secret." "<redacted>")
(def ^:private refusal "The source of the event for a refused change, which is the agent's mistake and not an issue in the application." "refusal")
(def ^:private failed "The reason for a refusal if the application's code failed, such as a getter, setter or predicate." "accessor-failed")
(def ^:private overdue-ms "Maximum time in milliseconds from queuing an event to its epoch. After that, the event is reported as overdue." 5000)

(def ^:private at-rest
  {:last-id 0, :last-dispatch 0, :last-subscription 0, :installed-ms 0, :probes 0, :loads 0, :events [], :failures [], :frames {},
   :draining {}, :queued {}, :handlers {}, :machines {}, :predicates {}, :subscriptions {}, :wrapped {}})
(defonce ^{:doc "Holds the id by which the seam is found. `install!` creates it, and it differs in each process."} session-id
  (atom nil))
(defonce ^{:private true, :doc "Holds all state of the seam in this process."} state (atom at-rest))
(def ^:dynamic *origin* "The caller and the evaluation that caused the current events, or nil for the application itself." nil)
(def ^:dynamic *cause* "The current dispatch: its `:dispatch-id`, and the current epoch of each frame." nil)
(def ^:dynamic *reading?* "Whether an agent's query is running, during which no events are recorded." false)
(def ^:dynamic *written* "The frame whose state the seam is setting, which does not count as a change by the application." nil)

;; Hosts

#?(:clj (defn- evaluating "Returns the origin in the nREPL message that this thread is evaluating, or nil on other threads." []
          (when (str/starts-with? (.getName (Thread/currentThread)) "nREPL-")
            (some (fn [space]
                    (let [message (some-> (find-ns space) (ns-resolve '*msg*))]
                      (when-let [{:keys [who evaluation]} (:codriver/origin (some-> message deref))]
                        {:who who, :evaluation evaluation})))
                  '[nrepl.middleware.interruptible-eval clojure.tools.nrepl.middleware.interruptible-eval]))))

(defn- origin-now "Returns the caller and the evaluation that cause current events, or nil for the application itself." []
  (or *origin* #?(:clj (evaluating) :cljs nil)))

(defn- now-s "Returns the time in seconds since the Unix epoch." []
  (/ #?(:clj (System/currentTimeMillis) :cljs (js/Date.now)) 1000.0))

(defn- clock-ms "Returns the time in milliseconds of a monotonic clock." []
  #?(:clj (/ (System/nanoTime) 1e6) :cljs (js/performance.now)))

(defn- process-id [] ; Java 8 has no other way
  #?(:clj (edn/read-string (first (str/split (.getName (java.lang.management.ManagementFactory/getRuntimeMXBean)) #"@")))
     :cljs (some-> js/globalThis .-process .-pid)))

(defn- switched-on? "Returns whether the environment enables the seam." []
  (= "1" #?(:clj (System/getenv "CODRIVER_SEAM")
            :cljs (some-> js/globalThis .-process .-env (js/Reflect.get "CODRIVER_SEAM")))))

(defn- host-map? [value] #?(:clj (instance? java.util.Map value) :cljs (object? value)))

(defn- host-list? [value]
  #?(:clj (or (instance? java.util.Collection value) (boolean (some-> value class .isArray))) :cljs (array? value)))

(defn- must-end? "Returns whether an error is the host's way of ending a thread." [error]
  #?(:clj (= "java.lang.ThreadDeath" (.getName (class error))) :cljs (do error false)))

(defn- error-name [error]
  #?(:clj (last (str/split (.getName (class error)) #"\."))
     :cljs (cond (ex-data error) "ExceptionInfo" (instance? js/Error error) (.-name error) :else "Thrown")))

;; Texts

(defn- cut "Returns a text, truncated to `chars` characters and an ellipsis if it is longer." [text chars]
  (if (<= (count text) chars) text (str (subs text 0 chars) "\u2026")))

(defn- words-of "Returns the message of an error." [error]
  (cut (str (or (ex-message error) #?(:cljs (when-not (instance? js/Error error) (pr-str error))) "")) (:text most)))

(defn- told "Returns the name and message of an error." [error]
  (str (error-name error) ": " (words-of error)))

(defn- printed "Returns a value as printed, or a placeholder if printing fails." [value]
  (try (pr-str value)
       (catch #?(:clj Throwable :cljs :default) error
         (if (must-end? error) (throw error) (str "#<cannot be printed: " (error-name error) ">")))))

(defn- label "Returns a name for display: a string unchanged, and anything else as printed." [value]
  (cond (string? value) value (keyword? value) (str value) :else (printed value)))

(def ^:private unprintable
  #?(:clj #"[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cn}\p{Cs}\u00a0\u3000]"
     :cljs (js/RegExp. "[\\p{Cc}\\p{Cf}\\p{Zl}\\p{Zp}\\p{Co}\\p{Cn}\\p{Cs}\\u00a0\\u3000]" "gu")))

(defn- hex "Returns the code of a character as `digits` hexadecimal digits." [code digits]
  (let [text #?(:clj (Integer/toHexString code) :cljs (.toString code 16))]
    (str (subs "0000" 0 (max 0 (- digits (count text)))) text)))

(defn- code-of [text]
  #?(:clj (.codePointAt ^String text 0) :cljs (.codePointAt text 0)))

(defn- one-line "Escapes invisible characters in a text, which the application's users may have written." [text]
  (str/replace text unprintable
               (fn [found]
                 (let [code (code-of found)]
                   (case code
                     9 "\\t" 10 "\\n" 13 "\\r"
                     (if (< code 256) (str "\\x" (hex code 2)) (str "\\u" (hex code 4))))))))

(defn- three-digits "Returns a number with three significant digits." [number]
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

(defn- camel "Returns the JSON name of a key." [key]
  (str/replace (name key) #"-(.)" #(str/upper-case (second %))))

(defn- kebab "Returns the key for a JSON name." [key]
  (keyword (str/replace (name key) #"[A-Z]" #(str "-" (str/lower-case %)))))

(defn- json "Returns a value as JSON. Keyword keys are converted to camelCase." [value]
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

;; Values: parts by path, differences, and text without sensitive parts

(defn- kind-of "Returns the kind of a collection, or nil for any other value. Values of the same kind are compared by their parts." [value]
  (cond (record? value) (type value) (map? value) :map (vector? value) :vector (set? value) :set
        (sequential? value) :seq (host-map? value) :host-map (host-list? value) :host-list))

(defn- parts-of "Returns the parts of a collection, each with its path step, or nil for any other value." [value]
  (case (kind-of value)
    nil nil
    :host-map #?(:clj (map (juxt key val) value) :cljs (map (juxt identity #(js/Reflect.get value %)) (js-keys value)))
    (if (map? value) (map (juxt key val) value) (map-indexed vector value))))

(defn- bounded-parts "Returns the first parts of a collection that may be infinite." [value]
  (take (:endless most) (parts-of value)))

(defn- record-name [value]
  (or (re-find #"^#[^{\[( ]+" (binding [*print-length* 0] (printed value))) "#record"))

(defn- kind-name [value]
  (let [kind (kind-of value)]
    (cond (string? value) "string"
          (keyword? kind) (name kind)
          kind (record-name value)
          :else #?(:clj (if (nil? value) "nil" (.getSimpleName (class value))) :cljs (or (some-> value .-constructor .-name not-empty) "object")))))

(defn- mutable? "Returns whether a value can be changed in place, judging by its type." [value]
  (not (or (coll? value) (nil? value) (string? value) (number? value) (boolean? value) (ident? value) (uuid? value)
           (char? value) (fn? value))))

(defn- unread? "Returns whether a state could not be stored, so that the reason takes its place." [kept]
  (boolean (and (map? kept) (::unread kept))))

(defn- covers? "Returns whether a path is at or below a hidden path." [hidden path]
  (and (<= (count hidden) (count path))
       (every? true? (map #(or (= :* %1) (= %1 %2)) hidden path))))

(defn- egress "Creates a formatter for values, which hides those at `hidden` paths and replaces large ones by markers unless `whole?`." [hidden whole?]
  {:hidden hidden, :whole? whole?, :counts (volatile! {:left (:shown most), :redacted 0, :elided 0})})

(defn- mark "Returns a marker that replaces a large value: its kind, its size, and the path with which to request it." [{:keys [counts]} kind size path]
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

(defn- realised-parts "Returns the parts of a collection that are already realized." [value]
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

(def ^:private secret-name "Matches names of variables and keys whose values a capture hides."
  #"(?i)passw|secret|token|api.?key|credential")

(defn- shown "Returns the text of a value at a path in the state." [{:keys [hidden counts careful?] :as egress} value path]
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

(defn- refuse "Refuses a query or a change by throwing. `reason` is one of a fixed list." [reason hint & {:as more}]
  (throw (ex-info hint {::refusal (merge {:ok false, :reason reason, :hint hint} more)})))

(defn- word-steps "Returns the steps that a word in a dotted path may mean." [word]
  (concat (when (re-matches #"\d+" word) [(edn/read-string word)]) [(keyword word) word (symbol word)]))

(defn- step-into "Returns a step and the part of a value at this step, or nil if there is none." [value step]
  (let [steps (if (::word (meta step)) (word-steps (first step)) [step])]
    (when-not (set? value)
      (some (fn [step]
              (if (and (associative? value) (not (host-list? step)))
                (when (contains? value step) [step (get value step)])
                (some #(when (= step (first %)) %) (bounded-parts value))))
            steps))))

(defn- part-at "Returns the exact path in a value and the part at it. Refuses a path that does not exist." [value path]
  (loop [found [], value value, [step & more :as steps] path]
    (if (empty? steps)
      [found value]
      (if-let [[step part] (step-into value step)]
        (recur (conj found step) part more)
        (let [names (when-not (set? value) (str/join ", " (map (comp printed first) (take (:items most) (parts-of value)))))]
          (refuse "path-not-found" (str "the path exists up to " (printed found) ", "
                                        (if (seq names) (str "where the keys are " names)
                                            "where the value has no parts"))))))))

(defn- found-at "Returns the same as `part-at`, or nil if the path does not exist." [value path]
  (try (part-at value path)
       (catch #?(:clj clojure.lang.ExceptionInfo :cljs :default) error
         (when-not (::refusal (ex-data error)) (throw error)))))

(defn- texts-at "Returns the strings at or below a sensitive path that are long enough to be redacted." [value [step & more :as path]]
  (cond
    (and (string? value) (empty? path)) (when (<= secret-chars (count value)) (list value))
    (empty? path) (filter #(and (string? %) (<= secret-chars (count %)))
                          (take (:endless most) (tree-seq kind-of #(map second (parts-of %)) value)))
    (and (= :* step) (map? value) (not (record? value)) (= 1 (count more)) (keyword? (first more)) (not= :* (first more)))
    (mapcat #(when (map? %) (when-some [part (get % (first more))] (texts-at part nil))) (take (:endless most) (vals value)))
    (and (map? value) (not= :* step)) (when (contains? value step) (texts-at (get value step) more))
    :else (mapcat (fn [[at part]] (when (or (= :* step) (= at step)) (texts-at part more))) (bounded-parts value))))

(defn- differences "Returns the differences between two values: the additions, removals and changes, each with its path."
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

(defn- untorn "Removes partial secrets at the end of each truncated part of a text." [text secrets]
  (let [[end & pieces] (reverse (str/split text #"\u2026" -1))
        whole (fn [piece]
                (or (some (fn [secret]
                            (some #(when (str/ends-with? piece (subs secret 0 %))
                                     (str (subs piece 0 (- (count piece) %)) redacted))
                                  (range (count secret) (dec torn-chars) -1)))
                          secrets)
                    piece))]
    (str/join "\u2026" (concat (map whole (reverse pieces)) [end]))))

(defn- without "Removes all secrets from the strings in an answer, in plain and in printed form. The longest are removed first." [value secrets]
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

(defn- newest "Returns the last `size` items of a vector." [kept size]
  (if (> (count kept) size) (subvec kept (- (count kept) size)) kept))

(defn- ring "Appends an item to a vector, and keeps the last `size` items." [kept size one]
  (let [kept (conj kept one)] (if (> (count kept) size) (into [] (newest kept size)) kept)))

(defn- loose-ring "Does the same as `ring`, but only shortens the vector when it is twice as long, to avoid copying it each time." [kept size one]
  (let [kept (conj kept one)] (if (> (count kept) (* 2 size)) (into [] (newest kept size)) kept)))

(defn- scalar? [value] ; `inst?` of anything else takes as long as all of this
  (or (nil? value) (ident? value) (number? value) (boolean? value) (uuid? value) (char? value)
      #?(:clj (instance? java.util.Date value) :cljs (inst? value))))

(defn- tag-part [value]
  (cond (string? value) (cut value (quot (:tag most) (:parts most)))
        (scalar? value) value
        :else (symbol (str "<" (kind-name value) ">"))))

(defn- tag "Converts a tag for storage: shortens long strings, and neither retains nor prints objects." [value]
  (cond (string? value) (cut value (:tag most))
        (scalar? value) value
        (and (coll? value) (counted? value) (<= (count value) (:parts most)))
        (if (map? value)
          (into {} (map (fn [[k v]] [(tag-part k) (tag-part v)])) value)
          (mapv tag-part value))
        :else (str "<" (kind-name value) ">")))

(def ^:private fields "The fields by which events can be found. All other details of an event are its tags."
  #{:frame :event-id :handler-id :source :ms})

(defn emit!
  "Records an event and returns its id, or 0 if the seam is off or an agent's query is running.

  `op-type` is event, fx, error, warning, info, log or any other word. `details` may have `:frame`, `:event-id`, `:handler-id`,
  `:source` and `:ms`. All other keys are tags of the event."
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

(defn- next-dispatch! "Returns the id for a new dispatch." []
  (:last-dispatch (swap! state update :last-dispatch inc)))

(defn- note-secrets! "Remembers the strings at sensitive paths in a frame's value." [{:keys [id sensitive]} value]
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

(defn- look "Returns the current state of a frame, and remembers the strings at its sensitive paths." [frame]
  (let [value ((:get frame))]
    (note-secrets! frame value)
    value))

(defn- copied "Returns a copy of a state if the frame has a snapshot function, and otherwise the state itself." [{:keys [snapshot]} value]
  (if snapshot (snapshot value) value))

(defn- keep-state "Returns a snapshot of a frame's current state, or the reason why it cannot be stored." [frame]
  (try (copied frame (look frame))
       (catch #?(:clj Throwable :cljs :default) error
         (if (must-end? error) (throw error) {::unread (told error)}))))

(defn- record-epoch! "Stores an epoch of a frame, and returns it with its id." [{:keys [id sure? depth]} {:keys [before after] :as epoch}]
  (let [epoch (assoc epoch :time (now-s) :origin (origin-now) :dispatch-id (:dispatch-id *cause*)
                     ; The changes of a mutable object cannot be determined if it is the same object.
                     :told? (boolean (or sure? (not (identical? before after)) (not (mutable? before)))))
        {:keys [last-id]} (swap! state (fn [s]
                                         (let [number (inc (:last-id s))]
                                           (cond-> (assoc s :last-id number)
                                             (get-in s [:frames id])
                                             (update-in [:frames id :epochs] ring depth (assoc epoch :id number))))))]
    (assoc epoch :id last-id)))

(defn- within-epoch? "Returns whether the current code runs in an epoch of the frame." [frame-id]
  (when-let [token (get-in *cause* [:epochs frame-id])]
    (contains? (get-in @state [:draining frame-id]) token)))

#?(:clj
   (defn- file-of "Returns the file with this base name that defines a namespace, or nil if it belongs to a library." [ns-name base]
     (let [path (str (first (re-find #"^.*/|^" (str/replace (munge ns-name) "." "/"))) base)
           resource (.getResource (clojure.lang.RT/baseLoader) path)]
       (cond (nil? resource) (or (some (fn [v]
                                         (let [file (str (:file (meta v)))]
                                           (when (str/ends-with? file base) file)))
                                       (some-> (find-ns (symbol ns-name)) ns-interns vals))
                                 base)
             (= "file" (.getProtocol resource)) (.getPath resource)))))

(defn- place-of "Returns the innermost location of an error in the application's own code." [error]
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

(defn- root-of "Returns the root cause of an error. Errors with the same root count as one failure." [error]
  (last (take 20 (take-while some? (iterate ex-cause error)))))

(defn- weakly "Returns a weak reference to an error, or nil if the host does not support it." [error]
  #?(:clj (java.lang.ref.WeakReference. error)
     :cljs (when (and (exists? js/WeakRef) (instance? js/Error error)) (js/WeakRef. error))))

(defn- refers? "Returns whether a reference refers to an error." [reference error]
  (identical? error #?(:clj (.get ^java.lang.ref.WeakReference reference) :cljs (.deref reference))))

(defn- index-of "Returns the index of the event with this id, searching the newest first, or nil if it is not stored." [events id]
  (loop [n (dec (count events))]
    (cond (neg? n) nil (= id (:id (nth events n))) n :else (recur (dec n)))))

(defn- failure-of "Returns the event of an error that was already recorded, in the current dispatch or outside any dispatch." [error]
  (let [{:keys [failures events]} @state, root (root-of error), {:keys [dispatch-id]} *cause*
        index (some #(when (refers? (:root %) root) (index-of events (:id %))) (rseq failures))
        event (when index (nth events index))]
    (when (and event (or (nil? dispatch-id) (contains? #{nil dispatch-id} (:dispatch-id event)))) event)))

(defn- with-facts "Returns an event with details from another source. Existing details are not replaced." [{:keys [event-id tags] :as event} details]
  (let [told (into {} (for [[k v] details :when (some? v)] [k (tag v)])), within (:event-id told)
        more (cond-> (apply dissoc told fields) (and within event-id (not= within event-id)) (assoc :within within))]
    (-> (merge (when-let [origin (origin-now)] {:origin origin}) (when *cause* (select-keys *cause* [:dispatch-id]))
               (select-keys told fields) event)
        (assoc :tags (merge tags more tags)))))

(defn- add-facts! "Adds details to the event of a failure, and returns the event's id." [id details]
  (let [{:keys [events subscriptions]}
        (swap! state update :events (fn [events] (if-let [index (index-of events id)] (update events index with-facts details) events)))]
    (when (seq subscriptions)
      (when-let [index (index-of events id)]
        (doseq [[_ {:keys [offer]}] subscriptions] (offer (nth events index)))))
    id))

(defn- forget-failure! "Forgets an error, so that it counts as a new failure the next time, as after its thread has ended." [error]
  (let [root (root-of error)]
    (swap! state update :failures #(filterv (fn [known] (not (refers? (:root known) root))) %))))

(defn note-error!
  "Records a caught error with its location. `details` are the same as for `emit!`. An error that was already recorded in the same
  dispatch, or that has the same cause, counts as the same failure, and the details are added to its event."
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

(defn- run-epoch "Handles an event as one epoch of a frame, and returns the value or the error, and the epoch." [frame-id event-id handle]
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

;; Functions that applications call

(defn install!
  "Turns the seam on if `enabled` is true, or, without an argument, if the environment has CODRIVER_SEAM=1. Returns whether it is on."
  ([] (install! (switched-on?)))
  ([enabled]
   (when (and enabled (nil? @session-id))
     (swap! state assoc :installed-ms (long (* 1000 (now-s))))
     (compare-and-set! session-id nil (str #?(:clj (java.util.UUID/randomUUID) :cljs (random-uuid))))
     #?(:cljs (js/Reflect.set js/globalThis "__codriver_seam"
                              #js {:sessionId @session-id, :installedMs (:installed-ms @state), :contract contract})))
   (some? @session-id)))

(defn forget! "Resets the seam to its initial state, for tests of applications." []
  (doseq [[_ {:keys [unwatch]}] (:frames @state) :when unwatch] (unwatch))
  (doseq [[_ {{:keys [end]} :capture}] (:subscriptions @state) :when end] (end))
  (reset! state at-rest)
  (reset! session-id nil))

(defn loaded! "Records that code was reloaded." []
  (swap! state update :loads inc)
  nil)

(defn frame!
  "Registers a part of the application's state under a name.

  `:get` returns the state and `:set` replaces it. `:validate` returns nil or true for a valid value, or else a message.
  `:dispatch` handles an event before it returns, and `:enqueue` passes it to the application's own loop. `:snapshot` is a
  function that copies a state that is changed in place, or `:none` if no state ever is. Values at the `:sensitive` paths, in
  which `:*` matches any step, are hidden."
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
  "Registers the value of an atom or ref under a name. Each change is an epoch. `options` are the same as for `frame!`."
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

(defn machine! "Registers a state machine under a name. `state-of` returns its state." [id state-of]
  (when @session-id (swap! state assoc-in [:machines id] state-of) id))

(defn predicate! "Registers a predicate for events, which the filter `pred` can name." [id test]
  (when @session-id (swap! state assoc-in [:predicates id] test) id))

(defn handler!
  "Registers a var and its location as a handler of a `kind`, such as event or fx. May be called before `install!`."
  [kind id handler]
  (let [{:keys [ns file line column doc]} (meta handler)
        place {:ns (str ns), :file #?(:clj (or (file-of (str ns) (last (str/split (str file) #"/"))) file) :cljs file),
               :line line, :column column}]
    (swap! state assoc-in [:handlers [kind id]]
           (cond-> (merge {:kind (if (ident? kind) (name kind) (str kind)), :id (label id)} place)
             doc (assoc :doc (first (str/split-lines (str/trim doc))))))
    handler))

(defn in-epoch
  "Handles an event by calling `handle`, and records one epoch of a frame. Inside another epoch of the frame, records nothing.

  Returns the value of `handle`. An error that it throws is recorded and thrown again."
  [frame-id event-id handle]
  (if (or (nil? @session-id) (nil? (get-in @state [:frames frame-id])) (within-epoch? frame-id))
    (handle)
    (let [{:keys [value error]} (run-epoch frame-id event-id handle)]
      (if error (throw error) value))))

(defmacro epoch "Evaluates the body, which handles an event, as one epoch of a frame. See `in-epoch`."
  [frame-id event-id & body]
  `(in-epoch ~frame-id ~event-id (fn [] ~@body)))

(defn bind
  "Returns a function that runs with the current origin and dispatch id wherever it is called: in a queue, a thread or a callback."
  [function & arguments]
  (let [origin (origin-now), cause (some-> *cause* (select-keys [:dispatch-id]))]
    (fn [& more]
      (binding [*origin* origin, *cause* cause]
        (apply function (concat arguments more))))))

;; Reading: each accessor takes a map of arguments and returns a map with its answer

(defn- same "Returns a predicate that matches a name as written, or without the colon of a keyword." [wanted]
  (let [wanted (label wanted), forms #{wanted (str ":" wanted)}]
    #(and (some? %) (contains? forms (label %)))))

(defn- who-of "Returns the caller in an origin." [origin]
  (str (:who origin "app")))

(defn- listing [names]
  (str/join ", " (map label names)))

(defn- frame-of "Returns the named frame, or else the only one. Refuses if it is not clear which frame is meant." [{:keys [frame]}]
  (let [frames (:frames @state), names (keys frames)]
    (cond
      (and (nil? frame) (= 1 (count frames))) (val (first frames))
      (nil? frame) (if (seq frames)
                     (refuse "ambiguous-frame" (str "there are several frames. Pass one of these as the argument `frame`: " (listing names)) :frames (mapv label names))
                     (refuse "no-frame-resolved" (str "no frame is registered. The application must call "
                                                      "(watch-atom! name atom) or (frame! name {:get f})") :frames []))
      :else (or (some (fn [[id found]] (when ((same frame) id) found)) frames)
                (refuse "no-such-frame" (if (seq names) (str "there is no frame " (printed frame) ". The frames are: " (listing names)) "no frame is registered"))))))

(defn- read-edn "Returns a vector with the only EDN value in a text, or nil if there is not exactly one." [text]
  (let [read (try (edn/read-string (str "[" text "\n]"))
                  (catch #?(:clj Throwable :cljs :default) error (when (must-end? error) (throw error))))]
    (when (= 1 (count read)) read)))

(defn- read-literal "Returns the EDN value in a text. Refuses a text without exactly one value." [name text reason]
  (if-let [[value] (read-edn text)]
    value
    (refuse reason (str name " must be a single EDN value, but " (printed (cut (str text) 80)) " is not one"))))

(defn- path-of "Parses a path: a vector, a single key, or names and numbers separated by dots." [asked]
  (cond
    (sequential? asked) (vec asked)
    (str/blank? (str asked)) []
    :else (let [[value :as read] (read-edn asked)]
            (cond (sequential? value) (vec value)
                  (or (nil? read) (symbol? value)) (mapv #(with-meta [%] {::word true}) (str/split (str asked) #"\."))
                  :else [value]))))

(defn- last-id "Returns the id of the newest event." []
  (:id (peek (:events @state)) 0))

(declare issues)

(defn- health "Describes the seam, with the available bands of accessors and the reasons why others are unavailable." [_]
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

(defn- state-at "Returns the state of a frame, or the part at a path." [{:keys [path include-sensitive include-large] :as asked}]
  (let [{:keys [id sensitive] :as frame} (frame-of asked)
        [path value] (part-at (look frame) (path-of path))
        {:keys [counts] :as egress} (egress (when-not include-sensitive sensitive) (boolean include-large))
        text (shown egress value path)]
    (merge {:frame (label id), :path (printed path), :value text} (select-keys @counts [:redacted :elided]))))

(defn- limit-of [asked default]
  (max 1 (or (:limit asked) default)))

(declare changes)

(defn- changed-at "Returns the changes that an epoch made at a path, or nil if one of its states could not be read." [frame {:keys [before after] :as epoch} path]
  (when-not (or (unread? before) (unread? after)) (not-empty (first (changes frame epoch epoch path)))))

(defn- epochs "Returns the epochs of a frame, newest last. With a path, returns only those that changed the part at it, with the changes." [{:keys [since filter path] :as asked}]
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

(defn- epoch-of "Returns the epoch with this number, or the newest one without a number. Refuses if it is not stored." [{:keys [epochs]} number reason]
  (cond
    (empty? epochs) (refuse (if number reason "band-missing")
                            "no epoch is stored: no change was observed, and the application has not handled an event in (epoch \u2026)")
    (nil? number) (peek epochs)
    :else (or (some #(when (= number (:id %)) %) epochs)
              (refuse reason (str "only the epochs " (:id (first epochs)) " to " (:id (peek epochs)) " are stored")))))

(defn- differences-at "Returns the differences between two values at a path." [old new path]
  (let [[path-then was :as old?] (found-at old path), [path-now is :as new?] (found-at new path)]
    (cond (and old? new?) (differences was is path-now)
          old? [{:op "removed", :path path-then, :old was}]
          new? [{:op "added", :path path-now, :new is}])))

(defn- changes "Returns the changes at a path from before one epoch to after another, and the number of hidden values in them." [frame from to path]
  (when-not (and (:told? from) (:told? to))
    (refuse "band-missing" (str "the changes are unknown, because the state is the same object as before and no snapshot was made; the "
                                "application must pass a function as :snapshot to the frame, or :none if no state is ever "
                                "changed in place")))
  (doseq [kept [(:before from) (:after to)] :when (unread? kept)]
    (refuse failed (str "the state could not be read: " (::unread kept))))
  (let [egress (egress (:sensitive frame) false)
        rows (vec (for [{:keys [op path old new]} (take (:changes most) (differences-at (:before from) (:after to) path))]
                    (cond-> {:op op, :path (printed path)}
                      (not= "added" op) (assoc :before (shown egress old path))
                      (not= "removed" op) (assoc :after (shown egress new path)))))]
    [rows (:redacted @(:counts egress))]))

(defn- diff "Returns the changes that an epoch made, or those from one epoch to another." [{:keys [epoch-id from to] :as asked}]
  (let [frame (frame-of asked)
        last (epoch-of frame (or to epoch-id) "no-such-epoch")
        first (if from (epoch-of frame from "no-such-epoch") last)
        [rows redacted] (changes frame first last [])]
    {:frame (label (:id frame)), :epoch-id (:id last), :event-id (label (:event-id last)), :changes rows, :count (count rows), :redacted redacted}))

(def ^:private filters
  "For each filter of events, a function from the requested value to a predicate."
  (letfn [(equal [field] (fn [wanted] (comp (same wanted) field)))]
    (array-map
     :op-type (equal :op-type), :operation (equal :operation), :frame (equal :frame), :event-id (equal :event-id),
     :handler-id (equal :handler-id), :source (equal :source), :dispatch-id (equal :dispatch-id),
     :severity (fn [wanted]
                 (when-not (contains? #{"error" "warning" "info"} wanted)
                   (refuse "accessor-failed" "severity must be one of error, warning, info"))
                 #(= wanted (:op-type %))),
     :origin (fn [wanted] #(or (= wanted (who-of (:origin %))) (= wanted (get (:origin %) :evaluation ::none))))
     :since (fn [id] #(< id (:id %)))
     :since-ms (fn [ms] #(< ms (* 1000 (:time %))))
     :between (fn [[first last]] #(<= first (* 1000 (:time %)) last))
     :pred (fn [wanted]
             (let [predicates (:predicates @state)]
               (or (some (fn [[id test]] (when ((same wanted) id) test)) predicates)
                   (refuse "no-such-predicate"
                           (str "there is no predicate " (printed wanted) ". The registered predicates are: " (if (seq predicates) (listing (keys predicates)) "none")))))))))

(defn- matcher "Returns a predicate for events that match all parts of a filter." [asked]
  (let [tests (doall (for [[k wanted] asked]
                       ((or (filters k)
                            (refuse "accessor-failed" (str "there is no filter " (printed (camel k)) ". The filters are "
                                                           (str/join ", " (map camel (keys filters))))))
                        wanted)))]
    (fn [event] (every? #(% event) tests))))

(defn- line-of
  "Formats an event as one line: id, op-type, operation, frame, event, dispatch, time, origin, tags."
  [{:keys [id op-type operation frame event-id dispatch-id ms origin tags]}]
  (one-line
   (str/join " " (concat [id op-type (label operation)]
                         (when (or frame event-id) [(if frame (label frame) "-")])
                         (when event-id [(label event-id)])
                         (when dispatch-id [(str "d" dispatch-id)])
                         (when ms [(str (three-digits ms) "ms")])
                         (when origin [(str "by=" (str/join "/" (keep origin [:who :evaluation])))])
                         (for [[k v] tags] (str (if (ident? k) (name k) (printed k)) "=" (label v)))))))

(defn- row-of "Returns an event as a map with its names as strings." [{:keys [tags] :as event}]
  (cond-> (reduce #(if (contains? event %2) (update %1 %2 label) %1) event
                  [:operation :frame :event-id :handler-id :source])
    tags (assoc :tags (into {} (for [[k v] tags]
                                 [(if (ident? k) (name k) (printed k))
                                  (if (or (nil? v) (number? v) (boolean? v)) v (label v))])))))

(declare note-overdue!)

(defn- trace "Returns the newest events that match a filter, one per line, newest last." [{:keys [filter raw] :as asked}]
  (note-overdue!)
  (let [found (filterv (matcher filter) (newest (:events @state) (:events most)))
        shown (newest found (limit-of asked 50))]
    (merge (if raw {:events (mapv row-of shown)} {:lines (mapv line-of shown)})
           {:count (count shown), :total (count found), :last-id (last-id)})))

(defn- issues
  "Returns the application's errors and warnings, one per line, newest last. Repeated ones are listed once with their number."
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

(defn- handlers "Returns the handlers with their locations." [{:keys [kind id]}]
  (let [rows (filterv #(and (or (nil? kind) ((same kind) (:kind %))) (or (nil? id) ((same id) (:id %))))
                      (vals (:handlers @state)))]
    {:handlers rows, :count (count rows)}))

(defn- machines "Returns the state of each machine." [{:keys [id]}]
  (let [known (:machines @state)
        _ (when (empty? known) (refuse "band-missing" "no machine is registered: the application must call (machine! name f)"))
        found (into {} (for [[name state-of] known :when (or (nil? id) ((same id) name))]
                         [(label name) {:state (shown (egress nil false) (state-of) [])}]))]
    {:machines found, :count (count found)}))

(defn- probe "Returns the number of calls to this accessor, and the number of times that code was loaded." [_]
  (let [{:keys [probes loads]} (swap! state update :probes inc)]
    {:probe probes, :build-tick loads, :session-id @session-id}))

;; Changing: a refused change leaves the state unchanged

(defn- refuse-draining [{:keys [id]}]
  (when (seq (get-in @state [:draining id])) (refuse "during-drain" "an event is being handled. Call again when its handler has finished")))

(defn- write! "Replaces the state of a frame with the application's setter." [{:keys [id set]} value]
  (binding [*written* id] (set value)))

(defn- put-back! "Restores the previous state if it has changed. Returns a clause that describes the outcome." [frame before]
  (let [now (keep-state frame)]
    (cond
      (identical? before now) (if (or (:sure? frame) (not (mutable? now))) ""
                                  "; it is not known whether the state has changed: the frame was registered without :snapshot")
      (or (unread? before) (unread? now)) "; the state could not be read"
      (empty? (differences before now)) ""
      (nil? (:set frame)) "; the state could not be restored, because the frame was registered without :set"
      :else (try (write! frame (copied frame before))
                 "; the state was restored"
                 (catch #?(:clj Throwable :cljs :default) error (str "; the state could not be restored: " (told error)))))))

(defn- handle-now "Handles an event immediately and returns the changes. On failure, restores the previous state." [frame event]
  (refuse-draining frame)
  (let [event-id (first event)
        {:keys [error recorded]} (run-epoch (:id frame) event-id #((:dispatch frame) event))
        _ (when (and error (must-end? error)) (throw error))
        noted (last (filter #(and (= "error" (:op-type %)) (= (:dispatch-id recorded) (:dispatch-id %))) (:events @state)))]
    (when (or error noted)
      (swap! state update-in [:frames (:id frame) :epochs]
             (fn [kept] (mapv #(if (= (:id recorded) (:id %)) (assoc % :outcome "error") %) kept)))
      (refuse "handler-failed"
              ; A swallowed error was recorded all the same.
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

(defn- note-queued! "Remembers a queued event until an epoch or any other event is recorded for it." [frame-id event-id]
  (let [{:keys [dispatch-id]} *cause*
        details {:at-ms (clock-ms), :origin (origin-now), :dispatch-id dispatch-id, :frame frame-id, :event-id event-id}]
    (swap! state update :queued
           #(let [queued (assoc % dispatch-id details)]
              (if (> (count queued) (:queued most)) (dissoc queued (apply min (keys queued))) queued)))))

(defn- note-overdue! "Records each event that an agent queued and that was not started in time once, with its origin." []
  (doseq [[dispatch-id {:keys [at-ms origin frame event-id]}] (:queued @state)
          :when (< (+ at-ms overdue-ms) (clock-ms))]
    (let [[old _] (swap-vals! state update :queued dissoc dispatch-id)]
      ; Code that records no epoch may have recorded another event.
      (when-not (or (nil? (get-in old [:queued dispatch-id])) (some #(= dispatch-id (:dispatch-id %)) (:events old)))
        (binding [*reading?* false, *origin* origin, *cause* {:dispatch-id dispatch-id}]
          (emit! "error" "not-begun" {:frame frame, :event-id event-id, :source "change"
                                      :message (str "not started within " (quot overdue-ms 1000) " s: the code that empties the queue "
                                                    "has ended, or handles the event without bind")}))))))

(defn- dispatch "Passes an event to the application's own loop, or, with `sync`, handles it immediately and returns the changes." [{:keys [sync event] :as asked}]
  (let [{:keys [id enqueue] :as frame} (frame-of asked)
        queued? (and enqueue (not sync))
        _ (when-not (or queued? (:dispatch frame))
            (refuse "no-dispatch" (str "the frame " (label id) " has no " (if sync ":dispatch" ":enqueue"))))
        event (if (sequential? event) (vec event) (read-literal "event" event "not-an-event-vector"))]
    (when-not (and (sequential? event) (seq event))
      (refuse "not-an-event-vector" "an event must be a vector: its id, followed by its arguments"))
    (binding [*cause* {:dispatch-id (next-dispatch!)}]
      (merge {:frame (label id), :event-id (label (first event)), :dispatch-id (:dispatch-id *cause*), :origin (who-of (origin-now))}
             (if queued?
               (do (enqueue event) (note-queued! id (first event)) {:mode "queued"})
               (assoc (handle-now frame event) :mode "sync"))))))

(defn- problem "Returns the message with which the application's validator rejects a value, or nil if it is valid." [{:keys [validate]} value]
  (when validate
    (let [said (try (validate value)
                    (catch #?(:clj Throwable :cljs :default) error (if (must-end? error) (throw error) (told error))))]
      (cond (or (nil? said) (true? said) (= "" said)) nil
            (false? said) "the value is not valid"
            :else (label said)))))

(defn- restorable? "Returns whether the complete state after an epoch is stored." [{:keys [outcome told? after]}]
  (and (= "ok" outcome) told? (not (unread? after))))

(defn- keeping! "Returns the id of the epoch that led to a state. Records a new epoch if the state was changed outside of epochs." [{:keys [id]} now operation]
  (let [{:keys [epochs restored] :as frame} (get-in @state [:frames id])
        newest (peek epochs)]
    (or (some #(when (and (restorable? %) (empty? (differences (:after %) now))) (:id %))
              (cons newest (filter #(= restored (:id %)) epochs)))
        (:id (record-epoch! frame {:event-id (str "before-" operation), :after now, :ms 0, :outcome "ok",
                                   :before (if newest (:after newest) {::unread "no earlier state is stored"})})))))

(defn- replace-state! "Replaces the state with a value, and returns the epoch that undoes this." [frame value operation]
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

(defn- changeable "Returns the named frame. Refuses if its state cannot be replaced now." [asked]
  (let [frame (frame-of asked)]
    (when-not (:set frame) (refuse "read-only-frame" (str "the frame " (label (:id frame)) " has no :set")))
    (refuse-draining frame)
    frame))

(def ^:private unkept "the state of this epoch was not stored: the application must pass :snapshot to the frame")

(defn- after-of "Returns the state after an epoch. Refuses if it is incomplete or was not stored." [{:keys [id after outcome] :as epoch}]
  (when-not (restorable? epoch)
    (refuse "non-ok-record" (if (= "ok" outcome) unkept (str "that event failed halfway. The state before it is epoch " (- id)))))
  after)

(defn- before-of "Returns the state before an epoch. Refuses if it was not stored." [{:keys [before told?]}]
  (when (or (not told?) (unread? before)) (refuse "non-ok-record" unkept))
  before)

(defn- restore "Restores the state after an epoch, or, if the id is negative, the state before it." [{:keys [epoch-id] :as asked}]
  (let [{:keys [id] :as frame} (changeable asked)
        _ (when-not epoch-id (refuse "unknown-epoch" "epochId is missing. Pass one of the ids that the accessor `epochs` lists"))
        before? (neg? epoch-id)
        epoch (epoch-of frame (if before? (- epoch-id) epoch-id) "unknown-epoch")
        told (replace-state! frame (copied frame ((if before? before-of after-of) epoch)) "restored")]
    (when-not before? (swap! state assoc-in [:frames id :restored] epoch-id))
    (cond-> (assoc told :frame (label id)) (not before?) (assoc :epoch-id epoch-id))))

(defn- reset "Replaces the state with a value, and records this as an epoch that can be undone." [{:keys [value] :as asked}]
  (let [frame (changeable asked)]
    (merge {:frame (label (:id frame))} (replace-state! frame (read-literal "value" value "schema-mismatch") "reset"))))

;; Redacting answers

(defn- secrets "Returns the current and recent strings at sensitive paths, longest first." []
  (doseq [frame (vals (:frames @state)) :when (seq (:sensitive frame))] (keep-state frame))
  (sort-by (comp - count) (distinct (mapcat :secrets (vals (:frames @state))))))

(defn- sensitive-texts
  "Returns the current and recent strings at sensitive paths with the names of their frames. They are for the caller's redactor only." []
  (secrets)
  {:texts (vec (for [{:keys [id secrets]} (vals (:frames @state)), text secrets] [(label id) text]))})

(defn- plainly "Calls a function with default print settings, and returns its value." [f]
  (binding [*print-length* nil, *print-level* nil, *print-readably* true, *print-namespace-maps* false, *print-meta* false]
    (f)))

(defn show
  "Returns the text of a value as agents may see it, hiding what the frame hides. For code whose results bypass `call`."
  ([value] (show value nil))
  ([value frame-id]
   (plainly #(without (shown (egress (get-in @state [:frames frame-id :sensitive]) false) value []) (secrets)))))

(defn- part-of "Returns part of a text and the text's length. Both count Unicode characters, as Python does." [text start size]
  #?(:clj (let [^String text text, total (.codePointCount text 0 (count text)), start (min start total)
                end (if size (min total (+ start size)) total), from (.offsetByCodePoints text 0 (int start))]
            [(subs text from (.offsetByCodePoints text from (int (- end start)))) total])
     :cljs (if (re-find #"[\ud800-\udfff]" text)
             (let [all (js/Array.from text), total (.-length all)]
               [(.join (.slice all start (if size (+ start size) total)) "") total])
             (let [total (count text), start (min start total)]
               [(subs text start (if size (min total (+ start size)) total)) total]))))

(defn- leaving "Removes secrets from an answer, and then truncates its value to the requested range, so that no secret is cut in two." [answer {:keys [include-sensitive from max-chars]}]
  (let [{:keys [value] :as clean} (if include-sensitive answer (without answer (secrets)))]
    (if (and (string? value) (or (pos? (or from 0)) (and max-chars (< max-chars (count value)))))
      (let [start (or from 0), [part total] (part-of value start max-chars)]
        (assoc clean :value part :from start :total total))
      clean)))

;; Captures: calls to a function are recorded as events while a client is subscribed to them

(def ^:private capture-limits {:hits 50, :most-hits 1000, :arguments 20})
(def ^:private comparisons {"=" =, "==" =, "not=" not=, "!=" not=, "<" <, "<=" <=, ">" >, ">=" >=})

(defn- captured "Returns the short text of a value in a capture. Realizes no part of a lazy value." [value]
  (cut (shown (assoc (egress nil false) :careful? true, :counts (volatile! {:left (:tag most), :redacted 0, :elided 0})) value [])
       (:tag most)))

(defn- named-arguments "Returns the arguments of a call, each with its name if one of the argument lists matches." [arglists arguments]
  (let [size (bounded-count (:arguments capture-limits) arguments)
        fixed #(vec (take-while (complement #{'&}) %))
        list (some #(when (if (some #{'&} %) (<= (count (fixed %)) size) (= (count %) size)) (fixed %)) arglists)]
    (map-indexed (fn [n value] (let [known (get list n)] [(if (symbol? known) (name known) (str "arg" n)) value]))
                 (take size arguments))))

(defn- condition
  "Converts a form to a predicate on a call's variables. The form compares a variable with a literal, or combines several such
  comparisons with `and` and `or`. It is never evaluated."
  [form]
  (letfn [(bad [] (refuse "accessor-failed" (str "when must compare a variable with a literal, such as (> total 100) or total > 100, "
                                                 "or combine comparisons with (and ...), (or ...); " (printed form) " does not")))
          (operand [form]
            (cond (symbol? form) (fn [values]
                                   (if-let [[_ value] (find values (name form))] value
                                           (throw (ex-info (str "the call has no variable " form) {}))))
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

(defn- condition-of "Parses a condition in prefix or infix notation, and returns its predicate." [text]
  (let [forms (try (edn/read-string (str "[" text "\n]")) (catch #?(:clj Exception :cljs :default) _ nil))]
    (condition (if (= 3 (count forms)) (let [[variable op wanted] forms] (list op variable wanted)) (first forms)))))

(defn- function-var "Returns the var of a function by name. Refuses if it does not exist or cannot be wrapped." [text]
  (let [[ns-name function-name] (str/split (str text) #"[:/]" 2)
        none #(refuse "path-not-found" (str "of must be namespace/function of a loaded namespace, not " (printed text) %))]
    #?(:org.babashka/nbb nil :cljs (none ": compiled ClojureScript has no vars to wrap") :default nil)
    (when (or (str/blank? function-name) (re-matches #"\d+" function-name)) (none ""))
    (let [found (when (find-ns (symbol ns-name)) (resolve (symbol ns-name function-name))), {:keys [macro protocol]} (meta found)]
      (cond (nil? found) (none "")
            (or macro protocol (not (fn? @found))) (none ": it is not a plain function")
            #?@(:clj [(some #(= "invokePrim" (.getName ^java.lang.reflect.Method %)) (.getMethods (class @found)))
                      (none ": the function takes primitive numbers, as its callers expect")]))
      found)))

(defn- tell-call! "Records a call as an event if it meets the condition. Never throws."
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
          ; Record the event first: the stream of a finished capture ends when its queue is empty.
          (when (<= most-hits number) (reset! over true)))))
    (catch #?(:clj Exception :cljs :default) error (swap! failed #(or % (told error))))))

(defn- wrapped "Returns a wrapper for a function that also records its calls." [original arglists {:keys [over] :as capture}]
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

(defn- begin-capture! "Starts a capture by wrapping the function. Returns the capture, which includes a function that ends it." [id {:keys [of when pred hits]}]
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
             ; A redefinition in the meantime is kept. Other captures of the function continue, and may wrap this one.
             (alter-var-root found #(loop [function %]
                                      (let [{:keys [original over]} (get-in @state [:wrapped function])]
                                        (if (and over @over) (recur original) function))))
             (swap! state update :wrapped #(if (every? (comp deref :over val) %) {} %))))))

(defn- capture-row [{:keys [of hits failed most-hits]}]
  (cond-> {:of of, :hits (min @hits most-hits), :left (max 0 (- most-hits @hits))} @failed (assoc :why @failed)))

;; Streams: subscriptions, whose events are pushed to the subscribers

(def ^:private topics "The op-type of the events in each topic, or nil for all events." {"trace" nil, "epoch" "epoch", "fx" "fx", "error" "error", "calls" "call"})
(def ^:private stream-limits {:subscriptions 10, :events 500, :bytes 1048576, :batch 100, :rest-ms 20, :lease-s 60})

(defn- waiting "Returns the queued events: the newest ones that fit." [{:keys [kept max-events]}]
  (newest kept max-events))

(defn- dropped "Returns the number of events that did not fit." [{:keys [offered taken] :as queue}]
  (- offered taken (count (waiting queue))))

(defn- size-of "Returns the approximate size of an event in bytes." [{:keys [tags]}]
  (reduce-kv (fn [size _ tag] (+ size (if (string? tag) (count tag) 8))) 200 (or tags {})))

(defn- without-excess "Drops the oldest events of a queue if it exceeds its size limit." [{:keys [max-bytes] :as queue}]
  (let [events (waiting queue)
        room (count (take-while #(<= % max-bytes) (reductions + (map size-of (rseq events)))))]
    (assoc queue :kept (into [] (newest events room)))))

(defn- taking "Moves the oldest events of a queue to `:batch`." [queue]
  (let [{:keys [kept] :as queue} (without-excess queue), batch (subvec kept 0 (min (count kept) (:batch stream-limits)))]
    (-> (assoc queue :batch batch :kept (into [] (subvec kept (count batch))))
        (update :taken + (count batch)))))

(defn- pushed "Returns an event for a subscriber: its fields, each shortened to one line, and its line in the trace." [event]
  (let [short-text #(cut (one-line (label %)) (:tag most))]
    (-> (reduce #(if (contains? event %2) (update %1 %2 short-text) %1)
                (select-keys event [:id :time :op-type :operation :frame :event-id :handler-id :source :origin :dispatch-id :ms])
                [:operation :frame :event-id :handler-id :source])
        (assoc :line (cut (line-of event) (:text most))))))

(defn- as-now "Returns the current version of an event, with details added since it was queued." [{:keys [op-type id] :as event}]
  (let [events (:events @state), index (when (= "error" op-type) (index-of events id))]
    (if index (nth events index) event)))

(defn- flush! "Writes a batch of queued events to a subscriber. Returns nil if there were none." [{:keys [id queue write]}]
  (when (seq (waiting @queue))
    (let [{:keys [batch told] :as now} (swap! queue taking), lost (dropped now)]
      (when (seq batch)
        (write (str \u001e (json {:sub id, :dropped (- lost told), :depth (count (waiting now)),
                                  :events (without (mapv (comp pushed as-now) batch) (secrets))}) "\n"))
        (swap! queue #(-> % (assoc :told lost) (update :sent + (count batch))))))))

(defn- writer "Returns a function that writes to the current output, and throws if nobody reads it any longer." []
  #?(:clj (let [^java.io.Writer out *out*]
            (fn [^String text]
              (.write out text)
              (.flush out)
              (when (and (instance? java.io.PrintWriter out) (.checkError ^java.io.PrintWriter out))
                (throw (ex-info "the output is closed" {})))))
     ; nbb finds the output by the asynchronous context, which would otherwise be the emitter's.
     :cljs (let [print-fn *print-fn*
                 built-in (some-> js/globalThis .-process .-getBuiltinModule)
                 in-context (if built-in (.. (built-in "async_hooks") -AsyncResource -bind) identity)]
             (in-context (fn [text] (print-fn text))))))

(defn- end-subscriptions! "Ends the subscriptions that match a predicate, and their captures." [ended?]
  (doseq [[id {{:keys [end]} :capture :as subscription}] (:subscriptions @state) :when (ended? subscription)]
    (when end (end))
    (swap! state update :subscriptions dissoc id)))

(defn- told-all? "Returns whether a subscription's capture has ended and all of its events have been written." [{:keys [capture queue]}]
  (and capture @(:over capture) (let [{:keys [taken sent] :as queue} @queue] (and (= taken sent) (empty? (waiting queue))))))

(defn- pump! "Ends expired subscriptions, and writes queued events to all others." []
  (end-subscriptions! #(or (< @(:ends %) (clock-ms)) (told-all? %)))
  (binding [*reading?* true]
    (note-overdue!)
    (doseq [{:keys [id] :as subscription} (vals (:subscriptions @state))]
      (try (plainly #(flush! subscription))
           (catch #?(:clj Exception :cljs :default) _ (end-subscriptions! #(= id (:id %))))))))

#?(:clj (defn- pump-while-subscribed! "Writes events until no subscriptions are left. Runs in the only writer thread." [token]
          (loop []
            (pump!)
            (Thread/sleep (:rest-ms stream-limits))
            (when (identical? token (:pump (swap! state #(if (empty? (:subscriptions %)) (dissoc % :pump) %)))) (recur)))))

(defn- wake! "Schedules the writer if the host has no threads." []
  #?(:clj nil
     :cljs (when-not (:pump @state)
             (let [timer (js/setTimeout (fn []
                                          (swap! state dissoc :pump)
                                          (pump!)
                                          (end-subscriptions! told-all?)
                                          (when (some #(seq (waiting @(:queue %))) (vals (:subscriptions @state))) (wake!)))
                                        (:rest-ms stream-limits))]
               (swap! state assoc :pump true)
               (when (.-unref timer) (.unref timer)))))) ; the timer does not keep a program from ending

(defn- offering "Returns a function that queues events matching a filter, on the application's thread. It never waits, formats or throws." [topic filter queue]
  (let [op-type (topics topic), wanted? (matcher (dissoc filter :of :when :hits))]
    (fn [event]
      (when (and (or (nil? op-type) (= op-type (:op-type event)))
                 (try (wanted? event) (catch #?(:clj Throwable :cljs :default) _ false)))
        (swap! queue (fn [{:keys [max-events failures] :as queue}]
                       (let [id (when (= "error" (:op-type event)) (:id event))]
                         (if (and id (some #(= id %) failures)) ; details were added to a queued failure
                           queue
                           (cond-> (-> queue (update :offered inc) (update :kept loose-ring max-events event))
                             id (update :failures ring (:failures most) id))))))
        (wake!)))))

(defn- subscribe "Starts pushing the events of a topic to the caller's output." [{:keys [topic filter max-events max-bytes lease-s]}]
  (let [topic (or topic "trace"), {:keys [subscriptions]} @state, most (:events stream-limits)
        lease-ms (* 1000 (or lease-s (:lease-s stream-limits)))
        queue (atom {:kept [], :failures [], :offered 0, :taken 0, :sent 0, :told 0, :max-events (max 1 (min (or max-events most) most)),
                     :max-bytes (or max-bytes (:bytes stream-limits))})]
    (when-not (contains? topics topic) (refuse "unknown-topic" (str "topic must be one of " (str/join ", " (keys topics)))))
    (when (<= (:subscriptions stream-limits) (count subscriptions))
      (refuse "too-many-subscriptions" (str "there are already " (count subscriptions) " subscriptions, which is the maximum; end one of them: " (listing (keys subscriptions)))))
    (let [id (str "s" (:last-subscription (swap! state update :last-subscription inc)) "-" (subs @session-id 0 6))
          calls? (= "calls" topic)
          ; For a capture, `pred` applies to the variables, and is passed to it.
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

(defn- subscriptions "Returns the subscriptions, after renewing the leases of those in `renew`." [{:keys [renew]}]
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

(defn- reset-for-test "Ends all subscriptions, and resets the counter of `probe`." [_]
  (end-subscriptions! (constantly true))
  (swap! state assoc :probes 0)
  {:session-id @session-id})

;; The entry point

(def ^:private reading
  (array-map
   "health" health, "state" state-at, "epochs" epochs, "diff" diff, "trace" trace, "issues" issues, "handlers" handlers
   "machines" machines, "subscribe" subscribe, "unsubscribe" unsubscribe, "subscriptions" subscriptions, "probe" probe
   "reset-for-test" reset-for-test))
(def ^:private changing (array-map "dispatch" dispatch, "restore" restore, "reset" reset))

(defn- answer [accessor asked]
  (try
    (when-not @session-id
      (refuse "not-enabled" "the seam is off. The application must call (codriver.seam/install! true), or be started with CODRIVER_SEAM=1"))
    (let [function (or (get reading accessor) (get changing accessor)
                       (when (= accessor "sensitive") (fn [_] (sensitive-texts)))
                       (refuse "no-such-accessor" (str "there is no accessor " (printed accessor) ". The accessors are: " (str/join ", " (concat (keys reading) (keys changing))))))]
      (merge {:ok true} (function asked)))
    (catch #?(:clj Throwable :cljs :default) error
      (cond (must-end? error) (throw error)
            (::refusal (ex-data error)) (::refusal (ex-data error))
            :else {:ok false, :reason failed, :hint (told error)}))))

(defn call
  "Calls an accessor and returns its answer as JSON. `arguments` is an EDN map whose keys are named as in JSON: `{:epochId 3}`.
  `origin` is an EDN map with `:who` and `:evaluation`, or nil."
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
           ; An error raised by the handler has already been recorded.
           (when (and change? (not (contains? #{nil "handler-failed" "not-enabled"} reason)))
             (emit! "error" reason {:frame (:frame asked), :source (if (= failed reason) "change" refusal), :message hint}))
           (binding [*reading?* true]
             (json (if (= accessor "sensitive") answered (leaving answered asked))))))))))

;; Sources of events: the application enables each of them. Enabling one twice has no further effect

(defn- note-tap [value]
  (plainly #(emit! "tap" "tap>" {:source "tap", :value (cut (shown (egress nil false) value []) (:tag most))})))

(defonce ^{:private true, :doc "Records tapped values. It remains the same function if this file is loaded again."} tapped
  (fn [value] (#'note-tap value)))

(defn tap! "Records each value that is passed to `tap>`." []
  (when @session-id (add-tap tapped))
  nil)

(defn watch-uncaught! "Records each uncaught error. The error is otherwise handled as before." []
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
               ; The error is recorded first, and the program then ends as usual.
               (js/process.on "uncaughtExceptionMonitor" (fn [error] (note-error! error {:source "uncaught"})))
               (doseq [kind ["error" "unhandledrejection"]]
                 (js/globalThis.addEventListener
                  kind (fn [event] (note-error! (or (.-error event) (.-reason event)) {:source "uncaught"})))))))
  nil)
