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

from codriver.core import dispatch
from codriver.core.actions import ReplConnected, ReplFound, ReplLost
from codriver.core.dispatch import Core
from codriver.core.handlers import HANDLERS
from codriver.core.state import Lifecycle, Origin, State
from codriver.core.values import Profile
from codriver.features.jupyter.kernels import kernel_discovery, kernel_search
from codriver.features.jupyter.kernels.connection_files import NotebookServer
from codriver.features.jupyter.kernels.kernel_discovery import KernelDiscovery
from codriver.features.jupyter.kernels.kernel_search import (
    PROBE_S,
    QUERY_SERVERS_S,
    UNASSIGNED_PROBE_S,
    YOUNG_S,
    KernelSearch,
)
from codriver.features.jupyter.kernels.server_sessions import (
    NotebookServerError,
    describe_server_with_notebook,
    is_alive,
    list_sessions,
    read_sessions,
)

OLD_NS = int((YOUNG_S + 60) * 10**9)


class Room:
    """A workspace, a runtime directory, and discovery in them, with a clock that a test sets."""

    def __init__(self, folder, listener):
        self.workspace, self.runtime = folder / "ws", folder / "runtime"
        self.workspace.mkdir()
        self.runtime.mkdir()
        self.port = listener.getsockname()[1]
        self.now = 1000.0
        self.folders = {}
        self.scanned = 0
        self.search = KernelSearch(
            self.workspace, self.runtime, clock=lambda: self.now, directories_of=self.directories_of
        )

    def directories_of(self, paths):
        self.scanned += 1
        return {path: self.folders[path.name] for path in paths if path.name in self.folders}

    def kernel(self, name, *, port=None, age_ns=0, **fields):
        path = self.runtime / f"kernel-{name}.json"
        text = {"ip": "127.0.0.1", "shell_port": port or self.port, "key": "k", "kernel_name": "python3", **fields}
        path.write_text(json.dumps(text))
        path.chmod(0o600)
        at = time.time_ns() - age_ns
        os.utime(path, ns=(at, at))
        return path

    def server(self, url, root=None, pid=None):
        path = self.runtime / "jpserver-1.json"
        root, pid = str(root or self.workspace), pid or os.getpid()
        path.write_text(json.dumps({"url": url, "root_dir": root, "pid": pid, "token": "s3cret"}))
        path.chmod(0o600)
        return path

    def keys(self):
        return [kernel.key for kernel in self.search.find().kernels]


@pytest.fixture
def listener():
    with socket.create_server(("127.0.0.1", 0)) as made:
        yield made


@pytest.fixture
def dead_port():
    with socket.create_server(("127.0.0.1", 0)) as made:
        return made.getsockname()[1]


@pytest.fixture
def room(tmp_path, listener):
    return Room(tmp_path.resolve(), listener)


class Sessions:
    """An HTTP server that answers like a Jupyter Server's list of sessions."""

    def __init__(self):
        self.rows, self.status, self.asked, self.location = [], 200, [], None
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                outer.asked.append((self.path, self.headers.get("Authorization")))
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
    made = Sessions()
    yield made
    made.server.shutdown()
    made.server.server_close()


# Whose it is


def test_a_kernel_belongs_to_the_workspace_by_the_notebook_in_its_file(room):
    room.kernel("1", jupyter_session=str(room.workspace / "sub" / "a.ipynb"))
    room.kernel("2", jupyter_session="/elsewhere/b.ipynb")
    (found,) = room.search.find().kernels
    assert (found.key, found.notebook) == ("a-ipynb", str(room.workspace / "sub" / "a.ipynb"))
    assert (found.origin.kind, found.origin.is_discovered_only) == ("kernel", True)
    assert found.address == f"jupyter://{room.runtime}/kernel-1.json"
    assert room.scanned == 0


def test_a_notebook_reached_through_a_link_belongs_to_the_workspace_too(room, tmp_path):
    (tmp_path / "link").symlink_to(room.workspace)
    room.kernel("1", jupyter_session=str(tmp_path / "link" / "a.ipynb"))
    assert room.keys() == ["a-ipynb"]


def test_without_a_notebook_in_its_file_a_kernel_is_matched_by_its_session(room, sessions):
    sessions.add("sub/a.ipynb", "1")
    sessions.add("../other/b.ipynb", "2")
    room.server(sessions.url)
    room.kernel("1")
    room.kernel("2")
    (found,) = room.search.find().kernels
    assert (found.key, found.notebook, found.origin.kind) == (
        "a-ipynb", str(room.workspace / "sub" / "a.ipynb"), "kernel",
    )  # fmt: skip
    assert sessions.asked == [("/base/api/sessions?no_track_activity=1", "token s3cret")]


def test_the_session_of_a_server_takes_precedence_over_the_file(room, sessions):
    sessions.add("a.ipynb", "1")
    room.server(sessions.url)
    room.kernel("1", jupyter_session=str(room.workspace / "a"))
    assert room.keys() == ["a-ipynb"]


def test_without_a_session_a_kernel_is_matched_by_its_working_directory(room):
    room.kernel("1", kernel_name="ir")
    room.kernel("2")
    room.folders = {"kernel-1.json": room.workspace / "sub", "kernel-2.json": Path("/elsewhere")}
    assert room.keys() == ["r"]
    assert room.keys() == ["r"]
    assert room.scanned == 1


def test_a_session_opened_later_identifies_the_kernel(room, sessions):
    room.server(sessions.url)
    room.kernel("1")
    assert room.keys() == []
    sessions.add("a.ipynb", "1")
    room.now += QUERY_SERVERS_S
    assert room.keys() == ["a-ipynb"]


def test_a_console_kernel_has_no_notebook(room):
    room.kernel("1", jupyter_session=str(room.workspace / "console-1-ab12"))
    (found,) = room.search.find().kernels
    assert (found.key, found.notebook) == ("jup", None)


def test_a_kernel_known_only_to_a_server_is_identified_by_url(room, sessions):
    sessions.add("a.ipynb", "1")
    sessions.add("a.ipynb", "2")
    room.kernel("1")
    room.server(sessions.url)
    by_file, by_server = room.search.find().kernels
    assert (by_file.origin.kind, by_server.origin.kind) == ("kernel", "server")
    assert by_server.origin.text == f"{sessions.url}api/kernels/2"
    assert by_server.address == f"jupyter+{sessions.url}api/kernels/2"
    assert "s3cret" not in repr(by_server)


# Whether it is there


def test_a_file_with_a_dead_port_is_reported(room, dead_port):
    path = room.kernel("1", port=dead_port, age_ns=OLD_NS, jupyter_session=str(room.workspace / "a.ipynb"))
    found = room.search.find()
    assert not found.kernels
    ((what, sentence),) = found.errors
    assert what == str(path)
    assert sentence.startswith(f"nothing listens on the port in {path}, the file of the kernel of ")


def test_a_new_file_is_given_time_for_its_kernel_to_start(room, dead_port):
    room.kernel("1", port=dead_port, jupyter_session=str(room.workspace / "a.ipynb"))
    assert room.search.find() == kernel_search.SearchResult()
    with socket.create_server(("127.0.0.1", dead_port)):
        assert room.keys() == ["a-ipynb"]


@pytest.mark.parametrize(("notebook", "pause_s"), [("a.ipynb", PROBE_S), (None, UNASSIGNED_PROBE_S)])
def test_a_dead_kernel_is_not_probed_constantly(room, dead_port, notebook, pause_s):
    told = {"jupyter_session": str(room.workspace / notebook)} if notebook else {}
    room.folders = {"kernel-1.json": room.workspace}
    room.kernel("1", port=dead_port, age_ns=OLD_NS, **told)
    room.search.find()
    with socket.create_server(("127.0.0.1", dead_port)):
        room.now += pause_s / 2
        assert room.keys() == []
        room.now += pause_s
        assert room.keys() != []


def test_a_live_kernel_is_probed_again_only_if_in_doubt(room, listener):
    path = room.kernel("1", age_ns=OLD_NS, jupyter_session=str(room.workspace / "a.ipynb"))
    assert room.keys() == ["a-ipynb"]
    listener.close()
    room.now += 2 * PROBE_S
    assert room.keys() == ["a-ipynb"]
    room.search.probe_again([str(path)])
    assert room.keys() == []


@pytest.mark.slow
def test_an_unresponsive_server_does_not_block_discovery(room):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        room.server(f"http://127.0.0.1:{silent.getsockname()[1]}/")
        room.kernel("1", jupyter_session=str(room.workspace / "a.ipynb"))
        found = room.search.find()
    assert [kernel.key for kernel in found.kernels] == ["a-ipynb"]
    assert "is not used: no server answers at http://127.0.0.1:" in found.errors[0][1]


def test_a_server_of_another_directory_is_not_queried(room, sessions):
    room.server(sessions.url, root="/elsewhere")
    room.search.find()
    assert not sessions.asked


def test_a_server_is_queried_after_a_change_and_otherwise_rarely(room, sessions):
    room.server(sessions.url)
    for _ in range(5):
        room.search.find()
    assert len(sessions.asked) == 1
    room.now += QUERY_SERVERS_S
    room.search.find()
    assert len(sessions.asked) == 2


# Servers


def server_at(url, pid=None):
    return NotebookServer(Path("/run/jpserver-1.json"), url, Path("/w"), pid or os.getpid(), "s3cret")


def test_the_token_is_never_sent_to_another_address(sessions):
    with pytest.raises(NotebookServerError, match="not a loopback address"):
        list_sessions(server_at("http://example.org:8888/"))
    sessions.status, sessions.location = 302, "http://127.0.0.1:1/"
    with pytest.raises(NotebookServerError, match="responded with status 302"):
        list_sessions(server_at(sessions.url))
    assert len(sessions.asked) == 1


@pytest.mark.parametrize("status", [401, 403])
def test_a_rejected_token_is_named_by_its_file_and_never_included(sessions, status):
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
    (found,) = read_sessions(server_at("http://localhost:1/"), json.dumps(rows).encode())
    assert (str(found.path), found.kernel_id, found.url) == ("/a.ipynb", "1-a", "http://localhost:1/api/kernels/1-a")


def test_the_port_of_a_dead_server_is_not_queried():
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        pass
    assert not is_alive(server_at("http://localhost:1/", process.pid))
    assert is_alive(server_at("http://localhost:1/"))


def test_a_notebook_is_open_if_a_server_says_so_or_does_not_answer(sessions, tmp_path):
    root = tmp_path.resolve()
    server = NotebookServer(Path("/run/jpserver-1.json"), sessions.url, root, os.getpid())
    sessions.rows = [{"path": "work/a.ipynb", "kernel": {"id": "1-a"}}]
    assert describe_server_with_notebook(root / "work" / "a.ipynb", [server]) == f"the Jupyter Server at {sessions.url}"
    assert describe_server_with_notebook(root / "work" / "b.ipynb", [server]) is None
    sessions.status = 403
    assert "possibly the Jupyter Server at" in describe_server_with_notebook(root / "work" / "b.ipynb", [server])
    asked = len(sessions.asked)
    assert describe_server_with_notebook(Path("/elsewhere/a.ipynb"), [server]) is None
    assert len(sessions.asked) == asked


def test_a_notebook_with_a_longer_name_on_the_server_counts_as_open(sessions, tmp_path):
    root = tmp_path.resolve()
    server = NotebookServer(Path("/run/jpserver-1.json"), sessions.url, root, os.getpid())
    sessions.add("work/a-jvsc-0d3e2c1a-9f8b-4c7d-8e6f-5a4b3c2d1e0f.ipynb", "1-a")
    assert describe_server_with_notebook(root / "work" / "a.ipynb", [server]) == f"the Jupyter Server at {sessions.url}"


def test_a_notebook_is_not_open_in_a_dead_server(tmp_path, dead_port):
    url, root = f"http://127.0.0.1:{dead_port}/", tmp_path.resolve()
    server = NotebookServer(Path("/run/jpserver-1.json"), url, root, os.getpid())
    assert describe_server_with_notebook(root / "a.ipynb", [server]) is None


# What the core is told


class Discovered:
    """Discovery with a core that performs no effects."""

    def __init__(self, room, protocols=("jupyter",), named_ids=frozenset):
        self.effects = []
        self.core = Core(
            state=State(lifecycle=Lifecycle(phase="started", session_id="a")),
            settings=SimpleNamespace(max_run_ms=1, max_length=1, max_depth=1),
            now=lambda: 1000,
            handlers=HANDLERS,
            performers=lambda _: dict.fromkeys(dispatch.EFFECTS, self.effects.append),
        )
        self.discovery = KernelDiscovery(
            core=self.core,
            workspace=room.workspace,
            environ={"JUPYTER_RUNTIME_DIR": str(room.runtime)},
            protocols=protocols,
            named_ids=named_ids,
        )
        self.search = self.discovery._search

    def look(self):
        self.effects.clear()
        self.discovery._reconcile(self.search.find())
        return {repl.key: repl for repl in self.core.state.repls.values()}

    def said(self):
        return [effect for effect in self.effects if isinstance(effect, dispatch.Append)]


def test_a_discovered_kernel_becomes_a_repl_until_its_file_is_removed(room):
    path = room.kernel("1", jupyter_session=str(room.workspace / "a.ipynb"))
    discovered = Discovered(room)
    repl = discovered.look()["a-ipynb"]
    assert (repl.phase, repl.origin, repl.notebook) == (
        "connecting", Origin("kernel", str(path), is_discovered_only=True), str(room.workspace / "a.ipynb"),
    )  # fmt: skip
    assert discovered.look()
    assert not discovered.effects
    path.unlink()
    assert not discovered.look()


def test_the_kernel_of_a_renamed_notebook_keeps_its_key(room, sessions):
    sessions.add("a.ipynb", "1")
    room.server(sessions.url)
    room.kernel("1")
    discovered = Discovered(room)
    repl = discovered.look()["a-ipynb"]
    discovered.core.report(ReplConnected(repl.id, Profile(dialect="python"), repl.address))
    sessions.rows[0]["path"] = "b.ipynb"
    discovered.search._clock = lambda: time.monotonic() + QUERY_SERVERS_S
    assert discovered.look()["a-ipynb"].notebook == str(room.workspace / "b.ipynb")
    discovered.look()
    assert not discovered.effects


def test_a_connected_kernel_stays_without_its_file(room):
    path = room.kernel("1", jupyter_session=str(room.workspace / "a.ipynb"))
    discovered = Discovered(room)
    repl = discovered.look()["a-ipynb"]
    discovered.core.report(ReplConnected(repl.id, Profile(dialect="python"), repl.address))
    path.unlink()
    assert discovered.look()


def test_a_leftover_file_is_reported_once(room, dead_port):
    room.kernel("1", port=dead_port, age_ns=OLD_NS, jupyter_session=str(room.workspace / "a.ipynb"))
    discovered = Discovered(room)
    assert not discovered.look()
    assert len(discovered.said()) == 1
    discovered.look()
    assert not discovered.said()


@pytest.mark.parametrize("kind", ["process", "kernel", "address"])
def test_a_named_or_started_kernel_is_not_discovered_again(room, kind):
    path = room.kernel("1", jupyter_session=str(room.workspace / "a.ipynb"))
    discovered = Discovered(room)
    discovered.core.report(ReplFound("own", "jup", Origin(kind, "jupyter"), f"jupyter://{path}"))
    assert list(discovered.look()) == ["jup"]


def test_a_kernel_named_by_its_url_is_not_discovered_again(room):
    room.kernel("1", jupyter_session=str(room.workspace / "a.ipynb"))
    discovered = Discovered(room)
    url = "https://host/base/api/kernels/1"
    discovered.core.report(ReplFound("own", "jup", Origin("server", url), f"jupyter+{url}"))
    assert list(discovered.look()) == ["jup"]


def test_a_kernel_named_without_its_id_is_not_discovered_again(room):
    room.kernel("1", jupyter_session=str(room.workspace / "a.ipynb"))
    assert not Discovered(room, named_ids=lambda: {"1"}).look()


@pytest.mark.parametrize("first", ["kernel", "server"])
def test_a_kernel_known_by_file_and_server_is_one_repl(room, sessions, first):
    sessions.add("a.ipynb", "1")
    room.server(sessions.url)
    discovered = Discovered(room, ("jupyter", "jupyter+http"))
    path = room.runtime / "kernel-1.json"
    for there in (True, False) if first == "kernel" else (False, True):
        if there:
            room.kernel("1")
        else:
            path.unlink(missing_ok=True)
        repls = discovered.look()
        (repl,) = repls.values()
        assert (repl.key, repl.origin.kind) == ("a-ipynb", first)
        discovered.core.report(ReplConnected(repl.id, Profile(dialect="python"), repl.address))


def test_kernels_without_a_supported_transport_are_not_listed(room, sessions):
    sessions.add("a.ipynb", "2")
    room.server(sessions.url)
    assert not Discovered(room).look()
    assert list(Discovered(room, ("jupyter", "jupyter+http")).look()) == ["a-ipynb"]


def test_an_abandoned_kernel_is_forgotten_when_dead_and_discovered_when_rewritten(room, listener):
    path = room.kernel("1", age_ns=OLD_NS, jupyter_session=str(room.workspace / "a.ipynb"))
    discovered = Discovered(room)
    repl = discovered.look()["a-ipynb"]
    discovered.core.report(ReplLost(repl.id, "its key is wrong", final=True))
    assert discovered.look()["a-ipynb"].phase == "stopped"
    path.unlink()
    room.kernel("1", jupyter_session=str(room.workspace / "a.ipynb"))
    assert discovered.look()["a-ipynb"].phase == "connecting"


def test_without_the_jupyter_extra_a_kernel_is_listed_with_install_advice(room, monkeypatch):
    monkeypatch.setattr(kernel_discovery, "find_spec", lambda _: None)
    room.kernel("1", jupyter_session=str(room.workspace / "a.ipynb"))
    discovered = Discovered(room)
    repl = discovered.look()["a-ipynb"]
    assert repl.phase == "stopped"
    assert "uv tool install '.[jupyter]'" in repl.note
    assert not [effect for effect in discovered.effects if isinstance(effect, dispatch.ConnectRepl)]
