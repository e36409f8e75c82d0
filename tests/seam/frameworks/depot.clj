(ns depot
  "A depot that hands out orders."
  (:require [re-frame.core :as rf]))
(rf/reg-event-db :depot/open {:doc "Begin with three orders."}
  (fn [_ _] {:open 3 :keeper {:name "Ada" :badge (str "badge-of-" "ada-4711")} :shelf (vec (range 60))}))
(rf/reg-event-db :depot/note {:doc "Keep a badge."} (fn [db [_ badge]] (assoc db :last badge)))
(rf/reg-event-fx :depot/take {:doc "Take orders away."}
  (fn [{:keys [db]} [_ n]] {:db (update db :open - n) :fx [[:dispatch [:depot/count]]]}))
(rf/reg-event-db :depot/count (fn [db _] (update db :counted (fnil inc 0))))
(rf/reg-event-db :depot/lose
  (fn [db _] (throw (ex-info (str "no keeper " (get-in db [:keeper :badge])) {:orders (:open db)}))))
(rf/reg-event-fx :depot/spill {:doc "Change, and then fail in what follows."}
  (fn [{:keys [db]} _] {:db (assoc db :open -1) :fx [[:dispatch [:depot/lose]]]}))
(def told (atom nil))
(rf/reg-event-db :depot/rewind {:doc "Ask for an epoch while an event is handled."} (fn [db [_ ask]] (reset! told (ask)) db))
(rf/reg-sub :depot/open (fn [db _] (:open db)))
