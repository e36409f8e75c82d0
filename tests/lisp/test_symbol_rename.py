"""A rename keeps the meaning: local names that shadow it stay, and no name comes to shadow another."""

import pytest

from codriver_lisp.edit import EditedText, RefusedEdits, Rename, apply_edits
from codriver_lisp.source_text import Document, Target
from codriver_lisp.symbol_rename import OUTER, OUTSIDE, SHADOWED_REASON, UNCHANGED_REASONS


def renamed(text, old="x", new="w", line=None, **options):
    """Return the text with `old` renamed everywhere, or in the form at the line."""
    document = Document(text, **options)
    target = None if line is None else Target(line, document.line_text(line))
    return apply_edits(document, {0: Rename(old, new, target)})


def refusal(*arguments, **options):
    result = renamed(*arguments, **options)
    assert isinstance(result, RefusedEdits), result
    [(_, problem)] = result.errors
    return problem.message


@pytest.mark.parametrize(
    ("text", "is_of_undefined"),
    [
        ("(ns a)\n(defn g [] (f x))", True),
        ("(ns a)\n(let [x 1] x)\n(defn g [] x)", True),
        ("(ns a)\n(defn ^:private x [] 1)\n(x)", False),
        ("(ns a)\n(def ^{:doc (str x)} x 1)", False),
        ("(ns a)\n#?(:cljs (def x 1))\n(f x)", False),
        ("(ns a)\n(when f (declare y) (defonce x 1))", False),
        ("(ns a)\n(defstate x :start 1)", False),
        ("(ns a)\n(make-all!)\n(defn g [] x)", False),
        ("(ns a)\n(defrecord x [])", False),
    ],
)
def test_a_rename_reports_whether_the_text_defines_the_name(text, is_of_undefined):
    result = renamed(text)
    assert isinstance(result, EditedText), result
    assert result.done[0].is_of_undefined == is_of_undefined


# In each, `x` is the namespace's where it is written `X`, and something else where it is `x`.
FORMS = {
    "let": "(let [y X x X z x] x #(f x))",
    "let that rebinds": "(let [x X x x] x)",
    "loop": "(loop [x X] (recur x))",
    "for": "(for [y X :when X x y :let [z x x 1] :while x] [x z])",
    "doseq": "(doseq [x X] x)",
    "dotimes": "(dotimes [x X] x)",
    "with-open": "(with-open [x (f X)] x)",
    "if-let": "(if-let [x X] x X)",
    "when-let": "(when-let [x X] x)",
    "if-some": "(if-some [x X] x X)",
    "when-some": "(when-some [x X] x)",
    "when-first": "(when-first [x X] x)",
    "fn": "[(fn [x] x) X]",
    "fn with a name": "(fn x [y] x)",
    "fn with arities": "(fn ([] X) ([x] x) ([x & y] x))",
    "short fn": "#(f X %)",
    "defn": '(defn X "doc" {:a X} [y] {:pre [X]} X)',
    "defn with the name as parameter": "(defn f [x] x)",
    "defn with arities": "(defn- f ([] X) ([x] {:pre [x]} x))",
    "defmacro": "(defmacro m [x] `(f ~x X ~(g x)))",
    "hints": "(defn ^x f ^x [^x y] ^x X)",
    "schema": "(s/defn f :- X [x :- X y :- X] x)",
    "letfn": "(letfn [(x [y] (x y)) (g [x] x)] x)",
    "letfn with another": "(letfn [(g [x] x)] X)",
    "catch": "(try X (catch X x x) (finally X))",
    "as->": "(as-> X x (f x))",
    "as-> in a thread": "(-> X (f X) (as-> x (f x) x) (g X))",
    "binding": "(fn [x] (binding [X x] x))",
    "with-redefs": "(with-redefs [X X y X] X)",
    "defmethod": "(defmethod X X [x] x)",
    "defmethod with a name": "(defmethod f :k x [y] x)",
    "reify": "(reify P (g [x] x) (h [_] X))",
    "proxy": "(proxy [X] [X] (g [x] x))",
    "deftype": "(deftype T [x ^long y] P (g [_] x) X (h [_ x] x))",
    "defrecord": "(defrecord T [y] P (g [_] X) (h [x] x))",
    "extend-type": "(extend-type X P (g ([x] x) ([_ y] X)))",
    "extend-protocol": "(extend-protocol P X (g [x] x))",
    "vector pattern": "(let [[x [y] & z :as a] X] x)",
    "nested pattern": "(let [[[{[x] :k}]] X] x)",
    "map pattern": "(let [{x :x y X} X] x)",
    "defaults": "(let [{x :x y :y :or {x X y x}} X] x)",
    "keys": "(let [{:keys [x]} X] x)",
    "qualified keys": "(let [{:p/keys [x] ::q/syms [y]} X] x)",
    "keys written as keywords": "(let [{:keys [:p/x]} X] x)",
    "strs and syms": "[(let [{:strs [x]} X] x) (let [{:syms [x]} X] x)]",
    "all of a map": "(fn [{:keys [y] :as x}] x)",
    "metadata in a pattern": "(let [^{:tag X} y X ^String x X z ^x x] x)",
    "a discarded form": "(let [#_X y X #_(f X) x X] #_x x #_(g x)) #_X",
    "a var's quote": "(let [x 1] [x #'X (var X)])",
    "syntax quote": "(let [x 1] `(f X ~x ~@[x] ~'x))",
    "quote within syntax quote": "(let [x 1] `(f 'X '~x))",
    "the own namespace": "(let [x 1] [x n/X])",
    "a local called like a form": "(let [let 1] (let [x X] x))",
    "a qualified form": "(clojure.core/let [x X] x)",
    "a reader conditional": "(let [x #?(:clj X :cljs X)] #?(:clj x :cljs [x]))",
    "spliced bindings": "(let [#?@(:clj [x X] :cljs [x X])] x)",
    "spliced bindings behind others": "(let [y X #?@(:clj [z X x 1] :cljs [z X]) a x] x)",
    "spliced methods": "(reify P (g [x] x) #?@(:clj [X (h [x] x)]) #?(:cljs (i [x] x)))",
    "a parameter for one platform": "(fn [#?(:clj ^long x :cljs x)] x)",
    "a nested def": "(let [x 1] (def X x) (declare X))",
    "for-all": "(prop/for-all [x X] x)",
    "are": "(are [x y] (= x y) X 1)",
    "amap and areduce": "[(amap X x y (f x)) (areduce X y x X (f x))]",
    "members": "(.. X x (x X) y)",
    "this-as": "(this-as x (f x))",
    "case": "(let [y X] (case X (x y) X X))",
    "a member": "(. X x) (. X (x X))",
    "an unknown form": "(unknown [X 1] X)",
    "a namespace's form": "(ns X.y (:require [x :as X])) X",
}


@pytest.mark.parametrize("name", FORMS)
def test_local_bindings_stay(name):
    text = f"(ns n)\n(def X 0)\n{FORMS[name]}\n"
    if name == "a namespace's form":
        text = "(ns n (:require [x :as x]))\nX\n"
    result = renamed(text.replace("X", "x"))
    assert isinstance(result, EditedText), result
    assert result.text == text.replace("X", "w")


def test_the_answer_counts_renamed_names_and_explains_the_rest():
    text = "(ns n (:require [x :as y]))\n(def x 1)\n(defn f [x]\n  x)\n'x\n(reify P (x [_] x))\n"
    result = renamed(text)
    assert result.text == "(ns n (:require [x :as y]))\n(def w 1)\n(defn f [x]\n  x)\n'x\n(reify P (x [_] w))\n"
    assert result.done[0].changes == 2
    assert result.done[0].left == {
        UNCHANGED_REASONS["namespace"]: [1],
        SHADOWED_REASON: [3, 4],
        UNCHANGED_REASONS["quoted"]: [5],
        UNCHANGED_REASONS["method"]: [6],
    }


def test_in_a_form_that_binds_the_name_the_local_name_is_renamed():
    text = "(def x 1)\n(defn f [a]\n  (let [x x] (g x (fn [x] x) 'x)))\n"
    result = renamed(text, line=2)
    assert result.text == "(def x 1)\n(defn f [a]\n  (let [w x] (g w (fn [w] w) 'x)))\n"
    assert result.done[0].changes == 4
    assert result.done[0].left == {OUTER: [3], UNCHANGED_REASONS["quoted"]: [3]}


def test_in_a_form_that_does_not_bind_the_name_the_global_is_renamed():
    result = renamed("(defn x [] 1)\n(f x)\n(fn [x] x)\n(g x 'x)\n", line=1)
    assert result.text == "(defn w [] 1)\n(f x)\n(fn [x] x)\n(g x 'x)\n"
    assert result.done[0].left == {OUTSIDE: [2, 4]}


CAPTURED = {
    "a local name": ("(def x 1)\n(defn f [w]\n  (+ x w))\n", "'w' is a local name at line 3, bound at line 2"),
    "a local that is not used": ("(let [w 1] x)\n", "'w' is a local name at line 1, bound at line 1"),
    "a key": ("(let [{:keys [w]} m]\n x)\n", "'w' is a local name at line 2, bound at line 1"),
}


@pytest.mark.parametrize("name", CAPTURED)
def test_a_new_name_that_a_local_would_shadow_is_refused_with_the_position(name):
    text, message = CAPTURED[name]
    assert refusal(text) == f"{message}: it would hide what 'x' names there; choose another name"


def test_a_local_with_the_new_name_that_shadows_nothing_is_accepted():
    assert renamed("(def x 1)\n(defn f [w] w)\n(let [w x] w)\n").text == "(def w 1)\n(defn f [w] w)\n(let [w w] w)\n"


def test_a_renamed_local_may_not_shadow_anything_either():
    hidden = "'w' is a local name at line 1, bound at line 1: it would hide what 'x' names there; choose another name"
    assert refusal("(fn [x] (let [w 1] (+ x w)))\n", line=1) == hidden
    would = "'w' at line 1 would become the local name that is bound at line 1"
    assert refusal("(fn [x] (+ x w))\n", line=1) == would
    assert refusal("(fn [w] (let [x 1] (+ x w)))\n", line=1) == would
    together = "'x' and 'w' are bound together at line 1: both would become one"
    for params in ("[w x]", "[x [{w :w}]]", "[x & w]", "[{:keys [w] x :x}]"):
        assert refusal(f"(fn {params} 1)\n", line=1) == together
    assert refusal("(letfn [(x [] 1) (w [] 2)] 3)\n", line=1) == together
    assert renamed("(fn [x] (let [w x] w))\n", line=1).text == "(fn [w] (let [w w] w))\n"
    assert refusal("(fn [x] x)\n", new="n/w", line=1) == "'n/w' has a namespace, and a local name has none"


def test_a_name_that_is_in_use_is_refused():
    message = "'w' is in use at line 2: both would become one"
    assert refusal("(def x 1)\n(def w 2)\n") == message
    assert refusal("(def x 1)\n(f #'w)\n") == message
    assert refusal("(ns n)\n(f n/w x)\n") == "'n/w' is in use at line 2: both would become one"
    assert renamed("(def x 1)\n'w\n").text == "(def w 1)\n'w\n"


def test_a_purely_local_name_needs_its_form():
    message = (
        "'x' is only a local name here, as at line 2: give line and targetLineText of the form that it is local to"
    )
    assert refusal("(def y 1)\n(fn [x] x)\n") == message


def test_an_impossible_rename_is_refused_with_a_reason():
    assert refusal("(f 'x)\n") == "'x' is nowhere to be renamed; at line 1 it is quoted, so data"
    assert refusal("(defrecord R [x] P (m [_] x))\n", line=1) == (
        "'x' at line 1 is a field: its name is known outside, as a key or as a member; "
        "change it by hand, with all that use it"
    )
    message = "'x' is another namespace's, referred to at line 1: rename it there, where it is defined"
    for text in (
        "(ns n (:require [m :refer [x]]))\n(x 1)\n",
        "(ns n (:use [m :only (x)]))\n(x 1)\n",
        "(require '[m :refer [x]])\n(x 1)\n",
    ):
        assert refusal(text) == message


def test_map_keys_used_by_unknown_forms_are_not_changed():
    message = (
        "'x' at line 1 names the key that is taken from a map; "
        "replace that form by one that binds the key in another way, and rename then"
    )
    assert refusal("(unknown [{:keys [x]}] x)\n") == message
    assert refusal("(unknown [{:keys [:p/x]}] 1)\n") == message
    assert refusal("(fn [x] (unknown [{:keys [x]}] x))\n", line=1) == message
    assert renamed("{:keys [(f x)] :a x}\n").text == "{:keys [(f w)] :a w}\n"
    assert refusal("x\n(unknown [{:keys [w]}] w)\n") == "'w' is in use at line 2: both would become one"


def test_a_namespace_that_refers_to_its_own_macros_is_renamed_there_too():
    text = "(ns ^:x n.m (:require-macros [n.m :refer [x]]))\n(defmacro x [] 1)\n"
    wanted = "(ns ^:x n.m (:require-macros [n.m :refer [w]]))\n(defmacro w [] 1)\n"
    assert renamed(text).text == wanted


def test_only_implementations_of_a_protocols_method_are_renamed_with_it():
    text = "(defprotocol P (x [_]))\n(reify P (x [_] 1))\n(extend-type T P (x [y] (x y)))\n"
    assert renamed(text).text == text.replace("x ", "w ").replace("extend w", "extend x")
    text = "(defn x [y] y)\n(reify Object (x [_] (x 1)))\n"
    assert renamed(text).text == "(defn w [y] y)\n(reify Object (x [_] (w 1)))\n"


def test_constructors_of_a_type_are_renamed_with_it():
    text = "(ns n)\n(defrecord Old [a])\n[(->Old 1) (map->Old {}) (Old. 1) (n/->Old 1) #'->Old ->Older (new Old 1)]\n"
    wanted = text.replace("Older", "0").replace("Old", "New").replace("0", "Older").replace("n/->New", "n/->New")
    assert renamed(text, "Old", "New").text == wanted
    text = "(defrecord Old [a])\n(defn f ^Old [^Old b] ^Old (f b))\n"
    assert renamed(text, "Old", "New").text == text.replace("Old", "New")
    assert renamed("(def Old 1)\n->Old\n", "Old", "New").text == "(def New 1)\n->Old\n"


def test_a_name_qualified_with_its_own_namespace_is_the_same_name():
    text = "(ns orders.core)\n(def x 1)\n[orders.core/x x y/x]\n"
    wanted = "(ns orders.core)\n(def w 1)\n[orders.core/w w y/x]\n"
    for old in ("x", "orders.core/x"):
        for new in ("w", "orders.core/w"):
            assert renamed(text, old, new).text == wanted


def test_a_name_of_another_namespace_is_renamed_despite_locals():
    assert renamed("(let [x 1] (f y/x x))\n", "y/x", "y/w").text == "(let [x 1] (f y/w x))\n"


class TestHy:
    def test_hy_scopes_that_match_clojure_are_understood(self):
        text = "(setv X 1)\n(defn f [x] x)\n(fn [* [x X]] x)\n(let [x X] x)\n(defn :async X [y] X)\n"
        assert renamed(text.replace("X", "x"), is_hy=True).text == text.replace("X", "w")

    def test_names_that_python_binds_in_a_function_are_renamed_too(self):
        text = "(setv x 1)\n(defn f []\n  (for [x xs] (print x))\n  x)\n"
        assert renamed(text, is_hy=True).text == text.replace("x ", "w ").replace("(print x)", "(print w)").replace(
            "  x)", "  w)"
        )

    def test_imported_names_belong_to_another_module(self):
        message = "'x' is another namespace's, referred to at line 1: rename it there, where it is defined"
        assert refusal("(import m [x])\n(x 1)\n", is_hy=True) == message
        assert renamed("(import x)\n(setv x 1)\n", is_hy=True).text == "(import x)\n(setv w 1)\n"

    def test_attributes_of_a_renamed_name_stay(self):
        text = "(setv x 1)\n(print x.y z.x (.x z) (. z x))\n(defclass A [x.B]\n  (defn x [self] x))\n"
        wanted = "(setv w 1)\n(print w.y z.x (.x z) (. z x))\n(defclass A [w.B]\n  (defn x [self] w))\n"
        assert renamed(text, is_hy=True).text == wanted


@pytest.mark.slow
def test_depth_is_unlimited():
    deep = "(let [y " * 3000 + "x" + "] y)" * 3000
    assert renamed(f"{deep}\n").done[0].changes == 1
    deep = "(let [" + "[" * 20_000 + "x" + "]" * 20_000 + " x] x)"
    assert renamed(f"{deep}\n").done[0].changes == 1


def test_a_keyword_is_renamed_everywhere_unless_a_key_would_be_lost():
    text = "(let [{a :x} m] [:x ':x (:x m) :p/x ::x :xx])\n(f :x)\n"
    assert renamed(text, ":x", ":w").text == "(let [{a :w} m] [:w ':w (:w m) :p/x ::x :xx])\n(f :w)\n"
    assert renamed(text, ":x", ":w", line=2).text == text.replace("(f :x)", "(f :w)")
    assert refusal("(f :x :w)\n", ":x", ":w") == "':w' is in use at line 1: both would become one"
    assert refusal("(let [{:keys [x]} m] :x)\n", ":x", ":w").startswith("'x' at line 1 names the key")
