;; The namespaces of $files of which no test is registered yet.

(mapv first
 (filterv (fn [one] (empty? (codriver-tests/registered-tests (first one)))) $files))
