"""A failed test in a Lisp includes the function that raised, or that the check called."""

import pytest
from live_server import serving
from real_repls import need

CORE = """\
(ns shop.core)

(defn net [order]
  (- (:amount order) (:discount order)))

(defn total
  "Return the sum of orders."
  [orders]
  (reduce + (map net orders)))
"""
HEAD = """\
(ns shop.{0}-test
  (:require [clojure.test :refer [deftest is]]
            [shop.core :as core]))

"""
RAISED = "(deftest raised\n  (is (= 13 (core/total [{:amount 10}]))))\n"
WRONG = "(deftest wrong\n  (is (= 13 (core/total [{:amount 10 :discount 1}]))))\n"


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    need("jvm")
    folder = tmp_path_factory.mktemp("sources")
    workspace = folder / "workspace"
    for name, text in (
        ("deps.edn", '{:paths ["src" "test"]}'),
        ("src/shop/core.clj", CORE),
        ("test/shop/raised_test.clj", HEAD.format("raised") + RAISED),
        ("test/shop/wrong_test.clj", HEAD.format("wrong") + WRONG),
    ):  # fmt: skip
        (workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace / name).write_text(text)
    with serving(folder, "--repl", "clojure") as running:
        yield running


@pytest.mark.parametrize("detail", [True, False])
def test_an_error_includes_the_function_that_raised_it(client, detail):
    answer = client.call("run_tests", paths=["test/shop/raised_test.clj"], timeoutMs=120_000, detail=detail)
    assert answer["results"][0]["source"].splitlines() == [
        "src/shop/core.clj:3 in shop.core/net",
        " 3 (defn net [order]",
        " 4   (- (:amount order) (:discount order)))",
    ]


def test_a_failed_check_includes_the_source_of_the_function_it_called(client):
    answer = client.call("run_tests", paths=["test/shop/wrong_test.clj"], timeoutMs=120_000)
    assert answer["results"][0]["source"].startswith("src/shop/core.clj:6 in core/total\n 6 (defn total\n")
