"""Kernels started by a person and discovered by a server: used only by callers that name them, and left running."""

import json
import socket
from pathlib import Path

import pytest
import real_kernels
from jupyter_servers import TOKEN, jupyter_server
from live_server import serving, until
from real_kernels import all_connected, rows, variables

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def open_notebook(tmp_path_factory):
    """Run a server in a workspace in which a person has a notebook open, in their own Jupyter Server."""
    real_kernels.need("ipykernel")
    directory = tmp_path_factory.mktemp("found")
    workspace = directory / "workspace"
    workspace.mkdir()
    (workspace / "main.py").touch()
    with jupyter_server(workspace) as jupyter, variables(JUPYTER_RUNTIME_DIR=jupyter.runtime):
        session_model = {"path": "a.ipynb", "name": "a", "type": "notebook", "kernel": {"name": "python3"}}
        status, session = jupyter.call("POST", "/api/sessions", session_model)
        assert status == 201
        with serving(directory) as live, live.client() as client:
            until(lambda: all_connected(client, ["py", "a-ipynb"]), "both REPLs")
            yield jupyter, session, client


def test_a_discovered_notebook_kernel_is_used_only_by_callers_that_name_it(open_notebook):
    jupyter, session, client = open_notebook
    row = rows(client)["a-ipynb"]
    file = jupyter.runtime / f"kernel-{session['kernel']['id']}.json"
    assert (row["kind"], row["origin"], row["notebook"], row["dialect"]) == ("kernel", str(file), "a.ipynb", "python")
    with real_kernels.client(file) as opened:
        opened.execute("x = 'of the notebook'", reply=True, timeout=60)
    assert client.call("evaluate_code", code="x", replSessionKey="a-ipynb", who="ann")["result"] == "'of the notebook'"
    answer = client.call("evaluate_code", code="x", who="ann")
    assert (answer["sessionKey"], answer["result"]) == ("a-ipynb", "'of the notebook'")
    answer = client.call("evaluate_code", code="x", who="bob")
    assert (answer["sessionKey"].partition("/")[0], answer["error"]["class"]) == ("py", "NameError")


def test_a_discovered_kernel_is_restarted_only_by_its_own_key(open_notebook):
    _jupyter, _session, client = open_notebook
    generation = rows(client)["a-ipynb"]["generation"]
    assert client.call("restart_repl", who="ann")["sessionKey"] == "py"
    assert rows(client)["a-ipynb"]["generation"] == generation
    client.call("evaluate_code", code="gone = 1", replSessionKey="a-ipynb", who="ann")
    answer = client.call("restart_repl", replSessionKey="a-ipynb", who="ann")
    assert (answer["phase"], answer["generation"]) == ("connected", generation + 1)
    after = client.call("evaluate_code", code="gone", replSessionKey="a-ipynb", who="ann")
    assert after["error"]["class"] == "NameError"


def test_files_that_lead_to_no_kernel_are_reported_without_hanging(open_notebook):
    jupyter, session, client = open_notebook
    connection = json.loads((jupyter.runtime / f"kernel-{session['kernel']['id']}.json").read_text())
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        ports = {name: port for name in connection if name.endswith("_port")}
        write_connection_file(
            jupyter.runtime,
            "wrong",
            {**connection, "key": "of-another-kernel", "jupyter_session": notebook(jupyter, "b")},
        )
        write_connection_file(
            jupyter.runtime, "taken", {**connection, **ports, "jupyter_session": notebook(jupyter, "c")}
        )
        until(lambda: {"b-ipynb", "c-ipynb"} <= rows(client).keys(), "both")
        until(lambda: "belongs to a different kernel" in rows(client)["b-ipynb"].get("note", ""), "the word on it")
        until(
            lambda: "or another program is using its port" in rows(client)["c-ipynb"].get("note", ""),
            "the word on the stranger",
        )
        assert client.call("evaluate_code", code="1+2", who="ann")["result"] == "3"
        for name in ("wrong", "taken"):
            (jupyter.runtime / f"kernel-{name}.json").unlink()
        until(lambda: not {"b-ipynb", "c-ipynb"} & rows(client).keys(), "that they are forgotten")


def test_a_kernel_with_an_unreadable_file_is_reached_through_its_server(open_notebook, tmp_path):
    jupyter, _session, client = open_notebook
    (jupyter.folder / "sub").mkdir()
    (tmp_path / "workspace").symlink_to(jupyter.folder / "sub")
    session_model = {"path": "sub/d.ipynb", "name": "d.ipynb", "type": "notebook", "kernel": {"name": "python3"}}
    _status, session = jupyter.call("POST", "/api/sessions", session_model)
    kernel = session["kernel"]["id"]
    file = jupyter.runtime / f"kernel-{kernel}.json"
    file.rename(file.with_suffix(".moved"))
    file.symlink_to(file.with_suffix(".moved"))
    with variables(JUPYTER_RUNTIME_DIR=jupyter.runtime), serving(tmp_path) as live:
        until(live.port_file.exists, "the server in the folder below")
        with live.client() as second_client:
            until(lambda: all_connected(second_client, ["d-ipynb"]), "the kernel of d.ipynb")
            row = rows(second_client)["d-ipynb"]
            assert (row["kind"], row["notebook"]) == ("server", "d.ipynb")
            assert row["origin"] == f"{jupyter.base}/api/kernels/{kernel}"
            assert (
                second_client.call("evaluate_code", code="6*7", replSessionKey="d-ipynb", who="ann")["result"] == "42"
            )
            assert TOKEN not in json.dumps(rows(second_client))
            restarted = second_client.call("restart_repl", replSessionKey="d-ipynb", timeoutMs=60_000)
            assert restarted["phase"] == "connected"
            assert (
                second_client.call("evaluate_code", code="6*7", replSessionKey="d-ipynb", who="ann")["result"] == "42"
            )
    assert kernel in jupyter.kernels()
    until(lambda: [key for key in rows(client) if key.startswith("d-ipynb")] == ["d-ipynb"], "one REPL of it")


def test_a_kernel_shut_down_by_its_user_is_forgotten(open_notebook):
    jupyter, session, client = open_notebook
    assert client.call("evaluate_code", code="1+2", replSessionKey="a-ipynb", who="ann")["result"] == "3"
    status, _ = jupyter.call("DELETE", f"/api/sessions/{session['id']}")
    assert status == 204
    until(lambda: "a-ipynb" not in rows(client), "that it is forgotten")
    refused = client.call("evaluate_code", code="1+2", who="ann")
    assert (refused["ok"], refused["reason"]) == (False, "unknown-session")
    assert "the REPL session a-ipynb, which you used last, has ended" in refused["message"]
    assert client.call("evaluate_code", code="1+2", replSessionKey="py", who="ann")["result"] == "3"
    assert client.call("evaluate_code", code="1+2", who="bob")["result"] == "3"


def notebook(jupyter, name):
    return str(jupyter.folder / f"{name}.ipynb")


def write_connection_file(directory, name, content):
    path = Path(directory) / f"kernel-{name}.json"
    path.touch(mode=0o600)
    path.write_text(json.dumps(content))
