"""The tests of changed files, by the names of files and namespaces."""

import pytest

from codriver.editing.import_graph import ImportGraph
from codriver.tools.execution.affected_tests import _find_related_tests, targets_for_files


@pytest.mark.parametrize(
    ("changed", "files", "names"),
    [
        ("src/price.py", ["tests/test_price.py", "src/price_test.py", "tests/test_prices.py"], None),
        ("tests/test_price.py", [], ["tests/test_price.py"]),
        ("shop/__init__.py", ["tests/test_shop.py", "tests/test___init__.py"], ["tests/test_shop.py"]),
        (
            "packages/core/src/acme_core/__init__.py",
            ["packages/core/tests/test_core.py", "packages/shop/tests/test_core.py", "tests/test_acme_core.py"],
            ["packages/core/tests/test_core.py", "tests/test_acme_core.py"],
        ),
        (
            "packages/core/acme_core/__init__.py",
            ["packages/core/pyproject.toml", "packages/core/tests/core_test.py", "tests/test_core.py"],
            ["packages/core/tests/core_test.py"],
        ),
        ("packages/my-shop/src/acme/__init__.py", ["packages/my-shop/tests/test_my_shop.py"], None),
        ("src/acme/deep/__init__.py", ["tests/test_src.py", "tests/test_acme.py"], []),
        ("src/shop/core.hy", ["tests/test_core.hy", "tests/core_test.hy", "tests/test_core.lpy"], None),
        ("src/shop/__init__.hy", ["tests/test_shop.hy"], None),
        ("tests/test_core.hy", [], ["tests/test_core.hy"]),
    ],
)
def test_tests_are_named_after_the_file_or_its_package(tmp_path, changed, files, names):
    for file in (changed, *files):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text("")
    found = [name for _, name in targets_for_files(tmp_path, [tmp_path / changed])]
    expected = [file for file in files[:2] if file.endswith(changed[-3:])] if names is None else names
    assert sorted(found) == sorted(expected)


@pytest.mark.parametrize(
    ("changed", "files", "names"),
    [
        (("src/shop/core.clj", "shop.core"), {"tests/test_core.clj": "test-core"}, ["shop.core", "shop.core-test"]),
        (("src/shop/core.lpy", "shop.core"), {}, ["shop.core", "shop.core-test"]),
        (
            ("src/shop/core.lpy", "shop.core"),
            {"tests/test_core.lpy": "tests.test-core"},
            ["shop.core", "shop.core-test", "tests/test_core.lpy"],
        ),
        (
            ("src/shop/core.lpy", "shop.core"),
            {"src/shop/core_test.lpy": "shop.core-test"},
            ["shop.core", "src/shop/core_test.lpy"],
        ),
        (("tests/test_core.lpy", "tests.test-core"), {}, ["tests/test_core.lpy"]),
        (("tests/core_test.clj", "shop.core-test"), {}, ["shop.core-test"]),
    ],
)
def test_lisp_tests_are_named_after_the_namespace_or_the_file(tmp_path, changed, files, names):
    for file, namespace in (changed, *files.items()):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(f"(ns {namespace})\n\n(deftest one (is true))\n")
    assert [name for _, name in targets_for_files(tmp_path, [tmp_path / changed[0]])] == names


def test_an_unrecognized_lisp_test_file_runs_by_its_namespace(tmp_path):
    file = tmp_path / "test_core.lpy"
    file.write_text("(ns tests.test-core (:require [basilisp.test :as t]))\n\n(t/deftest one (t/is true))\n")
    assert targets_for_files(tmp_path, [file]) == ((file, "tests.test-core"),)


@pytest.mark.parametrize(("source", "test"), [("cljc", "clj"), ("clj", "cljc"), ("clj", "clj")])
def test_tests_that_require_a_changed_namespace_are_found_in_all_file_types(tmp_path, source, test):
    changed, file = tmp_path / f"src/b/core.{source}", tmp_path / f"test/b/more_test.{test}"
    named = tmp_path / f"test/b/core_test.{test}"
    for path, text in (
        (changed, "(ns b.core)\n"),
        (file, "(ns b.more-test (:require [b.core :as core]))\n(deftest one (is true))\n"),
        (named, "(ns b.core-test (:require [b.core :as core]))\n(deftest two (is true))\n"),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    found = _find_related_tests(ImportGraph(), tmp_path, [changed])
    assert found.requires
    assert {name for _, name in found.lisp} >= {"b.more-test", "b.core-test"}
