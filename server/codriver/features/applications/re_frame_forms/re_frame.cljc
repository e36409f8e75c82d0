(ns codriver.re-frame
  "Accessors for applications with re-frame, version 1 or 2: expressions that Codriver evaluates in the application.

  This namespace is not loaded there. `framework_forms.py` sends an accessor as one expression with the functions it uses,
  including those in values.cljc. `rf` maps roles to the framework's functions, or to nil if the framework lacks them.
  Answers are maps of strings, numbers and booleans. Runs on the JVM, in ClojureScript and in nbb, and requires only
  clojure.core and clojure.string.")

(defn db-of [rf frame] ((:db rf) frame))

(defn epochs-of [rf frame]
  (if-let [history (:epochs rf)] (history frame) []))

(defn hidden-in
  "Return the paths that are declared sensitive in a frame, or were at the end of one of its epochs.

  The framework stores the declarations in the state, and a handler that creates a new state drops them."
  [rf frame]
  (let [declared (:sensitive rf)
        then (fn [record] (keys (get-in record [:db-after :rf/elision :sensitive-declarations])))
        stored (mapcat then (epochs-of rf frame))]
    (into [] (comp (map vec) (distinct)) (concat (when declared (keys (declared frame))) stored))))

(defn secrets
  "Return the strings at sensitive paths, in the current state and the stored epochs, the longest first."
  [rf]
  (sort-by (comp - count)
           (distinct (for [frame ((:frames rf)) path (hidden-in rf frame)
                           db (cons (db-of rf frame) (mapcat (juxt :db-before :db-after) (epochs-of rf frame)))
                           text (texts-in (get-in db path))]
                       text))))

;; Frames and epochs

(defn own-frames
  "Return the frames of the application, without those of development tools."
  [rf]
  (vec (remove #{:rf/causa :rf/xray} ((:frames rf)))))

(defn frame-of
  "Return the frame named in the arguments, or the application's only frame."
  [rf args]
  (let [frames (vec ((:frames rf)))
        own (own-frames rf)
        names (apply str (interpose ", " (map pr-str frames)))]
    (if-let [text (:frame args)]
      (if-let [[found] (seq (filter (fn [frame] (named? frame text)) frames))]
        found
        (refuse "no-such-frame" (str "there is no frame " (pr-str text) "; the frames are: " names)))
      (cond (= 1 (count own)) (first own)
            (empty? frames) (refuse "no-frame-resolved" "the application has not registered any frames")
            :else (refuse "ambiguous-frame" (str "there are several frames: pass one of them as the argument frame: " names))))))

(defn current-db
  "Return the state of a frame. Refuse if the frame has been destroyed."
  [rf frame]
  (let [db (db-of rf frame)]
    (if (nil? db) (refuse "accessor-failed" (str "the frame " (pr-str frame) " has no state")) db)))

(defn epoch-numbered [epochs number reason]
  (or (last (filter (fn [epoch] (or (nil? number) (= (str number) (str (:epoch-id epoch))))) epochs))
      (refuse (if (seq epochs) reason "no-such-epoch")
              (if (seq epochs)
                (str "the epochs " (:epoch-id (first epochs)) " to " (:epoch-id (last epochs)) " are stored")
                "no epoch is stored, because no event has been handled"))))

(defn changes
  "Return at most 100 differences at a path, without sensitive values."
  [rf frame before after path]
  (let [seen (looking (hidden-in rf frame) false)
        rows (mapv (fn [[op path old new]]
                     (cond-> {:op op :path (pr-str path)}
                       (not= "added" op) (assoc :before (show old path seen))
                       (not= "removed" op) (assoc :after (show new path seen))))
                   (take 100 (differences (get-in before path) (get-in after path) path)))]
    {:changes rows :count (count rows) :redacted @(:redacted seen)}))

;; Events

(defn tagged [event tag] (let [tags (:tags event)] (if (contains? tags tag) (get tags tag) (get event tag))))

(defn event-id-of [event] (or (tagged event :event-id) (first (tagged event :event))))

(defn place-of
  "Return the source location in a map, which may be the map itself or an entry with one of three keys."
  [m]
  (let [found (first (filter :file [(:source-coord m) (:source-coords m) (:rf/source-coord m) m]))]
    (when found {:ns (plain (:ns found)) :file (:file found) :line (:line found) :column (:column found)})))

(defn kind-of
  "Return the class name of an exception."
  [e]
  #?(:clj (.getSimpleName (class e))
     :cljs (if (ex-data e) "ExceptionInfo" (or (.-name e) "Error"))))

(defn failure-of
  "Return the class, message and data of the exception in an event, or nil."
  [event]
  (when-let [e (tagged event :exception)]
    (str (kind-of e) ": " (ex-message e)
         (when-let [data (ex-data e)] (str " " (brief data))))))

(defn row
  "Convert a trace event to a map of numbers and strings."
  [event]
  (let [location (or (place-of (:rf.trace/trigger-handler event)) (place-of (:tags event)))
        tags (dissoc (:tags event) :exception :event-id :handler-id :frame :source :origin :dispatch-id :trace-id
                     :category :source-coords)
        details (if (tagged event :exception) (dissoc tags :reason :phase) tags)]
    {:id (:id event) :time (/ (or (:time event) 0) 1000.0)
     :opType (plain (:op-type event)) :operation (plain (:operation event))
     :frame (plain (tagged event :frame)) :eventId (plain (event-id-of event))
     :handlerId (plain (tagged event :handler-id)) :source (plain (tagged event :source))
     :origin (plain (tagged event :origin)) :dispatchId (tagged event :dispatch-id)
     :ms (:duration event) :failure (failure-of event)
     :place (when location (str (:file location) ":" (:line location)))
     :tags (into {} (map (fn [[k v]] [(plain k) (brief v)])) (remove (comp nil? val) details))}))

(defn origin-tag
  "Convert the caller and its evaluation to a tag that the framework stores with an event."
  [origin]
  (cond (and (:who origin) (:evaluation origin)) (keyword (:who origin) (:evaluation origin))
        (:who origin) (keyword (:who origin))))

(defn from-caller? [event who]
  (let [origin (tagged event :origin)]
    (if (keyword? origin)
      (boolean (some (fn [text] (= who text)) [(namespace origin) (name origin) (plain origin)]))
      (= who (if (nil? origin) "app" (plain origin))))))

(defn matches?
  "Return whether an event passes all given filters."
  [event filters]
  (every? (fn [[k value]]
            (let [at (fn [tag] (named? (tagged event tag) value))]
              (case k
                :opType (at :op-type) :operation (at :operation) :frame (at :frame) :source (at :source)
                :eventId (named? (event-id-of event) value)
                :handlerId (at :handler-id) :dispatchId (at :dispatch-id) :severity (at :op-type)
                :origin (from-caller? event (str value)) :since (< value (:id event)) :sinceMs (< value (:time event))
                :between (<= (first value) (:time event) (second value))
                :pred (refuse "no-such-predicate" "the framework has no predicates: filter by other fields")
                (refuse "accessor-failed" (str "there is no filter " (pr-str (name k)))))))
          filters))

(defn events-of
  "Return the stored events, without those that a handler declared sensitive.

  The framework records the origin only in the first event of a dispatch. It is added to the others here."
  [rf]
  (let [all ((needed rf :trace))
        entry (fn [event] (when-let [origin (tagged event :origin)] [(tagged event :dispatch-id) origin]))
        origins (into {} (keep entry) all)]
    (map (fn [event]
           (let [origin (get origins (tagged event :dispatch-id))]
             (if (and origin (nil? (tagged event :origin))) (assoc-in event [:tags :origin] origin) event)))
         (remove :sensitive? all))))

(defn last-id [rf] (if-let [trace (:trace rf)] (or (:id (last (trace))) 0) 0))

(defn call-with-events
  "Call a function. Return its value and the events in the meantime, from a listener or else from the trace."
  [rf work]
  (let [events (atom []) before (last-id rf)]
    (if-let [listen (:listen rf)]
      (let [key (str "codriver-" (rand-int 2000000000))]
        (listen key (fn [event] (swap! events conj event)))
        (try [(work) @events] (finally ((:unlisten rf) key))))
      [(work) (if-let [trace (:trace rf)] (filterv (fn [event] (< before (:id event))) (trace)) [])])))

(defn errors-of [events frame]
  (filterv (fn [event] (and (= :error (:op-type event)) (contains? #{nil frame} (tagged event :frame)))) events))

;; Entry point

(defn answering
  "Return an accessor's answer without secrets, or its refusal."
  [rf args work]
  (let [answer (try (merge {:ok true} (work))
                  (catch #?(:clj Throwable :cljs :default) e
                    (let [answer (ex-data e)]
                      (if (false? (:ok answer))
                        answer
                        {:ok false :reason "accessor-failed" :hint (str (kind-of e) ": " (ex-message e))}))))]
    (part (without (secrets rf) answer) args)))

(defn process
  "Return an id that differs for each process or page, and the process id if there is one."
  []
  #?(:clj (let [m (java.lang.management.ManagementFactory/getRuntimeMXBean)]
            {:sessionId (str (.getName m) "/" (.getStartTime m)) :pid (.pid (java.lang.ProcessHandle/current))})
     :cljs {:sessionId (str (.-timeOrigin js/performance))}))

;; Accessors

(defn ask-health [rf _args _origin]
  {:sessionId (or (:session rf) (:sessionId (process))) :pid (:pid (process))
   :language #?(:clj "clojure" :cljs "clojurescript")
   :enabled (boolean (:enabled rf)) :frames (mapv pr-str ((:frames rf)))
   :ambiguousFrame (< 1 (count (own-frames rf)))
   :lastId (last-id rf) :events (if-let [trace (:trace rf)] (count (trace)) 0)
   :handlers (reduce + (map count (vals ((:handlers rf)))))
   :machines (if-let [machines (:machines rf)] (count (machines)) 0)
   :has (into {} (map (fn [[k v]] [k (some? v)])) (dissoc rf :missing))
   :missing (:missing rf)
   :coordAnnotation (when-let [causa (:causa rf)] (boolean (:coord-annotation-enabled? (causa))))
   :declared (if (:sensitive rf) (reduce + (map (fn [frame] (count (hidden-in rf frame))) ((:frames rf)))) 0)})

(defn ask-state [rf args _origin]
  (let [frame (frame-of rf args) path (path-of rf (:path args)) db (current-db rf frame)
        missing #?(:clj (Object.) :cljs (js-obj))
        at (fn [value k] (cond (or (map? value) (vector? value)) (get value k missing)
                               (and (sequential? value) (number? k)) (nth value k missing)
                               :else missing))
        steps (reductions at db path)
        good (count (take-while (fn [value] (not (identical? missing value))) steps))
        seen (looking (hidden-in rf frame) (:includeLarge args))]
    (when (<= good (count path))
      (let [here (nth steps (dec good))]
        (refuse "path-not-found"
                (str "the path exists up to " (pr-str (subvec path 0 (dec good)))
                     (if (map? here)
                       (str ", where the keys are " (clip (listed pr-str (take 50 (keys here))) 600))
                         ", where the value has no parts")))))
    (let [text (show (last steps) path seen)]
      {:frame (pr-str frame) :path (pr-str path) :value text :redacted @(:redacted seen) :elided @(:elided seen)})))

(defn window-of
  "Return the events of an epoch: those in its record, or else those between it and the previous epoch."
  [record known frame]
  (or (seq (:trace-events record))
      (let [here (filter (fn [event] (= frame (tagged event :frame))) known)
            end? (fn [event] (and (tagged event :epoch-id) (= :rf.epoch/snapshotted (:operation event))))
            this? (fn [event] (and (end? event) (= (:epoch-id record) (tagged event :epoch-id))))
            upto (take-while (fn [event] (not (this? event))) here)]
        (when (< (count upto) (count here))
          (reverse (take-while (fn [event] (not (end? event))) (reverse upto)))))))

(defn epoch-row
  "Describe an epoch. Its outcome is taken from its events, because the record of a failed epoch may say ok."
  [record known frame]
  (let [window (window-of record known frame)
        its-own? (fn [event] (= (:event-id record) (event-id-of event)))
        dispatch (some (fn [event] (when (its-own? event) (tagged event :dispatch-id))) window)
        cause (filter (fn [event] (and dispatch (= dispatch (tagged event :dispatch-id)))) (concat window known))
        times (keep :time window)
        failed (some (fn [event] (tagged event :dispatch-id)) (errors-of window frame))]
    {:epochId (:epoch-id record) :time (/ (or (:committed-at record) 0) 1000.0) :eventId (plain (:event-id record))
     :ms (when (seq times) (- (apply max times) (apply min times)))
     :origin (plain (some (fn [event] (tagged event :origin)) cause)) :dispatchId dispatch
     :outcome (if failed "failed" (plain (:outcome record)))}))

(defn ask-epochs [rf args _origin]
  (let [frame (frame-of rf args) path (path-of rf (:path args)) known (if-let [trace (:trace rf)] (trace) [])
        new? (fn [{id :epoch-id}] (or (nil? (:since args)) (not (number? id)) (< (:since args) id)))
        describe (fn [record]
               (cond-> (epoch-row record known frame)
                 (seq path) (assoc :changes (:changes (changes rf frame (:db-before record) (:db-after record) path)))))
        fits? (fn [row] (and (every? (fn [[k v]] (= (str v) (str (get row k)))) (:filter args))
                             (or (empty? path) (seq (:changes row)))))
        rows (filterv fits? (map describe (filter new? ((needed rf :epochs) frame))))
        last-rows (vec (take-last (or (:limit args) 20) rows))]
    (when (and (seq path) (empty? rows)) (ask-state rf args nil))
    {:frame (pr-str frame) :epochs last-rows :count (count last-rows) :total (count rows)}))

(defn ask-diff [rf args _origin]
  (let [frame (frame-of rf args) stored ((needed rf :epochs) frame)
        to (epoch-numbered stored (or (:to args) (:epochId args)) "no-such-epoch")
        from (if (:from args) (epoch-numbered stored (:from args) "no-such-epoch") to)]
    (when-not (and (contains? from :db-before) (contains? to :db-after))
      (refuse "band-missing" "this version of the framework does not store the states before and after an epoch"))
    (merge {:frame (pr-str frame) :epochId (:epoch-id to)} (changes rf frame (:db-before from) (:db-after to) []))))

(defn ask-trace [rf args _origin]
  (let [all (events-of rf)
        found (filterv (fn [event] (matches? event (:filter args))) all)
        last-rows (mapv row (take-last (or (:limit args) 50) found))]
    {:events last-rows :count (count last-rows) :total (count found) :lastId (last-id rf)
     :redacted (- (count ((:trace rf))) (count all))}))

(defn ask-issues [rf args _origin]
  (let [kinds #{:error :warning :rf.schema/violation :rf.hydration/mismatch}
        found (filterv (fn [event] (and (kinds (:op-type event)) (< (or (:since args) 0) (:id event))
                                        (matches? event (:filter args))))
                       (events-of rf))]
    {:events (mapv row found) :total (count found) :lastId (last-id rf)}))

(defn ask-handlers [rf args _origin]
  (let [rows (for [[kind found] ((needed rf :handlers)) [id about] found
                   :when (and (or (nil? (:kind args)) (named? kind (:kind args)))
                              (or (nil? (:id args)) (named? id (:id args))))]
               (merge {:kind (plain kind) :id (plain id)} (place-of about)
                      (when (:doc about) {:doc (clip (first (clojure.string/split-lines (:doc about))) 120)})))]
    {:handlers (vec rows) :count (count rows)}))

(defn ask-machines [rf args _origin]
  (let [ids (filterv (fn [id] (or (nil? (:id args)) (named? id (:id args)))) ((needed rf :machines)))
        frames (if (:frame args) [(frame-of rf args)] (own-frames rf))
        found (for [frame frames [id snapshot] ((:snapshots rf) frame) :when (some (fn [requested] (= id requested)) ids)]
                [id frame (show snapshot [:rf/machines id] (looking (hidden-in rf frame) false))])
        in-frame (fn [frame] (when (< 1 (count frames)) (str " " (pr-str frame))))
        started (set (map first found))]
    (when (empty? ((:machines rf))) (refuse "band-missing" "no machine is registered"))
    {:machines (into {} (concat (map (fn [id] [(plain id) {:state "not started"}]) (remove started ids))
                                (map (fn [[id frame text]] [(str (plain id) (in-frame frame)) {:state text}]) found)))
     :count (count ids)}))

(defn event-of [rf args]
  (let [event (read-text rf "not-an-event-vector" (:event args))]
    (when-not (and (vector? event) (seq event))
      (refuse "not-an-event-vector" "an event must be a vector: its id, followed by its arguments"))
    event))

(defn restore-state
  "Undo what a failed event did to the state. Return a sentence about it, or nil if the state has not changed."
  [rf frame before]
  (cond (= before (db-of rf frame)) nil
        (try (and (:reset rf) ((:reset rf) frame before)) (catch #?(:clj Throwable :cljs :default) _ false))
        " The state was restored: changes by other handlers of this event were reverted."
        :else " Other handlers of this event changed the state, which could not be restored."))

(defn ask-dispatch [rf args origin]
  (let [frame (frame-of rf args) event (event-of rf args) before (current-db rf frame) tag (origin-tag origin)
        opts (cond-> {:frame frame} tag (assoc :origin tag))
        handle (if (:sync args) (needed rf :dispatch-sync) (needed rf :dispatch))
        _ (when (and (:throws rf) (not (contains? (:event ((:handlers rf))) (first event))))
            (refuse "missing-handler" (str "no handler is registered for " (pr-str (first event)))))
        [thrown events] (call-with-events rf (fn [] (try (handle event opts) nil (catch #?(:clj Throwable :cljs :default) e e))))
        failed (first (errors-of events frame))
        answer {:eventId (plain (first event)) :frame (pr-str frame) :mode (if (:sync args) "sync" "queued")
              :dispatchId (some (fn [e] (tagged e :dispatch-id)) events)}]
    (cond (or thrown failed)
          (let [what (if failed (row failed) {:failure (str (kind-of thrown) ": " (ex-message thrown))})]
            (merge {:ok false :reason "handler-failed" :eventId (:eventId answer) :dispatchId (:dispatchId answer)
                    :hint (str (or (:failure what) (:operation what))
                               " in " (or (:handlerId what) (:eventId what) (:eventId answer))
                               (when (:place what) (str " at " (:place what))) "." (restore-state rf frame before))}))
          (:sync args)
          (merge answer {:epochId (:epoch-id (last (epochs-of rf frame)))
                       :unknown (when-not (or (:listen rf) (:trace rf) (:throws rf))
                                  "failures, because the trace is not loaded")}
                 (changes rf frame before (db-of rf frame) []))
          :else answer)))

(defn undoing
  "Return the id of the last epoch that ended with the given state."
  [rf frame db]
  (:epoch-id (last (filter (fn [epoch] (= db (:db-after epoch))) (epochs-of rf frame)))))

(defn replacing
  "Let the framework replace the state. If it refuses, return the reason, which only the trace contains."
  [rf frame undo work]
  (let [[done events] (call-with-events rf work) failed (last (errors-of events frame))]
    (if done
      {:frame (pr-str frame) :undoneBy undo}
      {:ok false :reason "accessor-failed" :cause (when failed (plain (:operation failed)))
       :details (when failed (:tags (row failed))) :hint "the framework refused the change without giving a reason"})))

(defn ask-restore [rf args _origin]
  (let [frame (frame-of rf args) work (needed rf :restore) db (db-of rf frame)
        found (first (filter (fn [epoch] (= (str (:epochId args)) (str (:epoch-id epoch)))) (epochs-of rf frame)))
        number (if found (:epoch-id found) (:epochId args))]
    (merge {:epochId (:epochId args)} (replacing rf frame (undoing rf frame db) (fn [] (work frame number))))))

(defn ask-reset [rf args _origin]
  (let [frame (frame-of rf args) work (needed rf :reset) db (db-of rf frame)
        read (read-text rf "schema-mismatch" (:value args))
        value (if (and (map? read) (map? db)) (merge (select-keys db [:rf/elision]) read) read)
        answer (replacing rf frame (undoing rf frame db) (fn [] (work frame value)))]
    (cond-> answer (not (false? (:ok answer))) (assoc :epochId (:epoch-id (last (epochs-of rf frame)))))))
