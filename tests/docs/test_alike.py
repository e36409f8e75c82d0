"""Tests that represent similar ones: of each family one runs, and every member runs in something."""

from types import SimpleNamespace

import pytest
from alike import CLIENTS, REPLS, is_whole, omitted_tests, rounds


class Item:
    """A test as pytest represents it, with the attributes used here."""

    def __init__(self, path, function, value):
        self.path, self.function, self.name = path, function, f"{function}[{value}]"
        self.callspec = SimpleNamespace(params={"name": value})


def chosen(path, functions, family):
    items = [Item(path, function, value) for function in functions for value in family]
    out = omitted_tests(items, lambda item: item.path)
    return [item for item in items if item not in out]


@pytest.mark.parametrize("family", REPLS)
def test_each_contract_test_runs_with_one_repl_and_each_repl_is_used_by_some_test(family):
    functions = [f"test_{number}" for number in range(30)]
    kept = chosen("repls/test_adapter_values.py", functions, family)
    assert [item.function for item in kept] == functions
    assert {item.callspec.params["name"] for item in kept} == set(family)


def test_tests_outside_the_contract_files_all_run_with_the_same_repl():
    kept = chosen("tools/test_found_tests.py", ["test_a", "test_b", "test_c"], ("lisp", "basilisp"))
    assert len({item.callspec.params["name"] for item in kept}) == 1
    assert len(kept) == 3


def test_tests_of_a_repl_without_similar_ones_are_never_skipped():
    assert len(chosen("repls/test_adapter_values.py", ["test_a"], ("nbb", "hy", "python"))) == 3
    assert len(chosen("setup/test_clients.py", ["test_a"], CLIENTS[0])) == len(CLIENTS[0])
    assert len(chosen("repls/test_adapter_values.py", ["test_a"], ("jvm",))) == 1


def test_no_case_is_skipped_if_all_are_requested_or_tests_are_named_explicitly(monkeypatch):
    def config(*args, keyword=""):
        return SimpleNamespace(args=args, option=SimpleNamespace(keyword=keyword))

    monkeypatch.delenv("CODRIVER_TESTS", raising=False)
    assert not is_whole(config("tests"))
    assert is_whole(config("tests/repls/test_adapter_values.py::test_an_evaluation_returns_its_value"))
    assert is_whole(config("tests", keyword="leiningen"))
    monkeypatch.setenv("CODRIVER_TESTS", "all")
    assert is_whole(config("tests"))


def test_a_randomized_test_runs_fewer_rounds_unless_all_are_requested(monkeypatch):
    monkeypatch.delenv("CODRIVER_TESTS", raising=False)
    assert rounds(100, 40) == 40
    monkeypatch.setenv("CODRIVER_TESTS", "all")
    assert rounds(100, 40) == 100
