;; Returns the chain of the session's last error, with the frames of each exception.

(when-let [^Throwable e (get @SESSION #'clojure.core/*e)]
 {:links (map (fn [^Throwable t] {:type (.getName (class t)) :message (str (.getMessage t))
   :data (when-let [d (ex-data t)] (binding [*print-length* 50 *print-level* 5]
     (let [s (pr-str d)] (subs s 0 (min 4000 (count s))))))
   :frames (map (fn [^StackTraceElement f] {:class (.getClassName f) :method (.getMethodName f)
     :file (.getFileName f) :line (.getLineNumber f)}) (take 1100 (.getStackTrace t)))})
  (take-last 10 (take 1000 (take-while some? (iterate (fn [^Throwable t] (.getCause t)) e)))))})
