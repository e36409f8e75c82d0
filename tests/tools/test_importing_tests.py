"""An edit waits for all test files that import what it changed, however unlikely it is that the edit breaks them."""

import pytest

pytestmark = pytest.mark.served("python")

PRICE = "def half(n):\n    return n // 2\n\n\ndef label(n):\n    return str(n)\n"
NEAR = "import price\n\n\ndef test_half():\n    assert price.half(4) == 2\n"
FAR = (
    "import price\n\n\ndef test_label():\n    assert price.label(2) == '2'\n\n\n"
    "def test_other():\n    assert price.half(1) == 1\n"
)


@pytest.fixture
def workspace(client, live):
    """Return the workspace, in which only the tests named after the module have run."""
    for name, text in (("price", PRICE), ("test_price", NEAR), ("test_far", FAR)):
        (live.workspace / f"{name}.py").write_text(text)
    assert client.call("run_tests", paths=["test_price.py"], timeoutMs=60_000)["ok"]
    return live.workspace


def edit(client, **arguments):
    change = {"filePath": "price.py", "oldText": "return str(n)", "newText": "return repr(n) + '.'"}
    return client.call("edit_files", edits=[change], test=["affected"], limitMs=50_000, **arguments)


def test_an_edit_is_reverted_if_it_breaks_a_test_that_had_never_run(client, workspace):
    answer = edit(client, load=True, onFailure="restore")
    assert (answer["ok"], "restored" in answer, answer["tests"]["passed"]) == (False, True, 1), answer
    assert (workspace / "price.py").read_text() == PRICE


def test_an_edit_without_the_restore_option_is_kept_and_reports_the_broken_test(client, workspace):
    answer = edit(client)
    assert (answer["ok"], answer["reason"]) == (False, "tests-failed"), answer
    assert "test_far.py::test_label" in str(answer["results"])
    assert "repr(n)" in (workspace / "price.py").read_text()


def test_a_module_without_a_test_file_of_its_name_is_tested_by_tests_that_import_it(client, workspace):
    (workspace / "lone.py").write_text("def lone():\n    return 1\n")
    (workspace / "test_alone.py").write_text("import lone\n\n\ndef test_lone():\n    assert lone.lone() == 1\n")
    change = {"filePath": "lone.py", "oldText": "return 1", "newText": "return 2"}
    answer = client.call("edit_files", edits=[change], test=["affected"], onFailure="restore")
    assert (answer["ok"], "restored" in answer) == (False, True), answer
