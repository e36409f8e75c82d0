;; Returns a map of functions that describe values briefly while a program is running, without running any of
;; its code: `value` for any value, `failure` for an exception, `elements` for the realized part of a sequence,
;; `secret?` for a name, and `later?`, which returns whether no element of a sequence has been realized. They
;; only read instances of Clojure's own classes whose sequences compute nothing, and fields of records. `names`
;; maps wrappers to the names of the wrapped functions. Source: Clojure 1.10 to 1.12, `LazySeq`, `KeySeq`.

(fn [^java.util.Map names]
 (let [hidden "<not shown>" lazy "<lazy>"
  secret (re-pattern (str "(?i)"
    "pass(wor[dt]|wd|phrase|code)|secret|token|credential|api_?key|private_?key|access_?key"
    "|auth(?!or)|cookie|session_?id"
    "|(^|_)(pwd|pin|pw)$|_key$"))
  secret? (fn [^String s] (some? (re-find secret (.replace s "-" "_"))))
  secrets (vec (for [[k v] (System/getenv) :when (and (>= (count v) 6)
    (re-find #"_(KEY|SECRET|TOKEN|PASSWORD)$" (.toUpperCase ^String k)))] v))
  quoted (fn [^String s] (str \" (.. s (replace "\\" "\\\\") (replace "\"" "\\\"") (replace "\n" "\\n")) \"))
  string (fn [^String s ^long most ^long length] (cond (<= (.length s) most) (quoted s)
    ; part of a secret would not be recognized as one
    (some (fn [^String v] (.contains s v)) secrets) hidden
    :else (str (quoted (subs s 0 length)) "+" (- (.length s) length))))
  bounded (fn [^String s] (if (<= (.length s) 160) s (str (subs s 0 160) "…")))
  plain (fn [^String s] (.replaceAll ^String (clojure.lang.Compiler/demunge s) "(--|__)[0-9]+" ""))
  class-name (fn [^Class c] (if (.isArray c) (.getSimpleName c) (plain (.replaceAll (.getName c) "^.*[.]" ""))))
  field (fn [^Class c ^String n] (try (doto (.getDeclaredField c n) (.setAccessible true)) (catch Exception _ nil)))
  look (fn [^java.lang.reflect.Field f x] (.get f x))
  [code-of value-of found-in] (map (fn [n] (field clojure.lang.LazySeq n)) ["fn" "sv" "s"])
  under-keys (field clojure.lang.APersistentMap$KeySeq "seq")
  under-vals (field clojure.lang.APersistentMap$ValSeq "seq")
  known? (fn [x] (and (some? x) (.startsWith (.getName (class x)) "clojure.lang.")))
  computes? (fn [s] (or (instance? clojure.lang.Iterate s) (instance? clojure.lang.Cycle s)
    (instance? clojure.lang.EnumerationSeq s) (instance? clojure.lang.IteratorSeq s)))
  empty-list? (fn [x] (identical? (class x) (class ())))
  there (fn there [s] (cond ; the realized part of a sequence, nil at its end, or :later
    (nil? s) nil
    (instance? clojure.lang.LazySeq s)
      (if (and code-of value-of found-in (nil? (look code-of s)) (nil? (look value-of s)))
       (there (look found-in s)) :later)
    (or (not (known? s)) (computes? s)) :later
    (instance? clojure.lang.APersistentMap$KeySeq s) (if (known? (look under-keys s)) s :later)
    (instance? clojure.lang.APersistentMap$ValSeq s) (if (known? (look under-vals s)) s :later)
    (empty-list? s) nil
    (instance? clojure.lang.ISeq s) s
    :else (there (seq s))))
  elements (fn [s show n] (loop [s (there s) found [] left n]
    (cond (nil? s) found
      (or (zero? left) (= :later s)) (conj found "…")
      :else (recur (there (.more ^clojure.lang.ISeq s)) (conj found (show (.first ^clojure.lang.ISeq s))) (dec left)))))
  between (fn [open separator parts close] (str open (apply str (interpose separator parts)) close))
  by-text #{"java.util.UUID" "java.util.Date" "java.net.URI" "java.io.File" "java.util.regex.Pattern"
    "java.time.Instant" "java.time.Duration" "java.time.LocalDate" "java.time.LocalTime" "java.time.LocalDateTime"
    "java.time.ZonedDateTime" "java.time.OffsetDateTime"}
  by-size #{"java.util.ArrayList" "java.util.LinkedList" "java.util.HashMap" "java.util.LinkedHashMap"
    "java.util.HashSet"}
  short (fn short [x level] (cond
   (nil? x) "nil"
   (or (instance? Long x) (instance? Double x) (instance? Boolean x)) (str x)
   (string? x) (if (zero? level) (string x 80 60) (string x 24 12))
   (or (keyword? x) (symbol? x)) (bounded (str x))
   :else (let [inner (fn [y] (short y (inc level)))
     pair (fn [k v] (let [n (cond (instance? clojure.lang.Named k) (name k) (string? k) k)]
       (str (inner k) " " (if (and n (secret? n)) hidden (inner v)))))
     fitting (fn [t word n] (if (<= (count t) 80) t (if n (str word " of " n) (str "<" word ">"))))
     sized (fn [open close word] (let [n (count x)] (if (or (> n 4) (and (pos? n) (>= level 2))) (str word " of " n)
       (fitting (between open " " (elements x inner 4) close) word n))))
     type-name (fn [] (class-name (class x)))]
    (cond
     (or (instance? clojure.lang.BigInt x) (instance? java.math.BigInteger x))
       (let [n (biginteger x)] (if (> (.bitLength n) 400) (str "integer of " (.bitLength n) " bits") (str n "N")))
     (= java.math.BigDecimal (class x)) (bounded (str x "M"))
     (and (number? x) (or (ratio? x) (.startsWith (.getName (class x)) "java.lang."))) (bounded (str x))
     (char? x) (if (< 32 (int x) 127) (str \\ x) (str "\\u" (int x)))
     (or (instance? clojure.lang.PersistentVector x) (instance? clojure.lang.MapEntry x)
         (and (instance? clojure.lang.APersistentVector$SubVector x)
              (instance? clojure.lang.PersistentVector (.v ^clojure.lang.APersistentVector$SubVector x))))
       (sized "[" "]" "vector")
     (or (instance? clojure.lang.PersistentArrayMap x) (instance? clojure.lang.PersistentHashMap x)
         (instance? clojure.lang.PersistentTreeMap x))
       (let [n (count x)] (if (or (> n 4) (and (pos? n) (>= level 2))) (str "map of " n)
         (fitting (between "{" ", " (map (fn [e] (pair (key e) (val e))) x) "}") "map" n)))
     (or (instance? clojure.lang.PersistentHashSet x) (instance? clojure.lang.PersistentTreeSet x))
       (sized "#{" "}" "set")
     (or (instance? clojure.lang.PersistentList x) (instance? clojure.lang.PersistentQueue x))
       (sized "(" ")" "list")
     (and (known? x) (sequential? x)) (let [s (there x)] (cond (= :later s) lazy (nil? s) "()" (>= level 2) "<seq>"
       :else (or (some (fn [n] (let [t (between "(" " " (elements s inner n) ")")] (when (<= (count t) 80) t)))
                       (if (zero? level) [8 4 2] [4])) "<seq>")))
     (and (instance? clojure.lang.IRecord x) (zero? level))
       (let [c (class x) basis (.invoke (.getMethod c "getBasis" (make-array Class 0)) nil (object-array 0))
             fields (for [f (take 4 basis)] (pair (keyword (str f)) (.get (.getField c (munge (str f))) x)))]
         (fitting (between (str "#" (type-name) "{") ", " fields (if (seq (drop 4 basis)) ", …}" "}"))
                  (type-name) nil))
     (var? x) (str x)
     (fn? x) (str "<fn " (or (.get names x) (plain (.getName (class x)))) ">")
     (class? x) (.getName ^Class x)
     (and (instance? clojure.lang.Atom x) (zero? level)) (bounded (str "<Atom " (inner @x) ">"))
     (by-text (.getName (class x))) (bounded (str x))
     (by-size (.getName (class x))) (str "<" (type-name) " of " (count x) ">")
     (.isArray (class x)) (str "<" (type-name) " of " (java.lang.reflect.Array/getLength x) ">")
     :else (str "<" (type-name) ">")))))
  safely (fn [show] (fn [x] (try (show x) (catch Exception _ "<?>") (catch StackOverflowError _ "<?>"))))]
  {:hidden hidden :secret? secret? :elements elements :lazy lazy
   :later? (fn [x] (and (instance? clojure.lang.LazySeq x) (= :later (there x))))
   :value (safely (fn [x] (short x 0)))
   :failure (safely (fn [^Throwable e]
     (let [c (class e) by (.getName (.getDeclaringClass (.getMethod c "getMessage" (make-array Class 0))))
       message (when (or (.startsWith by "java.") (.startsWith by "clojure.")) (.getMessage e))
       data (when (= clojure.lang.ExceptionInfo c) (short (.getData ^clojure.lang.ExceptionInfo e) 1))]
      (bounded (between (str (class-name c) "(") " "
                        (remove nil? [(when message (string message 80 60)) data]) ")")))))}))
