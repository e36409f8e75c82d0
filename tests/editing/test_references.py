"""Where a name is used in the files of a workspace: by scope in Lisp, by the parser in Python."""

from unittest.mock import patch

import posix_only
import pytest

from codriver.editing import references
from codriver.editing.references import SearchTarget, find_references


def write(folder, **files):
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_DOT_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def places(folder, name, space=None, *, endings=(".py",), is_space=False):
    found = find_references(folder, SearchTarget(name, space, is_space), endings)
    assert not found.skipped
    return [(one.file, one.line, one.text) for one in found.uses]


PYTHON = {
    "src__shop__orders_DOT_py": "def total(order):\n    return 1\n\n\ndef twice(order):\n    return total(order) * 2\n",
    "src__shop__api_DOT_py": "from .orders import total as sum_of, twice\n\nx = sum_of({})\n\ndef total(): ...\n",
    "src__shop__main_DOT_py": "import shop.orders\nfrom shop import orders as o\nshop.orders.total(1); o.total(2)\n",
    "src__shop__other_DOT_py": "total = 3\nprint(total, total.total)\n",
    "src__shop__local_DOT_py": "from shop.orders import *\ndef f(total):\n    return total\nprint(total)\n",
}


def test_a_python_name_is_found_where_its_module_is_meant(tmp_path):
    write(tmp_path, **PYTHON)
    assert places(tmp_path, "total", "shop.orders") == [
        ("src/shop/api.py", 1, "from .orders import total as sum_of, twice"),
        ("src/shop/api.py", 3, "x = sum_of({})"),
        ("src/shop/local.py", 4, "print(total)"),
        ("src/shop/main.py", 3, "shop.orders.total(1); o.total(2)"),
        ("src/shop/orders.py", 1, "def total(order):"),
        ("src/shop/orders.py", 6, "return total(order) * 2"),
    ]


def test_a_python_module_is_found_where_it_is_imported(tmp_path):
    write(tmp_path, **PYTHON)
    found = places(tmp_path, "shop.orders", is_space=True)
    assert [(file, line) for file, line, _ in found] == [
        ("src/shop/api.py", 1), ("src/shop/local.py", 1), ("src/shop/main.py", 1), ("src/shop/main.py", 2),
    ]  # fmt: skip


def test_a_method_name_is_found_everywhere(tmp_path):
    write(tmp_path, a_DOT_py="class A:\n    def area(self): ...\n\nA().area()\n'area'  # area\n")
    assert [line for _, line, _ in places(tmp_path, "area")] == [2, 4]


CLOJURE = {
    "src__shop__orders_DOT_clj": "(ns shop.orders)\n(defn total [order] 1)\n"
    "(defn f [total] total)\n(defn g [] (total 1))\n",
    "src__shop__api_DOT_cljc": (
        "(ns shop.api\n  (:require [shop.orders :as o]))\n(defn total [] 2)\n(o/total 1)\n"
        '(shop.orders/total 2) ; o/total\n"o/total"\n'
    ),
    "src__shop__main_DOT_clj": "(ns shop.main\n  (:require [shop.orders :refer [total]]))\n"
    "(let [x (total 1) total 2] total)\n",
    "src__shop__used_DOT_clj": "(ns shop.used (:use shop.orders))\n(total 1)\n",
    "src__shop__else_DOT_clj": "(ns shop.else)\n(def total 1)\ntotal\n",
}


def test_a_lisp_name_is_found_by_namespace_alias_and_scope(tmp_path):
    write(tmp_path, **CLOJURE)
    found = places(tmp_path, "total", "shop.orders", endings=(".clj", ".cljc"))
    assert [(file.rpartition("/")[2], line) for file, line, _ in found] == [
        ("api.cljc", 4), ("api.cljc", 5), ("main.clj", 2), ("main.clj", 3), ("orders.clj", 2), ("orders.clj", 4),
        ("used.clj", 2),
    ]  # fmt: skip
    assert found[0][2] == "(o/total 1)"


def test_a_lisp_namespace_and_a_keyword_are_found_as_written(tmp_path):
    write(tmp_path, **CLOJURE, k_DOT_clj="(ns k)\n{:shop/id 1}\n(:id {:shop/id 2})\n")
    found = places(tmp_path, "shop.orders", is_space=True, endings=(".clj",))
    assert [file.rpartition("/")[2] for file, *_ in found] == ["main.clj", "orders.clj", "used.clj"]
    assert [line for _, line, _ in places(tmp_path, ":shop/id", endings=(".clj",))] == [2, 3]


def test_a_hy_name_is_found_in_both_spellings(tmp_path):
    write(tmp_path, a_DOT_hy="(defn area-of [w] w)\n(print (area-of 1))\n(area_of 2)\n")
    assert [line for _, line, _ in places(tmp_path, "area_of", endings=(".hy",))] == [1, 2, 3]


def test_fifty_places_are_listed_and_the_rest_counted(tmp_path):
    write(tmp_path, a_DOT_py="x = 1\n" * 70)
    found = find_references(tmp_path, SearchTarget("x"), (".py",))
    assert (len(found.uses), found.omitted) == (50, 20)


def test_files_that_cannot_be_searched_are_counted(tmp_path):
    write(tmp_path, bad_DOT_py="x = (\n", long_DOT_py="x\n" * 200_000, good_DOT_py="x\n", bad_DOT_clj="(x\n")
    (tmp_path / "binary.py").write_bytes(b"x\xff\xfe")
    found = find_references(tmp_path, SearchTarget("x"), (".py",))
    assert ([one.file for one in found.uses], found.skipped) == (["good.py"], 3)
    assert find_references(tmp_path, SearchTarget("x"), (".clj",)).skipped == 1


def test_links_out_of_the_workspace_are_not_followed(tmp_path):
    write(tmp_path, out__secret_DOT_py="x\n", work__good_DOT_py="x\n")
    (tmp_path / "work" / "link.py").symlink_to(tmp_path / "out" / "secret.py")
    posix_only.make_pipe(tmp_path / "work" / "pipe.py")
    found = find_references(tmp_path / "work", SearchTarget("x"), (".py",))
    assert ([one.file for one in found.uses], found.skipped) == (["good.py"], 2)


@pytest.mark.parametrize("limit", ["MAX_S", "MAX_BYTES"])
def test_the_search_stops_at_its_time_or_size_limit_and_counts_the_rest(tmp_path, limit):
    write(tmp_path, a_DOT_py="x\n", b_DOT_py="x\n")
    with patch.object(references, limit, 0):
        assert find_references(tmp_path, SearchTarget("x"), (".py",)).skipped == 2
