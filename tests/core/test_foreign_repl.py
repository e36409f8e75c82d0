"""A REPL of another project: told of where a port file led to it, and to each caller once."""

from dataclasses import replace
from types import MappingProxyType

import pytest

from codriver.core.caller_names import is_first_evaluation
from codriver.core.state import Lifecycle, Origin, Repl, State, stray
from codriver.core.values import Evaluation, Profile

WORKSPACE = State(lifecycle=Lifecycle(workspace="/home/me/shop"))


def found(root, kind="port-file"):
    return Repl("r1", "clj", Origin(kind, "/home/me/shop/.nrepl-port"), profile=Profile(project_root=root))


@pytest.mark.parametrize("root", ["/home/me/shop", "/home/me/shop/api", "/home/me", "/", None, ""])
def test_a_repl_in_the_workspace_above_it_or_of_an_unknown_place_is_at_home(root):
    assert stray(WORKSPACE, found(root)) is None


@pytest.mark.parametrize("root", ["/home/me/shop2", "/home/you", "/tmp/x"])
def test_a_repl_elsewhere_is_told_of_with_both_places(root):
    words = stray(WORKSPACE, found(root))
    assert root in words
    assert "/home/me/shop/.nrepl-port" in words


def test_a_repl_that_is_named_or_started_by_us_or_not_connected_is_never_suspected():
    assert stray(WORKSPACE, found("/tmp/x", kind="address")) is None
    assert stray(WORKSPACE, found("/tmp/x", kind="process")) is None
    assert stray(WORKSPACE, replace(found("/tmp/x"), profile=None)) is None
    assert stray(State(), found("/tmp/x")) is None


def test_only_the_first_evaluation_of_a_caller_in_a_connection_is_the_first():
    def evaluation(number, who="ann", generation=1):
        return Evaluation(f"e{number}", number, "r1", "main", who, "c1", None, "(code)", "done", generation=generation)

    all_of_them = [evaluation(1), evaluation(2, who="bob"), evaluation(3), evaluation(4, generation=2)]
    state = State(evaluations=MappingProxyType({one.id: one for one in all_of_them}))
    assert [is_first_evaluation(state, one) for one in all_of_them] == [True, True, False, True]
