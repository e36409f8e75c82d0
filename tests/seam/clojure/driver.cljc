(ns driver
  "Evaluates each line of the standard input, and prints a line that tells its value."
  #?(:cljs (:require ["readline" :as readline]
                     [nbb.core :as nbb])))

(defn answer
  "Prints a line, in one piece: frames of events come from another thread."
  [mark value]
  (let [line (str mark (pr-str value))]
    #?(:clj (do (print (str line "\n")) (flush))
       :cljs (println line))))

#?(:clj (do (loop []
              (when-let [line (read-line)]
                (try (answer "=" (load-string line))
                     (catch Throwable error (answer "!" error)))
                (recur)))
            (System/exit 0))
   :cljs (let [turn (atom (js/Promise.resolve))]
           (.on (readline/createInterface #js {:input js/process.stdin}) "line"
                (fn [line]
                  (swap! turn (fn [before]
                                (-> before
                                    (.then #(nbb/load-string line))
                                    (.then #(answer "=" %))
                                    (.catch #(answer "!" (ex-message %))))))))))
