"""Expressions that complete a name within its namespace, for servers whose own op leaves some out or makes some up.

`$owner` is what stands before the slash, an alias or a namespace; `$name` how the name begins, which may be empty.
One that gives nil, not an empty list, leaves the answer to the op.
"""

from __future__ import annotations

from typing import Final

BASILISP: Final = """(let [here (or (find-ns (symbol $ns)) *ns*) owner (symbol $owner)
  home (or (get (ns-aliases here) owner) (find-ns owner))
  module (if (= "python" $owner) (python/__import__ "builtins")
            (get (.-imports here) (or (get (.-import-aliases here) owner) owner)))
  row (fn [s kind] {:candidate (str $owner "/" s) :type kind})]
 (take 500 (sort-by :candidate (cond
  home (map (fn [[s v]] (let [kind (cond (:macro (meta v)) "macro" (:arglists (meta v)) "function" :else "var")]
          (assoc (row (name s) kind) :ns (str home))))
        (filter (fn [[s _]] (.startswith (name s) $name)) (if (= home here) (ns-interns home) (ns-publics home))))
  module (map (fn [[s v]] (row s (if (python/callable v) "function" "var")))
          (filter (fn [[s _]] (and (.startswith s $name) (or (.startswith $name "_") (not (.startswith s "_")))))
                  (python/list (.items (python/vars module)))))
  :else []))))"""
"""Its op takes an alias for every longer one that begins with it, and knows a namespace only where it has an alias."""

SQUINT: Final = """(let [within (fn [o k] (when (some? o) (aget o k)))
  munged (fn [s] (.replaceAll s "-" "_"))
  home (fn [s] (reduce within js/globalThis (.split (munged s) ".")))
  owner (or (within (home $ns) (.replaceAll (munged $owner) "." "_DOT_")) (home $owner))
  plain (fn [s] (if (re-matches #"[A-Z0-9_]+" s) s
    (reduce (fn [s [from to]] (.replaceAll s from to)) s
     [["_BANG_" "!"] ["_QMARK_" "?"] ["_STAR_" "*"] ["_GT_" ">"] ["_LT_" "<"] ["_EQ_" "="] ["_PLUS_" "+"] ["_" "-"]])))]
 (if (nil? owner) nil
  (vec (take 500 (map (fn [[s v]] {:candidate (str $owner "/" s) :type (if (fn? v) "function" "var")})
   (sort-by first (filter (fn [[s _]] (.startsWith s $name)) (map (fn [k] [(plain k) (aget owner k)])
    (js/Object.keys owner)))))))))"""
"""Its op knows the names of the current namespace alone. Namespaces are objects, which hold what they require too."""
