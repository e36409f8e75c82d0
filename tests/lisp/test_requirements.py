"""The namespace that a text declares, and the names that it refers to in another one."""

import pytest

from codriver_lisp.requirements import declared_namespace, find_requirements
from codriver_lisp.source_text import Document


@pytest.mark.parametrize(
    ("text", "namespace"),
    [
        ("(ns a.b)", "a.b"),
        ('(ns ^{:doc "d"} ^:x a.b "Docs" (:require [c]))', "a.b"),
        ("(ns #_old a.b)", "a.b"),
        ("(clojure.core/ns a.b)", "a.b"),
        ("; (ns z)\n#_(ns y) (println 1) (ns a.b)", "a.b"),
        ("(ns a.b) (ns c)", "a.b"),
        ("(in-ns 'a.b) (def x 1)", "a.b"),
        ("(clojure.core/in-ns 'a.b)", "a.b"),
        ("(in-ns (quote a.b))", "a.b"),
        ("(in-ns (quote ^:x a.b))", "a.b"),
        ("(def x 1) (in-ns 'a.b)", None),
        ("(in-ns 'a.b) (ns c)", "a.b"),
        ("(ns)", None),
        ("(nsx a)", None),
        ("[ns a]", None),
        ("'(ns a)", None),
        ("", None),
    ],
)
def test_the_namespace_declared_by_a_source_text_is_found(text, namespace):
    assert declared_namespace(Document(text)) == namespace


def test_referring_to_all_names_is_distinguished_from_referring_to_some():
    text = "(ns c (:require [a.b :refer [x y] :rename {y z}]) (:use [d :exclude [x]] [e :only [x]] f))"
    for namespace, names in {"a.b": "x", "d": "yz", "e": "x", "f": "xyz", "g": ""}.items():
        required = find_requirements(Document(text), namespace)
        assert "".join(filter(required.refers, "xyz")) == names


def test_every_mention_of_a_referred_name_is_found():
    text = "(ns c (:require [a.b :refer [x y]]) #?(:clj (:use [a.b :only [x]])))"
    required = find_requirements(Document(text), "a.b")
    assert {name: sorted(offsets) for name, offsets in required.referred.items()} == {
        "x": [text.index("x"), text.rindex("x")], "y": [text.index("y")],
    }  # fmt: skip
