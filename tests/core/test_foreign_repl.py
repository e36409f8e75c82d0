"""A REPL of another project, to which a port file led: reported to each caller once."""

from dataclasses import replace
from types import MappingProxyType

import pytest

from codriver.core.caller_names import is_first_evaluation
from codriver.core.evaluations import Evaluation
from codriver.core.profiles import Profile
from codriver.core.state import Lifecycle, Origin, Repl, State, outside_workspace_warning

WORKSPACE = State(lifecycle=Lifecycle(workspace="/home/me/shop"))


def discovered_repl(root, kind="port-file"):
    return Repl("r1", "clj", Origin(kind, "/home/me/shop/.nrepl-port"), profile=Profile(project_root=root))


@pytest.mark.parametrize("root", ["/home/me/shop", "/home/me/shop/api", "/home/me", "/", None, ""])
def test_a_repl_in_or_above_the_workspace_is_not_foreign(root):
    assert outside_workspace_warning(WORKSPACE, discovered_repl(root)) is None


@pytest.mark.parametrize("root", ["/home/me/shop2", "/home/you", "/tmp/x"])
def test_a_foreign_repl_is_reported_with_both_directories(root):
    words = outside_workspace_warning(WORKSPACE, discovered_repl(root))
    assert root in words
    assert "/home/me/shop/.nrepl-port" in words


def test_a_repl_that_was_named_started_or_disconnected_never_counts_as_foreign():
    assert outside_workspace_warning(WORKSPACE, discovered_repl("/tmp/x", kind="address")) is None
    assert outside_workspace_warning(WORKSPACE, discovered_repl("/tmp/x", kind="process")) is None
    assert outside_workspace_warning(WORKSPACE, replace(discovered_repl("/tmp/x"), profile=None)) is None
    assert outside_workspace_warning(State(), discovered_repl("/tmp/x")) is None


def test_only_the_first_evaluation_of_each_caller_in_a_repl_connection_counts_as_first():
    def evaluation(number, who="ann", generation=1):
        return Evaluation(f"e{number}", number, "r1", "main", who, "c1", None, "(code)", "done", generation=generation)

    all_of_them = [evaluation(1), evaluation(2, who="bob"), evaluation(3), evaluation(4, generation=2)]
    state = State(evaluations=MappingProxyType({item.id: item for item in all_of_them}))
    assert [is_first_evaluation(state, item) for item in all_of_them] == [True, True, False, True]
