(ns shop
  "An application of a few lines: orders are counted."
  (:require [codriver.seam :as seam]))

(def token "s3cr3t-token-of-ada")
(def start {:count 0, :user {:name "Ada", :token token}, :orders []})
(def db (atom start))
(def queue (atom []))

(defn add "Adds to the count." [{:keys [count] :as state} amount]
  (assoc state :count (+ count amount)))

(defn handle [[id & arguments]]
  (case id
    :add (swap! db add (first arguments))
    :half (do (swap! db assoc :count -1)
              (throw (ex-info (str "no stock for " (get-in @db [:user :token])) {})))
    :swallow (do (swap! db assoc :count -2)
                 (seam/emit! :error :orders {:message "swallowed"}))
    (throw (ex-info (str "no handler of " id) {}))))

(defn check [value]
  (when-not (and (map? value) (contains? value :count)) (str "no count in " (pr-str value))))

(defn open! "The shop as it begins, with a seam that is new." []
  (seam/forget!)
  (reset! db start)
  (reset! queue [])
  (seam/install! true)
  (seam/handler! :event :add #'add)
  (seam/watch-atom! :shop db {:dispatch handle, :enqueue #(swap! queue conj %), :validate check,
                              :sensitive [[:user :token]]}))
