"""The names that a piece of code defines and uses, depending on its language."""

import pytest

from codriver.editing.code_names import (
    find_definitions,
    import_statements,
    line_diff,
    possible_names,
    short_difference,
    uses_name,
)

PRICE = ("shop.core", "price")


def names(code, language, space="user"):
    return [(definition.space, definition.name) for definition in find_definitions(code, language, space)]


@pytest.mark.parametrize(
    ("code", "made"),
    [
        ("(def a 1) (defn ^:private b [] 2)", [("user", "a"), ("user", "b")]),
        ("(ns shop.core) (def price 43)", [("shop.core", "price")]),
        ("(do (def a 1) (def b 2)) (println 1)", [("user", "a"), ("user", "b")]),
        ("(let [a 1] a) ; (def b 2)", []),
        ("(in-ns (quote shop.core)) (def price 43)", [("shop.core", "price")]),
        ("(in-ns (symbol name)) (def price 43)", []),
    ],
)
def test_names_defined_by_lisp_forms_are_found(code, made):
    assert names(code, "lisp") == made


@pytest.mark.parametrize(
    ("code", "made"),
    [
        ("x = 1\ny: int = 2", ["x", "y"]),
        ("def f(): pass\nclass C: pass\nasync def g(): pass", ["f", "C", "g"]),
        ("a, (b, *c) = 1, (2, 3)", ["a", "b", "c"]),
        ("def f():\n    inner = 1\nx += 1\nf().y = 2", ["f"]),
        ("def f(:", []),
    ],
)
def test_names_bound_by_python_statements_are_found(code, made):
    assert [name for _, name in names(code, "python", "__main__")] == made


def test_an_assigned_attribute_is_a_name_of_its_owner():
    assert names("shop.core.price = x.y = 2", "python", "__main__") == [("shop.core", "price"), ("x", "y")]


@pytest.mark.parametrize(
    ("item", "other", "language"),
    [
        ("(defn f [x]  x)", "(defn f [x] ; the same\n  x)", "lisp"),
        ("def f(x): return x", "def f(x):\n    # the same\n    return x", "python"),
    ],
)
def test_layout_and_comments_do_not_make_a_form_different(item, other, language):
    (first,), (second,) = find_definitions(item, language, "user"), find_definitions(other, language, "user")
    assert first.form == second.form


@pytest.mark.parametrize(
    ("code", "space", "known", "used"),
    [
        ("(inc price)", "shop.core", "", True),
        ("(inc shop.core/price)", "user", "", True),
        ("(inc price)", "user", "", False),
        ("(c/price)", "user", "(ns user (:require [shop.core :as c]))", True),
        ("(price)", "user", "(ns user (:require [shop.core :refer [price]]))", True),
        ("(require '[shop.core :as c]) (c/price)", "user", "", True),
        ("(c/price)", "user", "", False),
        ("(in-ns 'shop.core) (inc price)", "user", "", True),
        ("(in-ns (quote shop.core)) (inc price)", "user", "", True),
        ("(let [price 1] price)", "shop.core", "", False),
        ("(fn [{:keys [price]}] price)", "shop.core", "", False),
        ('[:price \'price "price"]', "shop.core", "", False),
    ],
)
def test_lisp_uses_of_a_name_by_namespace_alias_or_refer_are_found(code, space, known, used):
    assert uses_name(code, "lisp", space, PRICE, known=known) is used


@pytest.mark.parametrize(
    ("code", "space", "known", "used"),
    [
        ("price + 1", "shop.core", "", True),
        ("price + 1", "__main__", "", False),
        ("price + 1", "__main__", "from shop.core import price", True),
        ("import shop.core as c\nc.price", "__main__", "", True),
        ("import shop.core\nshop.core.price()", "__main__", "", True),
        ("from other import price as p\np", "__main__", "", False),
        ("def f(price): return price", "shop.core", "", False),
        ("def f(): return price", "shop.core", "", True),
        ("order.price", "shop.core", "", False),
        ("price = 3", "shop.core", "", False),
        ("'price'", "shop.core", "", False),
    ],
)
def test_python_uses_of_a_name_by_module_or_import_are_found(code, space, known, used):
    assert uses_name(code, "python", space, PRICE, known=known) is used


def test_a_module_is_identified_by_its_path_in_the_workspace():
    assert uses_name("from shop.core import price\nprice", "python", "__main__", ("src.shop.core", "price"))


@pytest.mark.parametrize("language", ["lisp", "hy", "python"])
@pytest.mark.parametrize("code", ["(", ")", '"', "\0", "(" * 5000, "def f(:", "x" * 1000 + "("])
def test_unparsable_code_defines_and_uses_nothing(code, language):
    assert not uses_name(code, language, "user", ("user", "nothing"))
    assert import_statements(code, language) == ""
    assert isinstance(find_definitions(code, language, "user"), tuple)
    assert isinstance(possible_names(code, language), set)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("(def price 43)", "(def price 100)", "43 → 100"),
        ("def f(x):\n    return x + 1", "def f(x):\n    return x * 2", "+ 1 → * 2"),
        ("(def price 43)", "(def price 43)", ""),
        ("(def a 1)", f"(def a {list(range(40))})", ""),
    ],
)
def test_a_small_difference_is_described_briefly(before, after, message):
    assert short_difference(before, after) == message


def test_a_difference_is_described_by_its_lines():
    assert line_diff("(defn f []\n  1)", "(defn f []\n  2)") == "-  1)\n+  2)"
