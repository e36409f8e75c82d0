(ns toy
  "A framework of two atoms, in the shapes that re-frame 2 has: the forms can be run where that is not.")

(def db (atom {:n 0 :user {:name "Ada" :token "token-of-ada"} :long (apply str (repeat 3000 "x")) :many (vec (range 60))
               :echo "it said token-of-ada" :deep [[[[[[[[[1]]]]]]]]] :empty {} "text" #{:a}}))
(def events (atom []))
(def listeners (atom {}))
(def kept (atom []))

(defn emit [op-type operation tags more]
  (let [id (inc (count @events))
        event (merge {:id id :time (* 10 id) :op-type op-type :operation operation :tags tags} more)]
    (swap! events conj event)
    (doseq [heard (vals @listeners)] (heard event))))

(defn noise []
  (doseq [i (range 119)]
    (let [pick (fn [step from] (nth from (mod (quot (* i step) 3) (count from))))]
      (emit (pick 7 [:event :fx :error :warning :info]) (pick 5 [:db/write :http/get :timer])
            (cond-> {:frame (pick 4 [:toy/main :toy/other]) :dispatch-id (quot i 5)}
              (odd? i) (assoc :event-id (pick 11 [:add :fail]))
              (zero? (mod i 3)) (assoc :handler-id (pick 13 [:add :fail])))
            (if (even? i) {:source (pick 2 [:ui :timer])} {}))))
  (emit :rf.epoch :rf.epoch/snapshotted {:frame :toy/main :epoch-id 0} {}))

(def declared-handlers
  {:event {:add {:file "toy.cljc" :line 7 :ns 'toy :doc "Add.\nMore of it."}
           :fail {:source-coord {:file "other.cljc" :line 9 :column 2}}
           :spill {}}
   :sub {:n {:rf/source-coord {:file "toy.cljc" :line 8}}}})
(defn handlers [] declared-handlers)

(defn keep-epoch [id before]
  (swap! kept conj {:epoch-id (inc (count @kept)) :event-id id :db-before before :db-after @db :outcome :ok
                    :committed-at 5000})
  (emit :rf.epoch :rf.epoch/snapshotted {:frame :toy/main :epoch-id (count @kept)} {}))

(defn dispatch-sync* [event opts]
  (let [[id n] event
        before @db
        dispatch-id (+ 1000 (count @kept))
        told {:event-id id :dispatch-id dispatch-id :frame :toy/main}]
    (emit :event :event/dispatched
          {:event event :dispatch-id dispatch-id :frame :toy/main :sync? true
           :origin (or (:origin opts) :app)} {:source :ui})
    (case id
      :add (swap! db update :n + n)
      :spill (swap! db assoc :n -1)
      nil)
    (when (#{:fail :spill} id)
      (emit :error :rf.error/handler-exception
            (assoc told :handler-id id :exception (ex-info "no token-of-ada\nhere" {:n n}) :reason "it did")
            {:rf.trace/trigger-handler {:id id :source-coord {:file "other.cljc" :line 9}}}))
    (emit :event :event told {:sensitive? (= :secret id)})
    (keep-epoch id before)
    nil))

(defn restore-epoch [frame number]
  (if-let [found (first (filter #(= number (:epoch-id %)) @kept))]
    (do (reset! db (:db-after found)) true)
    (do (emit :error :rf.epoch/restore-unknown-epoch {:frame frame :epoch-id number} {}) false)))

(defn replace-app-db! [frame value]
  (let [before @db]
    (if (contains? value :n)
      (do (reset! db value) (keep-epoch :rf.epoch/db-replaced before) true)
      (do (emit :error :rf.epoch/reset-frame-db-schema-mismatch {:frame frame} {}) false))))

(defn frame-ids [] [:toy/main :rf/causa])
(defn db-of [frame] (if (= :toy/main frame) @db {}))
(defn trace-buffer [] @events)
(defn listen! [id heard] (swap! listeners assoc id heard))
(defn unlisten! [id] (swap! listeners dissoc id))
(defn history [frame] (if (= :toy/main frame) @kept []))
(defn sensitive [frame] (if (= :toy/main frame) {[:user :token] {}} {}))
(defn machines [] [:door :gate])
(defn snapshots [frame] (if (= :toy/main frame) {:door {:state :open}} {}))
(def enabled? true)
