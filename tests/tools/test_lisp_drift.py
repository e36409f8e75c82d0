"""Drift in Lisp: which form each loaded var has compared with its file, and where that cannot be known."""

from dataclasses import replace

import pytest

from codriver.repls.contract.loaded_code import LoadedCode, LoadedNamespace, LoadedVar, SurvivingObject
from codriver.tools.ledgers.definition_history import LispEvaluation
from codriver.tools.ledgers.lisp_drift import LispDrift, Source
from codriver_lisp.definitions import read_definitions

FILE = "/w/shop.clj"
BEGAN_MS = 1_000_000
TEXT = "(ns shop)\n(def rate 2)\n(defn cost [x] (* x rate))\n(defonce limit 10)\n(defmulti price :kind)\n"


class World:
    """A REPL with one namespace, its file, and the caller who evaluates in it."""

    def __init__(self, text=TEXT):
        self.drift = LispDrift()
        self.vars = {}
        self.roots = 0
        self.now_ms = BEGAN_MS
        self.write(text)

    def write(self, text):
        """Write the file, one second after the previous change."""
        self.now_ms += 1000
        stamp = (self.now_ms * 1_000_000, 0, len(text))
        self.source = Source(FILE, stamp, read_definitions(text), lambda: text)
        self.text = text

    def define(self, text, file=""):
        """Define in the REPL what a text defines, as the REPL would."""
        self.now_ms += 1000
        for item in read_definitions(text, "shop").found:
            for name in item.makes:
                self.roots += 1
                is_kept = item.head in ("defonce", "defmulti") and name in self.vars
                root = self.vars[name].root if is_kept else str(self.roots)
                self.vars[name] = LoadedVar(name, file, item.line, root, str(self.roots))

    def log(self, text, file="", **how):
        self.drift.number += 1
        number, who = self.drift.number, how.pop("who", "ann")
        how.setdefault("is_whole", bool(file))
        space = how.pop("space", "shop")
        self.drift.ledger.record(LispEvaluation(number, f"e-{number}", who, 0, text, space, file, **how))

    def load(self, **how):
        self.log(self.text, FILE, **how)
        self.define(self.text, FILE)

    def evaluate(self, text, **how):
        self.log(text, **how)
        self.define(text)

    def compare(self, lives_on=()):
        self.now_ms += 1000
        mark = str(sorted(self.vars.values(), key=lambda var: var.name))
        namespace = LoadedNamespace("shop", mark, (FILE,), tuple(self.vars.values()))
        loaded = LoadedCode(BEGAN_MS, frozenset({"shop"}), (namespace,), tuple(lives_on))
        rows = self.drift.compare(loaded, {FILE: self.source}, self.now_ms)
        return [(row.kind, row.name, row.by.rpartition(",")[0]) for row in rows]


@pytest.fixture
def world():
    world = World()
    world.load()
    return world


def test_a_loaded_file_has_no_differences(world):
    assert world.compare() == []


def test_comments_layout_and_moved_lines_are_not_differences(world):
    world.write(TEXT.replace("(defn cost [x]", "; why\n\n(defn cost\n  [x]"))
    assert world.compare() == []


def test_edited_new_and_removed_names_are_reported(world):
    world.write(TEXT.replace("(* x rate)", "(+ x rate)").replace("(def rate 2)", "(def tax 3)"))
    assert world.compare() == [("missing", "tax", ""), ("edited", "cost", ""), ("gone", "rate", "")]
    world.write("(ns shop)\n" + TEXT.partition("rate 2)\n")[2].replace("* x rate", "* x"))
    assert ("gone", "rate", "") in world.compare()


def test_an_evaluated_definition_is_reported_with_its_caller_and_evaluation_id(world):
    world.evaluate("(defn cost [x] 5)", who="bob")
    world.evaluate("(def extra 1)", who="ann")
    assert world.compare() == [("redefined", "cost", "bob, e-2"), ("gone", "extra", "ann, e-3")]
    world.load()
    assert world.compare() == [("gone", "extra", "ann, e-3")]


def test_an_evaluated_definition_equal_to_the_file_is_not_reported(world):
    world.evaluate("(defn cost [x]  (* x rate))")
    assert world.compare() == []


def test_a_defonce_keeps_its_first_form_through_loads(world):
    assert world.compare() == []
    world.write(TEXT.replace("limit 10", "limit 11").replace(":kind", ":sort"))
    assert world.compare() == [("kept", "limit", ""), ("kept", "price", "")]
    world.load()
    assert world.compare() == [("kept", "limit", ""), ("kept", "price", "")]


def test_a_defonce_is_defined_again_after_it_was_unmapped(world):
    world.write(TEXT.replace("limit 10", "limit 11"))
    world.log("(ns-unmap 'shop 'limit)")
    del world.vars["limit"]
    assert world.compare() == [("missing", "limit", "")]
    world.load()
    assert world.compare() == []


def test_code_loaded_before_watching_is_identified_by_its_file():
    world = World()
    world.now_ms += 5000
    world.define(TEXT, FILE)
    old = replace(world.source, stamp=((BEGAN_MS - 500) * 1_000_000, 0, 1))
    world.source = old
    assert world.compare() == []
    world.write(TEXT.replace("rate 2", "rate 3"))
    assert world.compare() == [("edited", "rate", "")]


def test_code_whose_load_was_not_observed_is_reported_as_unknown():
    world = World()  # the file is written after the REPL started
    world.define(TEXT, FILE)
    assert world.compare() == [("unknown", "rate", ""), ("unknown", "cost", "")]
    world.load()
    assert world.compare() == []


def test_an_unobserved_load_is_recognized_if_the_file_was_not_written_since(world):
    assert world.compare() == []
    world.define(TEXT, FILE)
    assert world.compare() == []
    world.write(TEXT.replace("rate 2", "rate 3"))
    world.define(world.text, FILE)
    assert ("unknown", "rate", "") in world.compare()
    assert ("edited", "rate", "") not in world.compare()


def test_a_definition_whose_evaluation_was_evicted_from_the_log_is_reported_as_unknown(world):
    world.define("(defn cost [x] 5)")
    assert world.compare() == [("unknown", "cost", "")]


def test_only_forms_before_the_failing_one_count_as_loaded_by_a_failed_load(world):
    assert world.compare() == []
    world.write(TEXT.replace("rate 2", "rate 3").replace("(* x rate)", "(+ x rate)"))
    world.log(world.text, FILE, is_done=False, before_line=3)
    world.define("\n(def rate 3)", FILE)
    assert world.compare() == [("edited", "cost", "")]


def test_the_names_of_a_load_that_failed_at_an_unknown_form_are_reported_as_unknown(world):
    assert world.compare() == []
    root = world.vars["rate"].root
    world.write(TEXT.replace("rate 2", "rate (+ 1 1)"))
    world.log(world.text, FILE, is_done=False)
    world.define("\n(def rate 2)", FILE)
    world.vars["rate"] = replace(world.vars["rate"], root=root)  # the same object, because small numbers are cached
    assert world.compare() == [("unknown", "rate", "")]


def test_a_namespace_whose_file_cannot_be_read_is_not_compared(world):
    assert world.compare() == []
    world.evaluate("(def rate 3)")
    namespace = LoadedNamespace("shop", "other", (FILE,), tuple(world.vars.values()))
    loaded = LoadedCode(BEGAN_MS, frozenset({"shop"}), (namespace,), ())
    assert world.drift.compare(loaded, {}, world.now_ms) == ()
    assert [kind for kind, _, _ in world.compare()] == ["redefined"]


def test_a_form_loaded_on_its_own_counts_as_loaded_from_its_file(world):
    world.write(TEXT.replace("rate 2", "rate 3"))
    world.log("(def rate 3)", FILE, is_whole=False)
    world.define("\n(def rate 3)", FILE)
    assert world.compare() == []


METHODS = TEXT + "(defmethod price :book [x] 1)\n"


def test_methods_are_compared_only_after_a_definition_was_observed():
    world = World(METHODS)
    world.load()
    assert world.compare() == []
    world.write(METHODS.replace("[x] 1", "[x] 2"))
    assert world.compare() == [("edited", "price :book", "")]
    world.evaluate("(defmethod price :book [x] 3)", who="bob")
    assert world.compare() == [("redefined", "price :book", "bob, e-2")]
    world.load()
    assert world.compare() == []
    world.write(METHODS)
    world.define(METHODS, FILE)  # by another client, whose evaluations are not observed
    assert ("edited", "price :book", "") not in world.compare()


def test_records_and_protocols_are_compared_by_their_definitions():
    text = "(ns shop)\n(defrecord Circle [r])\n(defprotocol Shape (area [this]))\n"
    world = World(text)
    world.load()
    assert world.compare() == []
    world.write(text.replace("[r]", "[r s]").replace("[this]", "[this that]"))
    assert world.compare() == [("edited", "Circle", ""), ("edited", "Shape", "")]


def test_a_name_that_a_macro_may_have_defined_is_not_reported_as_removed():
    world = World("(ns shop)\n(defentity order)\n")
    world.define("(def order-table 1)", FILE)
    assert ("gone", "order-table", "") not in world.compare()


def test_surviving_instances_are_listed_after_the_differences(world):
    rows = world.compare(
        [SurvivingObject("shop", "Circle", "instances", "2"), SurvivingObject("high", "Circle", "old", "shop.Circle")]
    )
    assert rows == [("instances", "Circle", ""), ("old", "Circle", "")]


def test_a_removed_namespace_is_forgotten(world):
    assert world.compare() == []
    world.write("(ns shop)")
    assert world.drift.compare(LoadedCode(BEGAN_MS, frozenset(), (), ()), {}, world.now_ms) == ()


def test_dependent_namespaces_are_listed_after_those_they_require():
    drift = LispDrift()
    requires = {"a": [], "b": ["a"], "c": ["b", "a"], "d": ["c"], "e": [], "0": ["d", "b"]}
    texts = {name: f"(ns {name} (:require {' '.join(f'[{item}]' for item in of)}))" for name, of in requires.items()}
    spaces = tuple(LoadedNamespace(name, "1", (f"/w/{name}.clj",)) for name in requires)
    sources = {
        f"/w/{name}.clj": Source(f"/w/{name}.clj", (0, 0, 0), read_definitions(text), str)
        for name, text in texts.items()
    }
    drift.compare(LoadedCode(BEGAN_MS, frozenset(requires), spaces, ()), sources, BEGAN_MS)
    assert [name for name, _ in drift.dependents("a")] == ["b", "c", "d", "0"]
    assert drift.dependents("b")[0] == ("c", "/w/c.clj")
    assert drift.dependents("e") == drift.dependents("nowhere") == []


def test_a_removed_name_contained_in_other_names_is_reported():
    world = World("(ns shop)\n(def x 1)\n(def box 2)\n")
    world.load()
    assert world.compare() == []
    world.write("(ns shop)\n(def box 2)\n")
    assert world.compare() == [("gone", "x", "")]


@pytest.mark.parametrize("more", ["(println 1)\n", "(swap! state inc)\n", "(derive ::a ::b)\n", "(.start thread)\n"])
def test_a_removal_is_reported_despite_forms_that_define_nothing(more):
    world = World(TEXT + more)
    world.define(world.text, FILE)
    world.write((TEXT + more).replace("(def rate 2)\n", "").replace("rate", "2"))
    assert ("gone", "rate", "") in world.compare()


def test_a_removal_is_reported_despite_a_macro_if_the_name_was_seen_in_the_file():
    world = World(TEXT + "(defroutes site a b)\n(my-macro x)\n")
    world.define(world.text, FILE)
    assert ("gone", "rate", "") not in world.compare()
    world.write(world.text.replace("(def rate 2)\n", "").replace("rate", "2"))
    assert ("gone", "rate", "") in world.compare()


def rebind(world, name, text=None, **how):
    """Set another root of a var and keep its metadata, as `alter-var-root` does."""
    if text is not None:
        world.log(text, **how)
    world.roots += 1
    world.vars[name] = replace(world.vars[name], root=str(world.roots))


@pytest.mark.parametrize("text", [
    "(alter-var-root #'rate inc)", "(alter-var-root (var rate) inc)", "(intern 'shop 'rate 3)", "(intern *ns* 'rate 3)",
    "(.bindRoot #'shop/rate 3)",
])  # fmt: skip
def test_a_changed_var_root_is_reported_with_the_caller_that_changed_it(world, text):
    world.compare()
    rebind(world, "rate", text, who="bob")
    assert world.compare() == [("redefined", "rate", "bob, e-2")]
    world.load()
    assert world.compare() == []


def test_an_unexplained_change_of_a_var_root_is_reported_unless_the_file_may_cause_it(world):
    world.compare()
    rebind(world, "rate")
    assert world.compare() == [("redefined", "rate", "")]
    own = World(TEXT + "(defn more [] (alter-var-root #'rate inc))\n")
    own.load()
    own.compare()
    rebind(own, "rate")
    assert own.compare() == []


def load_methods(world):
    world.write(TEXT + "(defmethod price :book [x] 1)\n(extend-type String Shape (area [_] 1))\n")
    world.load()
    assert world.compare() == []


def test_methods_added_or_removed_only_in_the_repl_are_reported(world):
    load_methods(world)
    world.log("(defmethod price :pen [x] 2)", who="bob")
    world.log("(extend-type Long Shape (area [_] 2))", who="bob")
    assert sorted(world.compare()) == [
        ("gone", "extend-type Long Shape", "bob, e-4"), ("gone", "price :pen", "bob, e-3"),
    ]  # fmt: skip
    world.log("(remove-method price :book)", who="bob")
    world.log("(extend-type String Shape (area [_] 5))", who="bob")
    reported = world.compare()
    assert ("redefined", "price :book", "bob, e-5") in reported
    assert ("redefined", "extend-type String Shape", "bob, e-6") in reported


def test_methods_defined_from_another_namespace_belong_to_the_namespace_of_the_multimethod(world):
    load_methods(world)
    world.log("(defmethod shop/price :book [x] 1)", space="user")
    assert world.compare() == []
    world.log("(defmethod shop/price :pen [x] 2)", who="bob", space="user")
    world.log("(require '[shop :as s])", space="user")
    world.log("(extend-type Long s/Shape (area [_] 2))", who="bob", space="user")
    assert sorted(world.compare()) == [
        ("gone", "extend-type Long Shape", "bob, e-6"), ("gone", "price :pen", "bob, e-4"),
    ]  # fmt: skip
    world.log("(ns mine (:require [shop :as s]))\n(remove-method s/price :book)", who="bob", space="user")
    assert ("redefined", "price :book", "bob, e-7") in world.compare()


def test_an_extended_protocol_is_not_reported_as_redefined(world):
    world.write(TEXT + "(defprotocol Shape (area [_]))\n")
    world.load()
    assert world.compare() == []
    rebind(world, "Shape", "(extend-type String Shape (area [_] 1))")
    assert world.compare() == [("gone", "extend-type String Shape", "ann, e-3")]
    world.load()
    assert world.compare() == [], "the new protocol is extended by nobody"


@pytest.mark.parametrize("kind", ["deleted", "unparsable"])
def test_a_deleted_or_unparsable_file_is_reported(world, kind):
    assert world.compare() == []
    mark = str(sorted(world.vars.values(), key=lambda var: var.name))
    loaded = LoadedCode(BEGAN_MS, frozenset({"shop"}), (LoadedNamespace("shop", mark, (FILE,), ()),), ())
    rows = world.drift.compare(loaded, {}, world.now_ms + 1000, {FILE: kind})
    assert [(row.module, row.name, row.kind) for row in rows] == [("shop", "shop.clj", kind)]
