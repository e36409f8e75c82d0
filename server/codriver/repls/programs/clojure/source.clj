;; Returns the text of a var's source file, starting at its line. The file may be in a jar.

(let [v (try (ns-resolve (or (find-ns (symbol $ns)) *ns*) (symbol $name))
   (catch Throwable _ nil))
  m (meta v) file (:file m) plain (when file (clojure.java.io/file file))
  from (when (and file (:line m)) (or (when-not (.isAbsolute ^java.io.File plain) (clojure.java.io/resource file))
    (when (.isFile ^java.io.File plain) plain)))]
 (if from (with-open [r (clojure.java.io/reader from)]
   {:text (apply str (interpose "
" (take 2000 (drop (dec (:line m)) (line-seq r)))))
    :file file :line (:line m)}) {}))
