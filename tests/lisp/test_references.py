"""A rename follows requires into other files: aliases, references and qualified names, and nothing else."""

import pytest

from codriver_lisp.edit import EditedText, RefusedEdits, apply_edits
from codriver_lisp.source_text import Document
from codriver_lisp.symbol_rename import DefinitionRenaming

NAME = DefinitionRenaming("a.b", "x", "w")


def renamed(text, name=NAME):
    return apply_edits(Document(text), {0: name})


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
    "same namespace": "(ns a.b) (def X 1) (defn f [x] x)",
    "not required": "(ns c (:require [z :as b])) (b/x x)",
    "comment and string": '(ns c (:require [a.b :as b])) ; b/x\n"b/x" (b/X)',
    "discarded": "(ns c (:require [a.b :as b])) #_(b/X)",
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=list(TEXTS))
def test_only_names_of_the_other_namespace_change(text):
    result = renamed(text.replace("X", "x"))
    assert isinstance(result, EditedText), result
    assert result.text == text.replace("X", "w")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("(ns c (:require [a.b :refer [x]])) (let [w 1] x)", "'w' is a local name at line 1: it would hide"),
        ("(ns c (:require [a.b :refer [x]])) (def w 1) x", "'w' is in use at line 1"),
        ("(ns c (:require [a.b :as b])) (b/x b/w)", "'b/w' is in use at line 1"),
        ("(ns c (:require [a.b :refer [x]])) (q {:keys [x]})", "names the key that is taken"),
        ("(ns c (:require [a.b :as b])) (b/x", "brackets do not balance"),
    ],
)
def test_a_rename_that_would_change_another_meaning_is_refused(text, words):
    result = renamed(text)
    assert isinstance(result, RefusedEdits), result
    assert words in result.errors[0][1].message


def test_records_are_renamed_with_constructors_and_protocols_with_methods():
    text = "(ns c (:require [a.b :as b :refer [->X]])) (->X) (b/map->X) (b/X)"
    result = renamed(text.replace("X", "x"), DefinitionRenaming("a.b", "x", "w", "type"))
    assert result.text == text.replace("X", "w")
    text = "(ns c (:require [a.b :as b])) (defrecord R [] b/P (X [x] x)) (b/X r)"
    result = renamed(text.replace("X", "x"), DefinitionRenaming("a.b", "x", "w", "protocol"))
    assert result.text == text.replace("X", "w")


def test_a_quoted_name_is_kept_and_reported():
    result = renamed("(ns c (:require [a.b :as b]))\n(b/x)\n(resolve 'a.b/x)")
    assert result.text.endswith("(b/w)\n(resolve 'a.b/x)")
    assert list(result.done[0].left.values()) == [[3]]


def test_deep_nesting_in_the_ns_form_is_read():
    depth = 20_000
    text = f"(ns c (:require {'[' * depth}a.b :as b{']' * depth})) (b/x)"
    assert isinstance(renamed(text), EditedText)
