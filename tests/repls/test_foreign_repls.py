"""A port file that leads to a REPL in another directory: used and reported, if the REPL can say where it runs."""

import contextlib

import pytest
from live_server import serving, until_connected
from real_repls import fresh, repl

from codriver.core import state as states
from codriver.core.profiles import Profile
from codriver.core.state import Lifecycle, Origin, Repl, State

NAMES = ("python", "lisp", "jvm", "basilisp", "hy", "nbb")
CODE = {"python": "1 + 1", "hy": "(+ 1 1)"}


@contextlib.contextmanager
def stray(name, folder):
    """Run a server on a workspace whose port file contains the port of a REPL that runs elsewhere."""
    found = repl(name)
    workspace = folder / "workspace"
    workspace.mkdir(parents=True)
    (workspace / ".nrepl-port").write_text(str(found.endpoint.port))
    with serving(folder, "--repl", "none") as live, live.client() as client:
        until_connected(client)
        yield live, client, found


def evaluate(client, name, **arguments):
    answer = client.call("evaluate_code", code=CODE.get(name, "(+ 1 1)"), timeoutMs=60_000, **arguments)
    assert answer["ok"], answer
    return answer


def strange(notes):
    return [note for note in notes if "neither in nor above this workspace" in note]


@pytest.mark.parametrize("name", NAMES)
def test_a_repl_of_another_directory_is_reported_in_the_list_the_log_and_the_first_answer(name, tmp_path):
    with stray(name, tmp_path) as (live, client, found):
        (row,) = client.call("list_sessions")["sessions"]
        assert row["projectRoot"] == str(found.folder.resolve())
        assert row["elsewhere"] is True
        (words,) = strange(row["notes"])
        assert f"runs in {found.folder.resolve()}," in words
        assert f"The port file {live.workspace / '.nrepl-port'}" in words
        assert f"--nrepl {found.endpoint}" in words
        logged = client.call("repl_output_log", category=["otherErrorOutput"])["result"]
        assert [line["text"] for line in logged if line["text"] == words] == [words]
        assert strange(evaluate(client, name)["notes"]) == [words]
        assert strange(evaluate(client, name)["notes"]) == []


def test_doctor_reports_a_foreign_repl_in_the_same_words_as_the_server(tmp_path):
    with stray("python", tmp_path) as (live, _, found):
        reported = f"{live.workspace / '.nrepl-port'} leads to a REPL in another project, {found.folder.resolve()}"
        assert reported in live.run("doctor").stdout


def test_each_caller_is_notified_once_of_a_foreign_repl(tmp_path):
    with stray("python", tmp_path) as (live, client, _), live.client() as other:
        first = evaluate(client, "python", who="ada")
        assert strange(first["notes"])
        assert strange(evaluate(client, "python", who="bob")["notes"])
        assert strange(evaluate(other, "python", who="ada")["notes"])
        assert not strange(evaluate(client, "python", who="ada")["notes"])
        assert strange(client.call("get_evaluation", evaluationId=first["evaluationId"])["notes"])


def test_a_repl_named_by_its_address_is_not_reported(tmp_path):
    found = repl("python")
    with serving(tmp_path, "--nrepl", str(found.endpoint), "--repl", "none") as live, live.client() as client:
        until_connected(client)
        (row,) = client.call("list_sessions")["sessions"]
        assert row["projectRoot"] == str(found.folder.resolve())
        assert not strange(row.get("notes", []))
        assert not strange(evaluate(client, "python")["notes"])


@pytest.mark.parametrize("where", [".", "..", "sub"])
def test_a_repl_in_or_above_the_workspace_is_not_reported(where, tmp_path):
    workspace = tmp_path / "home" / "workspace"
    (workspace / "sub").mkdir(parents=True)
    with fresh("python") as found:
        (workspace / ".nrepl-port").write_text(str(found.endpoint.port))
        named = serving(tmp_path / "home", "--nrepl", str(found.endpoint), "--repl", "none")
        with named as live, live.client() as client:
            until_connected(client)
            client.call("evaluate_code", code=f"import os; os.chdir({str((workspace / where).resolve())!r})")
        with serving(tmp_path / "home", "--repl", "none") as live, live.client() as client:
            until_connected(client)
            (row,) = client.call("list_sessions")["sessions"]
            assert row["projectRoot"] == str((workspace / where).resolve())
            assert row["kind"] == "port-file"
            assert "elsewhere" not in row
            assert "another project" not in live.run("doctor").stdout
            assert not strange(row.get("notes", []))
            assert not strange(evaluate(client, "python")["notes"])


@pytest.mark.parametrize(("root", "kind", "is_strange"), [
    ("/w/shop", "port-file", False), ("/w", "port-file", False), ("/w/shop/api", "port-file", False),
    ("/", "port-file", False), ("/w/shop/", "port-file", False), ("/w/shop2", "port-file", True),
    ("/elsewhere", "port-file", True), (None, "port-file", False), ("/elsewhere", "address", False),
    ("/elsewhere", "process", False),
])  # fmt: skip
def test_only_repls_found_by_port_file_can_be_foreign(root, kind, is_strange):
    state = State(lifecycle=Lifecycle(workspace="/w/shop"))
    found = Repl("r", "clj", Origin(kind, "/w/shop/.nrepl-port"), profile=Profile(project_root=root))
    assert bool(states.outside_workspace_warning(state, found)) is is_strange
