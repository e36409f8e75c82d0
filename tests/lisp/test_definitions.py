"""Definitions in Lisp text, and which of them were evaluated last."""

import pytest

from codriver.tools.ledgers.definition_history import DefinitionHistory, LispEvaluation
from codriver_lisp.definitions import defines_within, read_definitions

FILE = """\
(ns ^:x shop.core "doc" (:require [a.b :as b] c.d (e f [g :as h]) #?(:clj [k.l] :cljs [m])) (:use z))
(def ^:private ^{:doc "x"} a 1)
(defn f "d" [x] x)
#?(:clj (defn g [] 1) :cljs (defn g [] 2))
(let [n 1] (defn h [] n)) (do (def i 1) (def j 2))
(defmethod area :circle [x] 1)
(defrecord R [a] P (m [_] 1))
(defprotocol P "d" (m [x]) (n [x y]))
(declare later) (def unbound)
"""


def digest(text):
    [item] = read_definitions(text).found
    return item.digest


def test_each_definition_is_found_with_its_name_line_and_vars():
    found = [(item.name, item.head, item.line, item.makes) for item in read_definitions(FILE).found]
    assert found == [
        ("a", "def", 2, ("a",)),
        ("f", "defn", 3, ("f",)),
        ("g", "defn", 4, ("g",)),
        ("h", "defn", 5, ("h",)),
        ("i", "def", 5, ("i",)),
        ("j", "def", 5, ("j",)),
        ("area :circle", "defmethod", 6, ()),
        ("R", "defrecord", 7, ("->R", "map->R")),
        ("P", "defprotocol", 8, ("P", "m", "n")),
    ]
    assert {element.namespace for element in read_definitions(FILE).found} == {"shop.core"}


def test_the_namespaces_that_a_file_requires_are_listed():
    assert read_definitions(FILE).requires == ("a.b", "c.d", "e.f", "e.g", "k.l", "z")
    assert read_definitions(FILE).namespace == "shop.core"


@pytest.mark.parametrize(
    "same",
    [
        "(defn  f [x]\n  x)",
        "(defn f [x,] x)",
        "(defn f ; why\n [x] x)",
        "(defn f #_#_ 1 2 [x] x)",
        "(defn f [#_y x] x)",
    ],
)
def test_comments_and_layout_do_not_change_the_digest(same):
    assert digest(same) == digest("(defn f [x] x)")


@pytest.mark.parametrize("other", ["(defn f [x] 'x)", "(defn f [y] y)", '(defn f "x" [x] x)', "(defn- f [x] x)"])
def test_any_difference_except_in_comments_and_layout_changes_the_digest(other):
    assert digest(other) != digest("(defn f [x] x)")


def test_surrounding_bindings_are_part_of_the_digest_of_a_definition():
    assert digest("(let [a 1] (defn f [] a))") != digest("(let [a 2] (defn f [] a))")
    assert digest("(do (defn f [] a))") == digest("(defn f [] a)")


def test_the_reader_conditional_branch_of_the_dialect_is_used():
    text = "#?(:clj (def a 1) :lpy (def b 1) :default (def c 1))"
    assert [item.name for item in read_definitions(text, features=("lpy",)).found] == ["b"]
    assert [element.name for element in read_definitions(text, features=("cljr",)).found] == ["c"]


def test_a_call_to_a_user_macro_is_reported_as_an_uncertain_definition():
    assert read_definitions(FILE).unknown == ()
    read = read_definitions("(defroutes app 1)\n(s/def ::x int?)")
    assert [(item.name, item.is_sure) for item in read.found] == [("app", False)]
    assert [element.line for element in read.unknown] == [1]
    assert len(read_definitions("(register! foo)").unknown) == 1


def test_a_macro_may_define_names_derived_from_its_arguments():
    (form,) = read_definitions("(defcomponent order\n  (helper total-of))").unknown
    names = ("order", "->order", "map->order", "order-schema", "new-order", "total-of", "total", "helper")
    assert all(form.may_define(name) for name in names)
    assert not form.may_define("price")
    assert not form.may_define("total-of-all")
    assert (form.line, form.last_line) == (1, 2)


def test_declared_names_and_ns_forms_are_not_definitions():
    read = read_definitions(
        '(ns shop "Docs" (:require [a]))\n(declare total price)\n(def later)\n(def ^:dynamic *now*)'
    )
    assert (read.declared, read.found) == ({"total", "price", "later", "*now*"}, ())
    (form,) = read.ns_forms
    assert form.digest == read_definitions('(ns shop "Docs"\n  (:require [a])) ; same').ns_forms[0].digest
    assert form.digest != read_definitions('(ns shop "Docs" (:require [b]))').ns_forms[0].digest


def test_a_namespace_switch_is_followed():
    read = read_definitions("(def a 1) (in-ns 'other) (def b 1)", "user")
    assert [(item.namespace, item.name) for item in read.found] == [("user", "a"), ("other", "b")]


@pytest.mark.parametrize("quoted", ["'other.ns", "(quote other.ns)", "(quote ^:new other.ns)"])
def test_in_ns_supports_every_way_of_quoting(quoted):
    read = read_definitions(f"(in-ns {quoted}) (def b 1) (ns-unmap {quoted} 'b)", "user")
    assert [(item.namespace, item.name) for item in read.found] == [("other.ns", "b"), ("other.ns", "b")]
    assert read.namespace == "other.ns"


@pytest.mark.parametrize(
    ("text", "place", "made"),
    [
        ("(alter-var-root #'a inc)", ("shop", "a"), ("a",)),
        ("(alter-var-root (var a) inc)", ("shop", "a"), ("a",)),
        ("(.bindRoot #'tax/rate 2)", ("shop.tax", "rate"), ("rate",)),
        ("(alter-var-root #'shop.tax/rate inc)", ("shop.tax", "rate"), ("rate",)),
        ("(intern *ns* 'a 1)", ("shop", "a"), ("a",)),
        ("(intern 'shop.tax 'rate 1)", ("shop.tax", "rate"), ("rate",)),
    ],
)
def test_changing_the_root_value_of_a_var_is_a_definition_of_it(text, place, made):
    [found] = read_definitions(f"(ns shop (:require [shop.tax :as tax])) {text}").found
    assert ((found.namespace, found.name), found.makes) == (place, made)


def test_a_changed_root_value_has_another_digest_if_the_preceding_definition_differs():
    changed = "(alter-var-root #'a inc)"
    texts = [f"(ns shop) (def a 1) {changed}", f"(ns shop) (def a 2) {changed}", f"(ns shop) {changed}"]
    digests = [read_definitions(text).found[-1].digest for text in texts]
    assert len(set(digests)) == 3
    assert read_definitions(texts[0].replace(" 1", "  1")).found[-1].digest == digests[0]


@pytest.mark.parametrize(
    "text", ["(alter-var-root (resolve s) inc)", "(intern 'a 'b)", "(intern 'a (symbol s) 1)", "(.bindRoot)"]
)
def test_changing_the_root_value_of_an_unknown_var_is_not_a_definition(text):
    assert read_definitions(text, "n").found == ()


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("(ns-unmap *ns* 'a)", ("shop", "a")),
        ("(ns-unmap 'shop.tax 'a)", ("shop.tax", "a")),
        ("(remove-ns 'shop.tax)", ("shop.tax", "")),
    ],
)
def test_the_names_that_a_form_removes_are_found(text, place):
    [found] = read_definitions(text, "shop").found
    assert ((found.namespace, found.name), found.is_removal) == (place, True)


@pytest.mark.parametrize(
    ("text", "name", "at_home"),
    [
        ("(defmethod s/area :circle [x] 1)", "s/area :circle", "(defmethod area :circle [x] 1)"),
        ("(remove-method shop.shapes/area :circle)", "shop.shapes/area :circle", "(remove-method area :circle)"),
        ("(extend-type T s/P (m [_] 1))", "extend-type T s/P", "(extend-type T P (m [_] 1))"),
        ("(extend T s/P {:m 1})", "extend T s/P", "(extend T P {:m 1})"),
        ("(extend-protocol s/P T (m [_] 1))", "extend-protocol s/P", "(extend-protocol P T (m [_] 1))"),
    ],
)
def test_a_method_of_a_multimethod_in_another_namespace_is_also_found_in_that_namespace(text, name, at_home):
    [found] = read_definitions(f"(ns c (:require [shop.shapes :as s])) {text}").found
    [home] = read_definitions(at_home, "shop.shapes").found
    assert (found.namespace, found.name, found.makes, home.foreign) == ("c", name, (), None)
    assert found.foreign is not None
    assert (found.foreign.namespace, found.foreign.name) == (home.namespace, home.name)
    assert found.foreign.digest == home.digest


def test_aliases_are_read_from_require_calls_and_from_other_texts():
    first = read_definitions("(ns c (:require [shop.shapes :as s])) (require '[shop.tax :as-alias t])")
    assert dict(first.aliases) == {("c", "s"): "shop.shapes", ("c", "t"): "shop.tax"}
    [found] = read_definitions("(defmethod t/rate :low [] 1)", "c", aliases=first.aliases).found
    assert found.foreign is not None
    assert found.foreign.namespace == "shop.tax"


def test_a_definition_under_a_condition_is_uncertain():
    read = read_definitions("(when x (def a 1)) ^:y (def b 2) (do (defn c [] 3)) #?@(:clj [(def d 4) (def e 5)])")
    assert [(found.name, found.is_sure) for found in read.found] == [
        ("a", False), ("b", True), ("c", True), ("d", True), ("e", True),
    ]  # fmt: skip


def test_a_type_definition_defines_only_its_constructors():
    found = read_definitions("(deftype T [a]) (definterface I (m [])) (defprotocol P)").found
    assert [(kind.name, kind.makes) for kind in found] == [("T", ("->T",)), ("I", ()), ("P", ("P",))]


@pytest.mark.parametrize(
    ("name", "is_defined"), [("order", True), ("->order", True), ("helper", True), ("total", False)]
)
def test_an_unknown_macro_is_assumed_to_define_its_arguments(name, is_defined):
    (call,) = read_definitions("(defcomponent order (helper total-of))").unknown
    assert call.defines(name) is is_defined


def test_broken_text_is_parsed_as_far_as_possible():
    assert [item.name for item in read_definitions("(def a 1) (defn b [x").found] == ["a", "b"]
    assert (read_definitions("(def a 1) (defn b [x").is_sound, read_definitions(FILE).is_sound) == (False, True)
    for text in (
        "(",
        ")",
        "(def",
        "(def ^",
        "#?(:clj",
        "(ns",
        "(in-ns)",
        "(defmethod a)",
        "(let",
        "(defprotocol P ())",
    ):
        read_definitions(text)


@pytest.mark.parametrize(
    ("text", "name", "is_within"),
    [
        ("(defn f [] (def rate 1))", "rate", True),
        ("(defn f [] (def ^:private rate 1))", "rate", True),
        ("(when x (c/defn- rate []))", "rate", True),
        ("(defrecord Circle [r])", "map->Circle", True),
        ("(defn f [] (rate 1))", "rate", False),
        ("(defn f [] (def rates 1))", "rate", False),
        ("(defn f [])", "->Circle", False),
    ],
)
def test_a_definition_at_any_depth_is_found(text, name, is_within):
    assert defines_within(text, name) is is_within


def recorded(*texts, **how):
    ledger = DefinitionHistory()
    for number, text in enumerate(texts):
        ledger.record(LispEvaluation(number, f"e-{number}", "ann", number * 1000, text, "shop", **how))
    return ledger


def test_the_history_records_who_evaluated_a_definition_last():
    ledger = recorded("(def a 1) (def b 1)", "(def a 2)")
    assert [item.evaluation for item in ledger.find_definitions("shop", "a")] == ["e-0", "e-1"]
    living = ledger.effective_definition("shop", "a")
    assert living is not None
    assert (living.who, living.evaluation, living.definition.digest) == ("ann", "e-1", digest("(def a 2)"))
    assert ledger.effective_definition("shop", "c") is None


@pytest.mark.parametrize(
    ("texts", "lives"),
    [
        (("(defonce a 1)", "(defonce a 2)"), "e-0"),
        (("(defmulti a :x)", "(defmulti a :y)"), "e-0"),
        (("(def a 1)", "(defonce a 2)"), "e-0"),
        (("(def a nil)", "(defmulti a :y)"), "e-1"),
        (("(defonce a 1)", "(def a 2)"), "e-1"),
        (("(defonce a 1)", "(ns-unmap 'shop 'a)", "(defonce a 2)"), "e-2"),
        (("(defonce a 1)", "(ns-unmap *ns* 'a)", "(defonce a 2)"), "e-2"),
        (("(defonce a 1)", "(remove-ns 'shop)", "(defonce a 2)"), "e-2"),
    ],
)
def test_a_defonce_stays_in_effect_until_its_name_is_removed(texts, lives):
    living = recorded(*texts).effective_definition("shop", "a")
    assert living is not None
    assert living.evaluation == lives


def test_a_failed_evaluation_defined_only_what_preceded_the_failure():
    text = "(def a 1)\n(def b (/ 0))\n(def c 1)"
    by_form = recorded(text, is_done=False, forms=1)
    by_line = recorded(text, is_done=False, before_line=2)
    nobody_knows = recorded(text, is_done=False)

    def sure(ledger):
        return [item.is_sure for name in "abc" for item in ledger.find_definitions("shop", name)]

    assert sure(by_form) == sure(by_line) == [True, False, False]
    assert sure(nobody_knows) == [False] * 3


def test_the_history_keeps_the_first_and_the_newest_of_many_definitions():
    ledger = recorded(*[f"(def a {n})" for n in range(100)])
    made = [item.number for item in ledger.find_definitions("shop", "a")]
    assert (made[0], made[-1], len(made)) == (0, 99, 20)
