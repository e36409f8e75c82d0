"""References to a name of a namespace, in its own text and in others: every use of it, and nothing else.

In each text, the name is written `X` where it is a use, and `x` where it is something else.
"""

import dis
import sys
import types
from importlib import import_module

import needs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codriver_lisp.binding_forms import CLOJURE_BINDERS
from codriver_lisp.hy_binding_forms import HY_BINDERS
from codriver_lisp.references import find_references, find_references_within
from codriver_lisp.source_text import Document


def marked(found, text):
    """Return the text with the offsets in `found` written as `X`, as far as they are one letter or end in it."""
    letters = list(text.replace("X", "x"))
    for start in found:
        letters[text.replace("X", "x").index("x", start)] = "X"
    return "".join(letters)


def own(text, **options):
    return marked(find_references_within(Document(text.replace("X", "x"), **options), "n", "x"), text)


OTHER_NAMESPACE = {
    "alias": "(ns c (:require [a.b :as b])) (b/X x #'b/X) (defn x [b] (b/X b)) {:b/x 1}",
    "alias by require": "(ns c) (require '[a.b :as b]) (b/X)",
    "as-alias and another": "(ns c (:require [a.b :as-alias b] [z :as z])) (b/X z/x)",
    "two aliases": "(ns c (:require [a.b :as b])) (require '[a.b :as d]) (b/X d/X)",
    "qualified": "(ns c (:require a.b)) (a.b/X other/x)",
    "qualified despite a local": "(ns c (:require a.b)) (fn [x] (a.b/X x))",
    "referred": "(ns c (:require [a.b :refer [y X]])) (X) (let [x X] x) (fn [x] x) #'X `X",
    "referred to another": "(ns c (:require [a.b :as b] [z :refer [x]])) (x b/X)",
    "renamed on reference": "(ns c (:require [a.b :refer [X] :rename {X q}])) (q x)",
    "referred all": "(ns c (:require [a.b :refer :all])) (X)",
    "referred all except renamed": "(ns c (:require [a.b :refer :all :rename {X q}])) (x)",
    "used": "(ns c (:use a.b)) (X)",
    "used in part": "(ns c (:use [a.b :only [y]])) (x)",
    "used in this part": "(ns c (:use [a.b :only (X)])) (X)",
    "used but excluded": "(ns c (:use [a.b :exclude [x]])) (x)",
    "used by a call": "(ns c) (use 'a.b) (X)",
    "own definition": "(ns c (:require [a.b :refer :all])) (def x 1) x",
    "own definition with metadata": "(ns c (:use a.b)) (defn ^{:doc a :b c} x [] 1) (x)",
    "own definition by an unknown macro": "(ns c (:use a.b)) (defthing x) (x)",
    "own definition inside another form": "(ns c (:use a.b)) (when y (declare x)) (x)",
    "a local is no own definition": "(ns c (:use a.b)) (let [x 1] x) (X) ; (def x 1)",
    "prefix list": "(ns c (:require [a [b :as q] [d :as r]])) (q/X r/x)",
    "reader conditional": "(ns c (:require #?(:clj [a.b :as b] :cljs [z :as b]))) (b/X)",
    "splicing": "(ns c (:require #?@(:clj [[a.b :refer [X]]]))) (X)",
    "macros of ClojureScript": "(ns c (:require-macros [a.b :refer [X]])) (X)",
    "macros referred in ClojureScript": "(ns c (:require [a.b :refer-macros [X]])) (X)",
    "imports of Basilisp": "(ns c (:import [x :as b]) (:require [a.b :refer [X]])) (import [x :as e]) (X)",
    "not required": "(ns c (:require [z :as b])) (b/x x)",
    "no ns form": "(require '[a.b :refer [X]]) (X)",
    "comment and string": '(ns c (:require [a.b :as b])) ; b/x\n"b/x" (b/X)',
    "quoted": "(ns c (:require [a.b :as b])) (b/X) (resolve 'a.b/x)",
    "discarded": "(ns c (:require [a.b :as b])) #_(b/x) (b/X #_b/x)",
    "discarded requirement": "(ns c (:require #_[a.b :refer [x]] [a.b #_a :as #_d b :refer [#_x y]])) (b/X x)",
}


@pytest.mark.parametrize("text", OTHER_NAMESPACE.values(), ids=list(OTHER_NAMESPACE))
def test_only_uses_of_the_given_name_of_another_namespace_are_found(text):
    assert marked(find_references(Document(text.replace("X", "x")), "a.b", "x"), text) == text


def test_a_deeply_nested_ns_form_is_read():
    depth = 20_000
    text = f"(ns c (:require {'[' * depth}a.b :as b{']' * depth})) (b/x)"
    assert find_references(Document(text), "a.b", "x") == [text.index("b/x")]


CLOJURE = {
    "let": "(let [y X x X z x] x #(f x))",
    "let that rebinds": "(let [x X x x] x)",
    "let without a vector": "(let X X)",
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
    "short fn of a binding form": "#(let [x X] x)",
    "defn": '(defn x "doc" {:a X} [y] {:pre [X]} X)',
    "defn with the name as parameter": "(defn f [x] x)",
    "defn with arities": "(defn- f ([] X) ([x] {:pre [x]} x) {:a X})",
    "defmacro": "(defmacro m [x] `(f ~x X ~(g x)))",
    "hints": "(defn ^X f ^x [^x y] ^x X)",
    "Schema": "(s/defn f :- X [x :- X y :- X] x)",
    "letfn": "(letfn [(x [y] (x y)) (g [x] x)] x)",
    "letfn with another": "(letfn [(g [x] x) #_(x [])] X)",
    "catch": "(try X (catch X x x) (finally X))",
    "as->": "(as-> X x (f x))",
    "as-> in a thread": "(-> X (f X) (as-> x (f x) x) (g X))",
    "binding": "(fn [x] (binding [X x] x))",
    "with-redefs": "(with-redefs [X X y X] X)",
    "defmethod": "(defmethod X X [x] x)",
    "defmethod with a name": "(defmethod f :k x [y] x)",
    "reify": "(reify P (g [x] x) (h [_] X) (x [_] X))",
    "proxy": "(proxy [X] [X] (g [x] x))",
    "deftype": "(deftype T [x ^long y] P (g [_] x) X (h [_ x] x))",
    "defrecord": "(defrecord T [y] P (g [_] X) (h [x] x))",
    "a protocol's own name and methods": "(defprotocol x (x [x] 'x)) (definterface x) (deftype x [])",
    "extend-type": "(extend-type X P (g ([x] x) ([_ y] X)))",
    "extend-protocol": "(extend-protocol P X (g [x] x))",
    "vector pattern": "(let [[x [y] & z :as a] X] x)",
    "rest pattern": "(fn [y & x] x)",
    "nested pattern": "(let [[[{[x] :k}]] X] x)",
    "map pattern": "(let [{y X x :x} X] x)",
    "defaults": "(let [{x :x y :y :or {x X y x}} X] x)",
    "keys": "(let [{:keys [x]} X] x)",
    "keys with metadata": "(fn [{:keys [^long x]}] x)",
    "other keys": "(let [{:keys [y] :a/keys [xx]} X] X)",
    "qualified keys": "(let [{:p/keys [x] ::q/syms [y]} X] x)",
    "keys written as keywords": "(let [{:keys [:p/x]} X] x)",
    "strs and syms": "[(let [{:strs [x]} X] x) (let [{:syms [x]} X] x)]",
    "all of a map": "(fn [{:keys [y] :as x}] x)",
    "a namespaced map pattern": "(fn [#:p{:keys [x]}] x)",
    "rest as a map": "(fn [& {:keys [x] :or {x X}}] x)",
    "metadata in a pattern": "(let [^{:tag x} y X ^String x X z ^x x] x)",
    "a discarded form": "(let [#_x y X #_(f x) x X] #_x x #_(g x)) #_x",
    "a var's quote": "(let [x 1] [x #'X (var X)])",
    "quotes": "(f 'x '(x [x]) (quote x) '#{x})",
    "syntax quote": "(let [x 1] `(f X ~x ~@[x] ~'x))",
    "quote within syntax quote": "(let [x 1] `(f 'X '~x))",
    "nested syntax quotes": "(let [x 1] ``(X ~X ~~x))",
    "the own namespace": "(let [x 1] [x n/X m/x])",
    "a qualified form": "(clojure.core/let [x X] x)",
    "a reader conditional": "(let [x #?(:clj X :cljs X)] #?(:clj x :cljs [x]))",
    "an empty reader conditional": "(f #?() X)",
    "spliced bindings": "(let [#?@(:clj [x X] :cljs [x X])] x)",
    "spliced bindings behind others": "(let [y X #?@(:clj [z X x 1] :cljs [z X]) a x] x)",
    "spliced bindings without pair": "(let [#?@(:clj [y])] X)",
    "spliced methods": "(reify P (g [x] x) #?@(:clj [X (h [x] x)]) #?(:cljs (i [x] x)))",
    "a parameter for one platform": "(fn [#?(:clj ^long x :cljs x)] x)",
    "a nested def": "(let [x 1] (def x x) (declare x) (defonce x x) (defmulti x x))",
    "deftest": "(deftest x X)",
    "for-all": "(prop/for-all [x X] x)",
    "are": "(are [x y] (= x y) X 1)",
    "amap": "(amap X x y (f x)) (amap X y x (f x))",
    "areduce": "(areduce X y x X (f x)) (areduce X x y x (f x))",
    "members": "(.. X x (x X) y)",
    "a member": "(. X x) (. X (x X)) (. X y X) (.x X)",
    "this-as": "(this-as x (f x))",
    "case": "(let [y X] (case X (x y) X X))",
    "case without default": "(case y x X z X)",
    "an unknown form": "(unknown [X 1] {:keys [X]} X)",
    "tagged and namespaced": "[#js {:a X} #:x{:x X} @X #{X}]",
    "keywords, characters and longer names": '[:x ::x \\x x.y x/y xx x! "x" #"x"] X',
    "ns form": "(ns x.y (:require [z :as x :refer [x]])) X",
    "a require": "(require '[z :as x :refer [x]]) X",
    "an import": "(import (java.util x) x) X",
    "comment": "(f X) ; x",
    "operator": "(X 1) ((X) 2)",
    "broken": "X (let [x X] x ([x",
    "broken prefix": "X (f ^",
    "empty forms": "(let) (fn) (defn) (def) (letfn) (binding) (case) (..) (catch) (deftype) (as->) (ns) (are) () X",
}


@pytest.mark.parametrize("text", CLOJURE.values(), ids=list(CLOJURE))
def test_local_names_and_quoted_data_are_not_uses_of_a_name(text):
    assert own(text) == text


HY = {
    "top level": "(setv x 1) (print X) (defn x [] 1) (X)",
    "fn": "[(fn [x] x) X]",
    "parameters": "(fn [a / b * [c X] x #** d] x)",
    "default values": "(fn [[x X] [y X]] x)",
    "rest parameters": "(fn [#* x] x) (fn [#** x] x)",
    "annotations": "(defn #^ X f [#^ X y #^ X x] x)",
    "async": "(defn :async f [x] x) (fn :async [x] x)",
    "decorators": "(defn [X (X 1)] x [y] X)",
    "let": "(let [x X y x] x) (X)",
    "let with a pattern": "(let [[x #* y] X] x) (let [#(y [z x]) X] x)",
    "assigned in a function": "(defn f [] (print x) (setv x 1) x) (X)",
    "assigned in a nested form": "(defn f [] (if y (do (setv [z x] 1)) (setx x 2)) x)",
    "assigned in an inner function": "(defn f [] (defn g [] (setv x 1) x) X)",
    "assigned in an outer function": "(defn f [] (setv x 1) (fn [] x))",
    "assigned in let": "(defn f [] (let [x X] (setv x 2)) X)",
    "an attribute that is assigned": "(defn f [] (setv X.y 1 (. X z) 2 (get X 0) 3))",
    "global": "(defn f [] (global x) (setv x 1) X)",
    "nonlocal": "(defn f [x] (defn g [] (nonlocal x) (setv x 2) x))",
    "for in a function": "(defn f [] (for [y x :if x x y] x) x)",
    "for with clauses": "(defn :async f [] (for [y X :if X :async z X :do (f X) :setv w X] X))",
    "comprehensions": "[(lfor x X x) (sfor y X :if X y) (gfor y X x y (f x)) (dfor x X x x)]",
    "a comprehension's names stay in it": "(defn f [] (lfor x X :setv y x x) X)",
    "nested iterables": "(lfor y X x y x)",
    "with": "(with [(open X)] (f X)) (with [y (open X) z X] (f X))",
    "with in a function": "(defn f [] (with [x (open x)] x) x)",
    "except": "(defn f [] (try X (except [x X] x) (except [X] X)) X)",
    "class": "(defclass [X] x [X] (setv y X) (defn x [self] X) (defn z [x] x))",
    "class that assigns the name": "(defclass A [] (print X) (setv x X) (defn f [self] X))",
    "function and class in a function": "(defn f [] (defn x [] 1) x) (defn g [] (defclass x []) x)",
    "attributes": "[X.y z.x (.x X) (. z x) (. z y x) (. X y [X] (x X))]",
    "quotes": "['x (quote x) '(x)]",
    "a tuple": "#(let X) #(X)",
    "import in a function": "(defn f [] (import m [x]) x) (defn g [] (import m [x :as y]) X) (defn h [] (import x) x)",
    "comment and string": '(f X) ; x\n"x" :x',
    "discarded": "(fn [] #_ (setv x 1) X) #_ x",
    "quoted assignment": "(fn [] '(setv x 1) X)",
}
NOT_COMPILED_TO_GLOBALS = {
    "for at the top level": "(for [x X] x) (X)",
    "with at the top level": "(with [x (open X)] x) (with [y (open X) x y] x) (X)",
    "class whose name is assigned before": "(defclass A [] (setv x X) (print x))",
    "import at the top level": "(import x m [x] m [y :as x]) (require m [x]) (X)",
    "quasiquote": "(fn [x] `(f X ~x ~@x))",
    "defmacro": "(defmacro m [x] `(f ~x X))",
    "unused value": "(fn [x] x) X",
    "empty forms": "(fn) (defn) (let) (for) (lfor) (with) (setv) (defclass) (except) (.) () X",
}
"""Texts for which Hy's bytecode does not show what a name means, or that Hy does not compile."""


@pytest.mark.parametrize("text", (HY | NOT_COMPILED_TO_GLOBALS).values(), ids=list(HY | NOT_COMPILED_TO_GLOBALS))
def test_uses_in_hy_follow_the_scopes_of_python(text):
    assert own(text, is_hy=True) == text


def globals_loaded(code):
    """Yield the columns at which compiled code, written in one line, loads the global `x`."""
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME") and instruction.argval == "x":
            yield instruction.positions.col_offset - 1  # Hy counts columns from 1
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from globals_loaded(constant)


@pytest.mark.parametrize("text", HY.values(), ids=list(HY))
def test_the_uses_found_are_those_that_hy_compiles_to_globals(text, monkeypatch):
    needs.modules("hy")
    hy, compiler = import_module("hy"), import_module("hy.compiler")
    module = types.ModuleType("text_of_hy")
    monkeypatch.setitem(sys.modules, "text_of_hy", module)
    code = compiler.hy_compile(hy.read_many(text.replace("X", "x")), module, import_stdlib=False)
    assert marked(globals_loaded(compile(code, "text of Hy", "exec")), text) == text


SYNTAX = """
    ( ( ( ( [ [ [ { #{ #( ) ) ) ] ] } x x x x y n/x :x :keys :as :or :let :- :if :clj & ^ ^x #^ ' ` ~ ~@ @ #' #_ #? #?@
    #js #* "x ;x
"""
TOKENS = [*SYNTAX.split(), *CLOJURE_BINDERS, *HY_BINDERS]


@given(st.lists(st.sampled_from(TOKENS)), st.booleans())
def test_searching_arbitrary_text_never_fails(chosen, is_hy):
    text = " ".join(chosen)
    found = find_references_within(Document(text, is_hy=is_hy), "n", "x")
    assert all(text.startswith(("x", "n/x"), start) for start in found)
    assert isinstance(find_references(Document(text, is_hy=is_hy), "y", "x"), list)


def test_the_nesting_depth_is_unlimited():
    deep = "(let [y " * 3000 + "x" + "] y)" * 3000
    assert find_references_within(Document(deep), "n", "x") == [deep.index("x")]
    deep = "(let [" + "[" * 20_000 + "x" + "]" * 20_000 + " x] x)"
    assert find_references_within(Document(deep), "n", "x") == [deep.index(" x") + 1]
