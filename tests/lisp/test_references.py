"""References to a name of another namespace: aliases, referred names and qualified names, and nothing else."""

import pytest

from codriver_lisp.references import find_references
from codriver_lisp.source_text import Document

# In each, `a.b`'s x is written `X`, and something else is `x`.
TEXTS = {
    "alias": "(ns c (:require [a.b :as b])) (b/X x #'b/X) (defn x [b] (b/X b)) {:b/x 1}",
    "alias by require": "(ns c) (require '[a.b :as b]) (b/X)",
    "as-alias and another": "(ns c (:require [a.b :as-alias b] [z :as z])) (b/X z/x)",
    "qualified": "(ns c (:require a.b)) (a.b/X other/x)",
    "referred": "(ns c (:require [a.b :refer [y X]])) (X) (let [x X] x) (fn [x] x) #'X `X",
    "referred to another": "(ns c (:require [a.b :as b] [z :refer [x]])) (x b/X)",
    "renamed on reference": "(ns c (:require [a.b :refer [X] :rename {X q}])) (q x)",
    "referred all": "(ns c (:require [a.b :refer :all])) (X)",
    "used": "(ns c (:use a.b)) (X)",
    "used in part": "(ns c (:use [a.b :only [y]])) (x)",
    "used but excluded": "(ns c (:use [a.b :exclude [x]])) (x)",
    "own definition": "(ns c (:require [a.b :refer :all])) (def x 1) x",
    "prefix list": "(ns c (:require [a [b :as q] [d :as r]])) (q/X r/x)",
    "reader conditional": "(ns c (:require #?(:clj [a.b :as b] :cljs [z :as b]))) (b/X)",
    "splicing": "(ns c (:require #?@(:clj [[a.b :refer [X]]]))) (X)",
    "not required": "(ns c (:require [z :as b])) (b/x x)",
    "comment and string": '(ns c (:require [a.b :as b])) ; b/x\n"b/x" (b/X)',
    "quoted": "(ns c (:require [a.b :as b])) (b/X) (resolve 'a.b/x)",
    "discarded": "(ns c (:require [a.b :as b])) #_(b/X)",
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=list(TEXTS))
def test_only_uses_of_the_other_namespaces_name_are_found(text):
    found = find_references(Document(text.replace("X", "x")), "a.b", "x")
    names = [text.index("X", at) for at in found]
    assert names == [at for at, character in enumerate(text) if character == "X"]


def test_deep_nesting_in_the_ns_form_is_read():
    depth = 20_000
    text = f"(ns c (:require {'[' * depth}a.b :as b{']' * depth})) (b/x)"
    assert find_references(Document(text), "a.b", "x") == [text.index("b/x")]
