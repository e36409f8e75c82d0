"""The files of tests, where a REPL tells a base name or nothing: those of their namespaces in the workspace."""

import pytest

from codriver.core.values import PrintLimits
from codriver.repls.contract import adapter_values as values
from codriver.repls.nrepl.responses import cut_in
from codriver.repls.nrepl.test_runner import located


def place(workspace, told, namespace="shop.orders-test"):
    result = values.TestResult(test="t", namespace=namespace, outcome="fail", file=told, line=3)
    return located(values.TestRun(1, 0, 1, 0, (result,), ""), workspace).results[0].file


@pytest.fixture
def workspace(tmp_path):
    for name in ("test/shop/orders_test.cljs", "src/shop/core.clj", "shop/root.cljc"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path


@pytest.mark.parametrize("told", [None, "orders_test.cljs", "shop/orders_test.cljs"])
def test_a_namespaces_file_is_found_where_projects_keep_it(workspace, told):
    assert place(workspace, told) == str(workspace / "test/shop/orders_test.cljs")
    assert place(workspace, None, "shop.core") == str(workspace / "src/shop/core.clj")
    assert place(workspace, None, "shop.root") == str(workspace / "shop/root.cljc")


@pytest.mark.parametrize(
    "told", ["/elsewhere/orders_test.cljs", "jar:file:/a.jar!/shop/orders_test.cljs", "checks.cljs"]
)
def test_what_a_repl_tells_is_kept_unless_it_is_that_files_name(workspace, told):
    assert place(workspace, told) == told


def test_what_is_not_there_stays_unknown(workspace):
    assert place(workspace, None, "no.such") is None
    assert place(None, "orders_test.cljs") == "orders_test.cljs"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[0 1 2 ...]", "more than 3"),
        ("{:a [#]}", "levels below 2"),
        ('["a ...)" " # "]', ""),
        ("#{1 2}", ""),
        ("[#object[a] #'b]", ""),
    ],
)
def test_what_a_lisp_cut_is_seen_by_its_marks_outside_of_strings(text, words):
    assert cut_in(text, PrintLimits(3, 2)) == words
