"""Discovering kernels started by others: which belong to the workspace, which are alive, with as few requests as
possible.
"""

import json
import os
import socket
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import SimpleNamespace

import pytest

from codriver.core.actions import AddRepl, ReplConnected, ReplLost
from codriver.core.dispatch import Core
from codriver.core.effects import EFFECTS, AppendEntry, ConnectRepl
from codriver.core.handlers import HANDLERS
from codriver.core.profiles import Profile
from codriver.core.state import Lifecycle, Origin, State
from codriver.features.jupyter.kernel_origins import kernel_of_file, kernel_of_server
from codriver.features.jupyter.kernels import kernel_discovery, workspace_kernels
from codriver.features.jupyter.kernels.connection_files import NotebookServer
from codriver.features.jupyter.kernels.kernel_discovery import FIRST_RETRY_DELAY_S, MAX_RETRY_DELAY_S, KernelDiscovery
from codriver.features.jupyter.kernels.server_sessions import (
    NotebookServerError,
    describe_server_with_notebook,
    is_alive,
    list_sessions,
    read_sessions,
)
from codriver.features.jupyter.kernels.workspace_kernels import (
    MAX_KERNEL_START_S,
    PROBE_INTERVAL_S,
    SERVER_QUERY_INTERVAL_S,
    UNASSIGNED_PROBE_INTERVAL_S,
    KernelSearch,
)

OLD_NS = int((MAX_KERNEL_START_S + 60) * 10**9)


class Workspace:
    """A workspace, a runtime directory, and discovery in them, with a clock that a test sets."""

    def __init__(self, directory, listener):
        self.path, self.runtime = directory / "ws", directory / "runtime"
        self.path.mkdir()
        self.runtime.mkdir()
        self.port = listener.getsockname()[1]
        self.clock_s = 1000.0
        self.working_directories = {}
        self.scanned = 0
        self.search = KernelSearch(
            self.path, self.runtime, clock=lambda: self.clock_s, directories_of=self.directories_of
        )

    def directories_of(self, paths):
        self.scanned += 1
        return {path: self.working_directories[path.name] for path in paths if path.name in self.working_directories}

    def kernel(self, name, *, port=None, age_ns=0, **fields):
        path = self.runtime / f"kernel-{name}.json"
        text = {"ip": "127.0.0.1", "shell_port": port or self.port, "key": "k", "kernel_name": "python3", **fields}
        path.write_text(json.dumps(text))
        path.chmod(0o600)
        written_ns = time.time_ns() - age_ns
        os.utime(path, ns=(written_ns, written_ns))
        return path

    def server(self, url, root=None, pid=None):
        path = self.runtime / "jpserver-1.json"
        root, pid = str(root or self.path), pid or os.getpid()
        path.write_text(json.dumps({"url": url, "root_dir": root, "pid": pid, "token": "s3cret"}))
        path.chmod(0o600)
        return path

    def keys(self):
        return [kernel.key for kernel in self.search.find().kernels]


@pytest.fixture
def listener():
    with socket.create_server(("127.0.0.1", 0)) as listening_socket:
        yield listening_socket


@pytest.fixture
def dead_port():
    with socket.create_server(("127.0.0.1", 0)) as closed_socket:
        return closed_socket.getsockname()[1]


@pytest.fixture
def workspace(tmp_path, listener):
    return Workspace(tmp_path.resolve(), listener)


class Sessions:
    """An HTTP server that answers like a Jupyter Server's list of sessions."""

    def __init__(self):
        self.rows, self.status, self.requests, self.location = [], 200, [], None
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                outer.requests.append((self.path, self.headers.get("Authorization")))
                body = json.dumps(outer.rows).encode()
                self.send_response(outer.status)
                if outer.location:
                    self.send_header("Location", outer.location)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/base/"
        Thread(target=self.server.serve_forever, daemon=True).start()

    def add(self, path, kernel_id, name="python3"):
        self.rows.append({"path": path, "kernel": {"id": kernel_id, "name": name}})


@pytest.fixture
def sessions():
    fake_server = Sessions()
    yield fake_server
    fake_server.server.shutdown()
    fake_server.server.server_close()


# Which workspace a kernel belongs to


def test_a_kernel_belongs_to_the_workspace_of_the_notebook_in_its_connection_file(workspace):
    workspace.kernel("1", jupyter_session=str(workspace.path / "sub" / "a.ipynb"))
    workspace.kernel("2", jupyter_session="/elsewhere/b.ipynb")
    (result,) = workspace.search.find().kernels
    assert (result.key, result.notebook) == ("a-ipynb", str(workspace.path / "sub" / "a.ipynb"))
    assert (result.origin.kind, result.origin.is_discovered_only) == ("kernel", True)
    assert result.address == f"jupyter://{workspace.runtime}/kernel-1.json"
    assert workspace.scanned == 0


def test_a_notebook_reached_through_a_link_also_belongs_to_the_workspace(workspace, tmp_path):
    (tmp_path / "link").symlink_to(workspace.path)
    workspace.kernel("1", jupyter_session=str(tmp_path / "link" / "a.ipynb"))
    assert workspace.keys() == ["a-ipynb"]


def test_a_kernel_whose_connection_file_names_no_notebook_is_matched_by_its_session(workspace, sessions):
    sessions.add("sub/a.ipynb", "1")
    sessions.add("../other/b.ipynb", "2")
    workspace.server(sessions.url)
    workspace.kernel("1")
    workspace.kernel("2")
    (result,) = workspace.search.find().kernels
    assert (result.key, result.notebook, result.origin.kind) == (
        "a-ipynb", str(workspace.path / "sub" / "a.ipynb"), "kernel",
    )  # fmt: skip
    assert sessions.requests == [("/base/api/sessions?no_track_activity=1", "token s3cret")]


def test_the_session_of_a_server_takes_precedence_over_the_connection_file(workspace, sessions):
    sessions.add("a.ipynb", "1")
    workspace.server(sessions.url)
    workspace.kernel("1", jupyter_session=str(workspace.path / "a"))
    assert workspace.keys() == ["a-ipynb"]


def test_a_kernel_without_a_session_is_matched_by_its_working_directory(workspace):
    workspace.kernel("1", kernel_name="ir")
    workspace.kernel("2")
    workspace.working_directories = {"kernel-1.json": workspace.path / "sub", "kernel-2.json": Path("/elsewhere")}
    assert workspace.keys() == ["r"]
    assert workspace.keys() == ["r"]
    assert workspace.scanned == 1


def test_a_session_opened_later_identifies_the_kernel(workspace, sessions):
    workspace.server(sessions.url)
    workspace.kernel("1")
    assert workspace.keys() == []
    sessions.add("a.ipynb", "1")
    workspace.clock_s += SERVER_QUERY_INTERVAL_S
    assert workspace.keys() == ["a-ipynb"]


def test_a_console_kernel_has_no_notebook(workspace):
    workspace.kernel("1", jupyter_session=str(workspace.path / "console-1-ab12"))
    (result,) = workspace.search.find().kernels
    assert (result.key, result.notebook) == ("jup", None)


def test_a_kernel_known_only_to_a_jupyter_server_is_identified_by_its_url(workspace, sessions):
    sessions.add("a.ipynb", "1")
    sessions.add("a.ipynb", "2")
    workspace.kernel("1")
    workspace.server(sessions.url)
    by_file, by_server = workspace.search.find().kernels
    assert (by_file.origin.kind, by_server.origin.kind) == ("kernel", "server")
    assert by_server.origin.text == f"{sessions.url}api/kernels/2"
    assert by_server.address == f"jupyter+{sessions.url}api/kernels/2"
    assert "s3cret" not in repr(by_server)


# Whether a kernel is alive


def test_a_connection_file_with_a_dead_port_is_reported(workspace, dead_port):
    path = workspace.kernel("1", port=dead_port, age_ns=OLD_NS, jupyter_session=str(workspace.path / "a.ipynb"))
    result = workspace.search.find()
    assert not result.kernels
    ((subject, sentence),) = result.errors
    assert subject == str(path)
    assert sentence.startswith(f"nothing is listening on the port in {path}, the file of the kernel of ")


def test_a_kernel_with_a_new_connection_file_is_given_time_to_start(workspace, dead_port):
    workspace.kernel("1", port=dead_port, jupyter_session=str(workspace.path / "a.ipynb"))
    assert workspace.search.find() == workspace_kernels.SearchResult()
    with socket.create_server(("127.0.0.1", dead_port)):
        assert workspace.keys() == ["a-ipynb"]


@pytest.mark.parametrize(("notebook", "pause_s"), [("a.ipynb", PROBE_INTERVAL_S), (None, UNASSIGNED_PROBE_INTERVAL_S)])
def test_a_dead_kernel_is_not_probed_constantly(workspace, dead_port, notebook, pause_s):
    fields = {"jupyter_session": str(workspace.path / notebook)} if notebook else {}
    workspace.working_directories = {"kernel-1.json": workspace.path}
    workspace.kernel("1", port=dead_port, age_ns=OLD_NS, **fields)
    workspace.search.find()
    with socket.create_server(("127.0.0.1", dead_port)):
        workspace.clock_s += pause_s / 2
        assert workspace.keys() == []
        workspace.clock_s += pause_s
        assert workspace.keys() != []


def test_a_live_kernel_is_probed_again_only_on_request(workspace, listener):
    path = workspace.kernel("1", age_ns=OLD_NS, jupyter_session=str(workspace.path / "a.ipynb"))
    assert workspace.keys() == ["a-ipynb"]
    listener.close()
    workspace.clock_s += 2 * PROBE_INTERVAL_S
    assert workspace.keys() == ["a-ipynb"]
    workspace.search.probe_again([str(path)])
    assert workspace.keys() == []


@pytest.mark.slow
def test_an_unresponsive_server_does_not_block_discovery(workspace):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        workspace.server(f"http://127.0.0.1:{silent.getsockname()[1]}/")
        workspace.kernel("1", jupyter_session=str(workspace.path / "a.ipynb"))
        result = workspace.search.find()
    assert [kernel.key for kernel in result.kernels] == ["a-ipynb"]
    assert "is not used: no server answers at http://127.0.0.1:" in result.errors[0][1]


def test_a_server_of_another_directory_is_not_queried(workspace, sessions):
    workspace.server(sessions.url, root="/elsewhere")
    workspace.search.find()
    assert not sessions.requests


def test_a_jupyter_server_is_queried_after_a_change_and_otherwise_rarely(workspace, sessions):
    workspace.server(sessions.url)
    for _ in range(5):
        workspace.search.find()
    assert len(sessions.requests) == 1
    workspace.clock_s += SERVER_QUERY_INTERVAL_S
    workspace.search.find()
    assert len(sessions.requests) == 2


# Servers


def server_at(url, pid=None):
    return NotebookServer(Path("/run/jpserver-1.json"), url, Path("/w"), pid or os.getpid(), "s3cret")


def test_the_token_is_never_sent_to_another_address(sessions):
    with pytest.raises(NotebookServerError, match="not a loopback address"):
        list_sessions(server_at("http://example.org:8888/"))
    sessions.status, sessions.location = 302, "http://127.0.0.1:1/"
    with pytest.raises(NotebookServerError, match="responded with status 302"):
        list_sessions(server_at(sessions.url))
    assert len(sessions.requests) == 1


@pytest.mark.parametrize("status", [401, 403])
def test_the_error_for_a_rejected_token_names_its_file_but_does_not_include_the_token(sessions, status):
    sessions.status = status
    with pytest.raises(NotebookServerError, match=r"refused the token in /run/jpserver-1\.json") as refused:
        list_sessions(server_at(sessions.url))
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize("answer", [b"", b"{}", b"[" * 50_000])
def test_an_answer_that_is_not_a_list_is_refused(answer):
    with pytest.raises(NotebookServerError, match="something other than a list"):
        read_sessions(server_at("http://localhost:1/"), answer)


def test_malformed_sessions_are_skipped():
    strange = [None, {}, {"path": "a"}, {"path": "a", "kernel": {}}, {"path": "", "kernel": {"id": "1"}}]
    rows = [*strange, {"path": "a", "kernel": {"id": "../1"}}, {"path": "/../a.ipynb", "kernel": {"id": "1-a"}}]
    (result,) = read_sessions(server_at("http://localhost:1/"), json.dumps(rows).encode())
    assert (str(result.path), result.kernel_id, result.url) == ("/a.ipynb", "1-a", "http://localhost:1/api/kernels/1-a")


def test_the_port_of_a_dead_server_is_not_queried():
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        pass
    assert not is_alive(server_at("http://localhost:1/", process.pid))
    assert is_alive(server_at("http://localhost:1/"))


def test_a_notebook_counts_as_open_if_a_server_reports_it_as_open_or_does_not_answer(sessions, tmp_path):
    root = tmp_path.resolve()
    server = NotebookServer(Path("/run/jpserver-1.json"), sessions.url, root, os.getpid())
    sessions.rows = [{"path": "work/a.ipynb", "kernel": {"id": "1-a"}}]
    assert describe_server_with_notebook(root / "work" / "a.ipynb", [server]) == f"the Jupyter Server at {sessions.url}"
    assert describe_server_with_notebook(root / "work" / "b.ipynb", [server]) is None
    sessions.status = 403
    assert "possibly the Jupyter Server at" in describe_server_with_notebook(root / "work" / "b.ipynb", [server])
    request_count = len(sessions.requests)
    assert describe_server_with_notebook(Path("/elsewhere/a.ipynb"), [server]) is None
    assert len(sessions.requests) == request_count


def test_a_notebook_with_a_longer_name_on_the_server_counts_as_open(sessions, tmp_path):
    root = tmp_path.resolve()
    server = NotebookServer(Path("/run/jpserver-1.json"), sessions.url, root, os.getpid())
    sessions.add("work/a-jvsc-0d3e2c1a-9f8b-4c7d-8e6f-5a4b3c2d1e0f.ipynb", "1-a")
    assert describe_server_with_notebook(root / "work" / "a.ipynb", [server]) == f"the Jupyter Server at {sessions.url}"


def test_a_notebook_is_not_open_in_a_dead_server(tmp_path, dead_port):
    url, root = f"http://127.0.0.1:{dead_port}/", tmp_path.resolve()
    server = NotebookServer(Path("/run/jpserver-1.json"), url, root, os.getpid())
    assert describe_server_with_notebook(root / "a.ipynb", [server]) is None


# What is reported to the core


class Discovered:
    """Discovery with a core that performs no effects."""

    def __init__(self, workspace, protocols=("jupyter",), named_ids=frozenset):
        self.effects = []
        self.core = Core(
            state=State(lifecycle=Lifecycle(phase="started", session_id="a")),
            settings=SimpleNamespace(max_run_ms=1, max_length=1, max_depth=1),
            now=lambda: 1000,
            handlers=HANDLERS,
            performers=lambda _: dict.fromkeys(EFFECTS, self.effects.append),
        )
        self.discovery = KernelDiscovery(
            core=self.core,
            workspace=workspace.path,
            environ={"JUPYTER_RUNTIME_DIR": str(workspace.runtime)},
            protocols=protocols,
            named_ids=named_ids,
            clock=lambda: workspace.clock_s,
        )
        self.search = self.discovery._search

    def reconcile(self):
        self.effects.clear()
        self.discovery._reconcile(self.search.find())
        return {repl.key: repl for repl in self.core.state.repls.values()}

    def log_effects(self):
        return [effect for effect in self.effects if isinstance(effect, AppendEntry)]


def test_a_discovered_kernel_becomes_a_repl_until_its_file_is_removed(workspace):
    path = workspace.kernel("1", jupyter_session=str(workspace.path / "a.ipynb"))
    discovered = Discovered(workspace)
    repl = discovered.reconcile()["a-ipynb"]
    assert (repl.phase, repl.origin, repl.document) == (
        "connecting", kernel_of_file(path, is_discovered_only=True), str(workspace.path / "a.ipynb"),
    )  # fmt: skip
    assert discovered.reconcile()
    assert not discovered.effects
    path.unlink()
    assert not discovered.reconcile()


def test_the_kernel_of_a_renamed_notebook_keeps_its_key(workspace, sessions):
    sessions.add("a.ipynb", "1")
    workspace.server(sessions.url)
    workspace.kernel("1")
    discovered = Discovered(workspace)
    repl = discovered.reconcile()["a-ipynb"]
    discovered.core.report(ReplConnected(repl.id, Profile(dialect="python"), repl.address))
    sessions.rows[0]["path"] = "b.ipynb"
    discovered.search._clock = lambda: time.monotonic() + SERVER_QUERY_INTERVAL_S
    assert discovered.reconcile()["a-ipynb"].document == str(workspace.path / "b.ipynb")
    discovered.reconcile()
    assert not discovered.effects


def test_a_connected_kernel_stays_connected_without_its_connection_file(workspace):
    path = workspace.kernel("1", jupyter_session=str(workspace.path / "a.ipynb"))
    discovered = Discovered(workspace)
    repl = discovered.reconcile()["a-ipynb"]
    discovered.core.report(ReplConnected(repl.id, Profile(dialect="python"), repl.address))
    path.unlink()
    assert discovered.reconcile()


def test_a_leftover_connection_file_is_reported_once(workspace, dead_port):
    workspace.kernel("1", port=dead_port, age_ns=OLD_NS, jupyter_session=str(workspace.path / "a.ipynb"))
    discovered = Discovered(workspace)
    assert not discovered.reconcile()
    assert len(discovered.log_effects()) == 1
    discovered.reconcile()
    assert not discovered.log_effects()


@pytest.mark.parametrize("kind", ["process", "kernel", "address"])
def test_a_named_or_started_kernel_is_not_discovered_again(workspace, kind):
    path = workspace.kernel("1", jupyter_session=str(workspace.path / "a.ipynb"))
    discovered = Discovered(workspace)
    discovered.core.report(AddRepl("own", "jup", Origin(kind, "jupyter"), f"jupyter://{path}"))
    assert list(discovered.reconcile()) == ["jup"]


def test_a_kernel_named_by_its_url_is_not_discovered_again(workspace):
    workspace.kernel("1", jupyter_session=str(workspace.path / "a.ipynb"))
    discovered = Discovered(workspace)
    url = "https://host/base/api/kernels/1"
    discovered.core.report(AddRepl("own", "jup", kernel_of_server(url), f"jupyter+{url}"))
    assert list(discovered.reconcile()) == ["jup"]


def test_a_kernel_named_without_its_id_is_not_discovered_again(workspace):
    workspace.kernel("1", jupyter_session=str(workspace.path / "a.ipynb"))
    assert not Discovered(workspace, named_ids=lambda: {"1"}).reconcile()


@pytest.mark.parametrize("first_kind", ["kernel", "server"])
def test_a_kernel_known_both_by_file_and_by_server_counts_as_one_repl(workspace, sessions, first_kind):
    sessions.add("a.ipynb", "1")
    workspace.server(sessions.url)
    discovered = Discovered(workspace, ("jupyter", "jupyter+http"))
    path = workspace.runtime / "kernel-1.json"
    for is_file_present in (True, False) if first_kind == "kernel" else (False, True):
        if is_file_present:
            workspace.kernel("1")
        else:
            path.unlink(missing_ok=True)
        repls = discovered.reconcile()
        (repl,) = repls.values()
        assert (repl.key, repl.origin.kind) == ("a-ipynb", first_kind)
        discovered.core.report(ReplConnected(repl.id, Profile(dialect="python"), repl.address))


def test_kernels_without_a_supported_transport_are_not_listed(workspace, sessions):
    sessions.add("a.ipynb", "2")
    workspace.server(sessions.url)
    assert not Discovered(workspace).reconcile()
    assert list(Discovered(workspace, ("jupyter", "jupyter+http")).reconcile()) == ["a-ipynb"]


def test_a_dead_abandoned_kernel_is_forgotten_until_its_connection_file_is_rewritten(workspace, listener):
    path = workspace.kernel("1", age_ns=OLD_NS, jupyter_session=str(workspace.path / "a.ipynb"))
    discovered = Discovered(workspace)
    repl = discovered.reconcile()["a-ipynb"]
    discovered.core.report(ReplLost(repl.id, "its key is wrong", final=True))
    assert discovered.reconcile()["a-ipynb"].phase == "stopped"
    path.unlink()
    workspace.kernel("1", jupyter_session=str(workspace.path / "a.ipynb"))
    assert discovered.reconcile()["a-ipynb"].phase == "connecting"


def test_an_abandoned_kernel_that_still_listens_is_retried_less_and_less_often(workspace, listener):
    """A kernel may have been too slow to answer, for example while many start on a busy machine."""
    workspace.kernel("1", age_ns=OLD_NS, jupyter_session=str(workspace.path / "a.ipynb"))
    discovered = Discovered(workspace)
    repl = discovered.reconcile()["a-ipynb"]
    for interval_s in [min(FIRST_RETRY_DELAY_S * 2**number, MAX_RETRY_DELAY_S) for number in range(10)]:
        discovered.core.report(ReplLost(repl.id, "it did not answer", final=True))
        assert discovered.reconcile()["a-ipynb"].phase == "stopped"
        workspace.clock_s += interval_s - 1
        assert discovered.reconcile()["a-ipynb"].phase == "stopped"
        workspace.clock_s += 1
        assert discovered.reconcile()["a-ipynb"].phase == "connecting"


def test_without_the_jupyter_extra_a_kernel_is_listed_with_install_advice(workspace, monkeypatch):
    monkeypatch.setattr(kernel_discovery, "find_spec", lambda _: None)
    workspace.kernel("1", jupyter_session=str(workspace.path / "a.ipynb"))
    discovered = Discovered(workspace)
    repl = discovered.reconcile()["a-ipynb"]
    assert repl.phase == "stopped"
    assert "uv tool install '.[jupyter]'" in repl.note
    assert not [effect for effect in discovered.effects if isinstance(effect, ConnectRepl)]
