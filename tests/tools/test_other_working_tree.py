"""A port file that leads to the REPL of another working tree: refused unless the agent names it."""

from types import SimpleNamespace

import pytest
from linked_tree import git
from live_server import serving, until_connected
from real_repls import fresh
from refusals import refused_as

from codriver.core.profiles import Profile
from codriver.core.state import Lifecycle, Origin, Repl, State, outside_workspace_warning
from codriver.tools.calls.session_choice import Target, check_working_tree, find_serving_repl, resolve_session

WORKSPACE = State(lifecycle=Lifecycle(workspace="/w/main/trees/b"))


def discovered_repl(kind="port-file", key="py", tree="/w/main"):
    profile = Profile(dialect="python", project_root="/w/main", other_tree=tree)
    return Repl(f"file:{key}", key, Origin(kind, "/w/main/trees/b/.nrepl-port"), phase="connected", profile=profile)


def call_with(repl):
    return SimpleNamespace(client="c1", state=SimpleNamespace(evaluations={}, repls={repl.id: repl}))


@pytest.mark.parametrize(
    "repl", [discovered_repl(kind="address"), discovered_repl(kind="process"), discovered_repl(tree=None)]
)
def test_a_repl_that_was_named_or_has_no_comparable_path_is_not_refused(repl):
    check_working_tree(call_with(repl), Target(repl, repl.sessions["main"]), "ann", None)
    assert outside_workspace_warning(WORKSPACE, repl) is None


def test_a_refusal_names_the_working_tree_the_argument_and_the_port_file():
    repl = discovered_repl()
    with refused_as("other-worktree") as refused:
        check_working_tree(call_with(repl), Target(repl, repl.sessions["main"]), "ann", None)
    assert "runs in the working tree /w/main. This workspace is in another working tree" in refused.value.message
    assert "pass replSessionKey py." in refused.value.hint
    assert "/w/main/trees/b/.nrepl-port" in refused.value.hint


def test_a_repl_running_above_the_workspace_is_still_reported():
    assert "in the working tree /w/main, so it loads code from there" in outside_workspace_warning(
        WORKSPACE, discovered_repl()
    )


def test_a_repl_of_another_tree_does_not_serve_local_files(tmp_path):
    assert find_serving_repl(tmp_path / "a.py", [discovered_repl()], tmp_path) == "py runs in another working tree"
    own = discovered_repl(key="own", tree=None)
    assert find_serving_repl(tmp_path / "a.py", [discovered_repl(), own], tmp_path) is own


def test_an_ambiguous_session_error_marks_repls_of_other_trees():
    repls = {repl.id: repl for repl in (discovered_repl(), discovered_repl(key="own", tree=None))}
    with refused_as("ambiguous-session") as refused:
        resolve_session(State(repls=repls), None)
    assert refused.value.hint.endswith(": py (in another working tree), own.")


@pytest.mark.slow
def test_an_agent_must_name_the_repl_of_another_tree_to_use_it(tmp_path):
    with fresh("python") as repl:
        git("init", str(repl.folder))
        git("-C", str(repl.folder), "commit", "--allow-empty", "-m", "first")
        git("-C", str(repl.folder), "worktree", "add", str(tmp_path / "workspace"))
        (tmp_path / "workspace" / ".nrepl-port").write_text(str(repl.endpoint.port))
        (tmp_path / "workspace" / "low.py").write_text("mark = 1\n")
        with serving(tmp_path, "--repl", "none") as live, live.client() as client:
            until_connected(client)
            requested = {"evaluate_code": {"code": "1"}, "load_file": {"filePath": "low.py"}, "run_tests": {}}
            for tool, arguments in requested.items():
                refused = client.call(tool, **arguments)
                assert (refused["ok"], refused["reason"], refused["sessionKey"]) == (False, "other-worktree", "py")
                assert str(repl.folder.resolve()) in refused["message"]
            assert client.call("server_health")["evaluations"]["accepted"] == 0
            assert client.call("list_sessions")["sessions"][0]["elsewhere"] is True
            meant = client.call("evaluate_code", code="1", replSessionKey="py", who="one")
            assert meant["ok"]
            assert [note for note in meant["notes"] if "another working tree of the same repository" in note]
            assert client.call("evaluate_code", code="2", who="one")["ok"]
            assert client.call("evaluate_code", code="3", who="other")["reason"] == "other-worktree"
            by_hand = live.run("eval", "1 + 1")
            assert by_hand.returncode == 1
            assert "to use that REPL anyway, pass --session py. Otherwise, start a REPL in this" in by_hand.stderr
            assert live.run("eval", "--session", "py", "1 + 1").stdout == "2\n"
