"""Files of tests for REPLs that report only a base name or nothing: found by namespace in the workspace."""

import pytest

from codriver.core.print_limits import PrintLimits
from codriver.repls.contract import test_run_values
from codriver.repls.nrepl.replies import MAX_SEARCHED_CHARACTERS, describe_cuts
from codriver.repls.nrepl.test_runner import with_file_paths


def located_file(workspace, message, namespace="shop.orders-test"):
    result = test_run_values.TestResult(test="t", namespace=namespace, outcome="fail", file=message, line=3)
    return with_file_paths(test_run_values.TestRun(1, 0, 1, 0, (result,), ""), workspace).results[0].file


@pytest.fixture
def workspace(tmp_path):
    for name in ("test/shop/orders_test.cljs", "src/shop/core.clj", "shop/root.cljc"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path


@pytest.mark.parametrize("message", [None, "orders_test.cljs", "shop/orders_test.cljs"])
def test_the_file_of_a_namespace_is_found_in_the_usual_directories(workspace, message):
    assert located_file(workspace, message) == str(workspace / "test/shop/orders_test.cljs")
    assert located_file(workspace, None, "shop.core") == str(workspace / "src/shop/core.clj")
    assert located_file(workspace, None, "shop.root") == str(workspace / "shop/root.cljc")


@pytest.mark.parametrize(
    "message", ["/elsewhere/orders_test.cljs", "jar:file:/a.jar!/shop/orders_test.cljs", "checks.cljs"]
)
def test_a_reported_path_is_kept_unless_it_is_only_the_file_name(workspace, message):
    assert located_file(workspace, message) == message


def test_a_file_that_does_not_exist_is_reported_as_unknown(workspace):
    assert located_file(workspace, None, "no.such") is None
    assert located_file(None, "orders_test.cljs") == "orders_test.cljs"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[0 1 2 ...]", "more than 3"),
        ("{:a [#]}", "levels below 2"),
        ('["a ...)" " # "]', ""),
        ("#{1 2}", ""),
        ("[#object[a] #'b]", ""),
        ("[" + "0 " * MAX_SEARCHED_CHARACTERS + "...]", "more than 3"),
        ("[[0 1 2 ...] " + "0 " * MAX_SEARCHED_CHARACTERS + "]", "more than 3"),
        ('"' + "a ...) # " * MAX_SEARCHED_CHARACTERS + '"', ""),
        ('["' + r"a \" ...) # " * MAX_SEARCHED_CHARACTERS + '" ...]', "more than 3"),
        ("[" * MAX_SEARCHED_CHARACTERS + "#]", "levels below 2"),
    ],
)
def test_ellipses_printed_by_lisp_print_limits_are_found_outside_strings(text, words):
    assert describe_cuts(text, PrintLimits(3, 2)) == words
