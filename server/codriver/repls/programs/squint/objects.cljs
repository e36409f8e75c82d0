;; Squint's namespaces are objects below the global one, under the names of JavaScript, as what they define is.

(let [within (fn [o k] (when (some? o) (aget o k)))
  munged (fn [s] (.replaceAll s "-" "_"))
  home (fn [s] (reduce within js/globalThis (.split (munged s) ".")))
  plain (fn [s] (if (re-matches #"[A-Z0-9_]+" s) s
    (reduce (fn [s [from to]] (.replaceAll s from to)) s
     [["_BANG_" "!"] ["_QMARK_" "?"] ["_STAR_" "*"] ["_GT_" ">"] ["_LT_" "<"] ["_EQ_" "="] ["_PLUS_" "+"]
      ["_" "-"]])))]
 BODY)
