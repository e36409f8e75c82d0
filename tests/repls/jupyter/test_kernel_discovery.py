"""Kernels that somebody else started: which are the workspace's, which are there, and how little is asked for it."""

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
from codriver.repls.jupyter import kernel_discovery
from codriver.repls.jupyter.connection_files import NotebookServer
from codriver.repls.jupyter.kernel_discovery import (
    PROBE_S,
    QUERY_SERVERS_S,
    STRANGE_PROBE_S,
    YOUNG_S,
    KernelDiscovery,
    KernelSearch,
    NotebookServerError,
    is_alive,
    read_sessions,
    sessions_of,
    where_open,
)

OLD_NS = int((YOUNG_S + 60) * 10**9)


class Room:
    """A workspace, a runtime folder, and the search over them, with a clock that a test sets."""

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
    """An HTTP server that answers as a Jupyter Server's list of sessions does."""

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


def test_a_notebook_that_is_reached_by_a_link_is_the_workspaces_too(room, tmp_path):
    (tmp_path / "link").symlink_to(room.workspace)
    room.kernel("1", jupyter_session=str(tmp_path / "link" / "a.ipynb"))
    assert room.keys() == ["a-ipynb"]


def test_else_by_the_session_that_a_server_has_for_it(room, sessions):
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


def test_a_session_tells_the_notebook_better_than_the_file_which_has_its_title(room, sessions):
    sessions.add("a.ipynb", "1")
    room.server(sessions.url)
    room.kernel("1", jupyter_session=str(room.workspace / "a"))
    assert room.keys() == ["a-ipynb"]


def test_else_by_the_folder_in_which_its_process_works(room):
    room.kernel("1", kernel_name="ir")
    room.kernel("2")
    room.folders = {"kernel-1.json": room.workspace / "sub", "kernel-2.json": Path("/elsewhere")}
    assert room.keys() == ["r"]
    assert room.keys() == ["r"]
    assert room.scanned == 1


def test_a_session_that_is_opened_later_tells_more_than_the_folder(room, sessions):
    room.server(sessions.url)
    room.kernel("1")
    assert room.keys() == []
    sessions.add("a.ipynb", "1")
    room.now += QUERY_SERVERS_S
    assert room.keys() == ["a-ipynb"]


def test_a_console_of_a_server_has_no_notebook(room):
    room.kernel("1", jupyter_session=str(room.workspace / "console-1-ab12"))
    (found,) = room.search.find().kernels
    assert (found.key, found.notebook) == ("jup", None)


def test_a_kernel_that_only_a_server_tells_of_is_known_by_its_url(room, sessions):
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


def test_a_file_at_whose_port_nobody_listens_is_no_repl_and_told_of(room, dead_port):
    path = room.kernel("1", port=dead_port, age_ns=OLD_NS, jupyter_session=str(room.workspace / "a.ipynb"))
    found = room.search.find()
    assert not found.kernels
    ((what, sentence),) = found.errors
    assert what == str(path)
    assert sentence.startswith(f"nobody listens at the port in {path}, the file of the kernel of ")


def test_a_young_file_is_given_the_time_that_a_kernel_needs(room, dead_port):
    room.kernel("1", port=dead_port, jupyter_session=str(room.workspace / "a.ipynb"))
    assert room.search.find() == kernel_discovery.Found()
    with socket.create_server(("127.0.0.1", dead_port)):
        assert room.keys() == ["a-ipynb"]


@pytest.mark.parametrize(("notebook", "pause_s"), [("a.ipynb", PROBE_S), (None, STRANGE_PROBE_S)])
def test_a_dead_one_is_not_asked_all_the_time(room, dead_port, notebook, pause_s):
    told = {"jupyter_session": str(room.workspace / notebook)} if notebook else {}
    room.folders = {"kernel-1.json": room.workspace}
    room.kernel("1", port=dead_port, age_ns=OLD_NS, **told)
    room.search.find()
    with socket.create_server(("127.0.0.1", dead_port)):
        room.now += pause_s / 2
        assert room.keys() == []
        room.now += pause_s
        assert room.keys() != []


def test_one_that_was_there_is_asked_again_only_when_it_is_doubted(room, listener):
    path = room.kernel("1", age_ns=OLD_NS, jupyter_session=str(room.workspace / "a.ipynb"))
    assert room.keys() == ["a-ipynb"]
    listener.close()
    room.now += 2 * PROBE_S
    assert room.keys() == ["a-ipynb"]
    room.search.doubt([str(path)])
    assert room.keys() == []


@pytest.mark.slow
def test_a_server_that_does_not_answer_holds_nothing_up_for_long(room):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        room.server(f"http://127.0.0.1:{silent.getsockname()[1]}/")
        room.kernel("1", jupyter_session=str(room.workspace / "a.ipynb"))
        found = room.search.find()
    assert [kernel.key for kernel in found.kernels] == ["a-ipynb"]
    assert "is not used: nothing answers at http://127.0.0.1:" in found.errors[0][1]


def test_a_server_of_another_folder_is_not_asked(room, sessions):
    room.server(sessions.url, root="/elsewhere")
    room.search.find()
    assert not sessions.asked


def test_a_server_is_asked_after_a_change_and_else_seldom(room, sessions):
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


def test_the_token_goes_to_no_other_machine_and_no_other_address(sessions):
    with pytest.raises(NotebookServerError, match="no loopback address"):
        sessions_of(server_at("http://example.org:8888/"))
    sessions.status, sessions.location = 302, "http://127.0.0.1:1/"
    with pytest.raises(NotebookServerError, match="answered with status 302"):
        sessions_of(server_at(sessions.url))
    assert len(sessions.asked) == 1


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_token_is_named_by_its_file_and_never_shown(sessions, status):
    sessions.status = status
    with pytest.raises(NotebookServerError, match=r"refused the token in /run/jpserver-1\.json") as refused:
        sessions_of(server_at(sessions.url))
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize("answer", [b"", b"{}", b"[" * 50_000])
def test_an_answer_that_is_no_list_is_told_of(answer):
    with pytest.raises(NotebookServerError, match="something else than a list"):
        read_sessions(server_at("http://localhost:1/"), answer)


def test_what_is_no_session_is_passed_over():
    strange = [None, {}, {"path": "a"}, {"path": "a", "kernel": {}}, {"path": "", "kernel": {"id": "1"}}]
    rows = [*strange, {"path": "a", "kernel": {"id": "../1"}}, {"path": "/../a.ipynb", "kernel": {"id": "1-a"}}]
    (found,) = read_sessions(server_at("http://localhost:1/"), json.dumps(rows).encode())
    assert (str(found.path), found.kernel_id, found.url) == ("/a.ipynb", "1-a", "http://localhost:1/api/kernels/1-a")


def test_a_dead_servers_port_is_not_asked():
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        pass
    assert not is_alive(server_at("http://localhost:1/", process.pid))
    assert is_alive(server_at("http://localhost:1/"))


def test_a_notebook_is_open_where_a_server_says_so_or_does_not_tell(sessions, tmp_path):
    root = tmp_path.resolve()
    server = NotebookServer(Path("/run/jpserver-1.json"), sessions.url, root, os.getpid())
    sessions.rows = [{"path": "work/a.ipynb", "kernel": {"id": "1-a"}}]
    assert where_open(root / "work" / "a.ipynb", [server]) == f"the Jupyter Server at {sessions.url}"
    assert where_open(root / "work" / "b.ipynb", [server]) is None
    sessions.status = 403
    assert "perhaps (the server at" in where_open(root / "work" / "b.ipynb", [server])
    asked = len(sessions.asked)
    assert where_open(Path("/elsewhere/a.ipynb"), [server]) is None
    assert len(sessions.asked) == asked


def test_a_notebook_is_open_in_an_editor_that_gives_the_server_a_longer_name(sessions, tmp_path):
    root = tmp_path.resolve()
    server = NotebookServer(Path("/run/jpserver-1.json"), sessions.url, root, os.getpid())
    sessions.add("work/a-jvsc-0d3e2c1a-9f8b-4c7d-8e6f-5a4b3c2d1e0f.ipynb", "1-a")
    assert where_open(root / "work" / "a.ipynb", [server]) == f"the Jupyter Server at {sessions.url}"


def test_a_notebook_is_not_open_in_a_server_that_is_gone(tmp_path, dead_port):
    url, root = f"http://127.0.0.1:{dead_port}/", tmp_path.resolve()
    server = NotebookServer(Path("/run/jpserver-1.json"), url, root, os.getpid())
    assert where_open(root / "a.ipynb", [server]) is None


# What the core is told


class Discovered:
    """A discovery with a core whose shell does nothing."""

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


def test_a_kernel_that_is_found_becomes_a_repl_and_is_forgotten_with_its_file(room):
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


def test_a_notebook_that_is_renamed_keeps_its_kernels_key(room, sessions):
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


def test_one_that_is_connected_stays_without_its_file(room):
    path = room.kernel("1", jupyter_session=str(room.workspace / "a.ipynb"))
    discovered = Discovered(room)
    repl = discovered.look()["a-ipynb"]
    discovered.core.report(ReplConnected(repl.id, Profile(dialect="python"), repl.address))
    path.unlink()
    assert discovered.look()


def test_what_is_left_over_is_said_once(room, dead_port):
    room.kernel("1", port=dead_port, age_ns=OLD_NS, jupyter_session=str(room.workspace / "a.ipynb"))
    discovered = Discovered(room)
    assert not discovered.look()
    assert len(discovered.said()) == 1
    discovered.look()
    assert not discovered.said()


@pytest.mark.parametrize("kind", ["process", "kernel", "address"])
def test_a_kernel_that_was_named_or_started_is_not_found_again(room, kind):
    path = room.kernel("1", jupyter_session=str(room.workspace / "a.ipynb"))
    discovered = Discovered(room)
    discovered.core.report(ReplFound("own", "jup", Origin(kind, "jupyter"), f"jupyter://{path}"))
    assert list(discovered.look()) == ["jup"]


def test_a_kernel_that_is_named_by_its_servers_url_is_not_found_again(room):
    room.kernel("1", jupyter_session=str(room.workspace / "a.ipynb"))
    discovered = Discovered(room)
    url = "https://host/base/api/kernels/1"
    discovered.core.report(ReplFound("own", "jup", Origin("server", url), f"jupyter+{url}"))
    assert list(discovered.look()) == ["jup"]


def test_a_kernel_that_is_named_without_its_id_is_not_found_again(room):
    room.kernel("1", jupyter_session=str(room.workspace / "a.ipynb"))
    assert not Discovered(room, named_ids=lambda: {"1"}).look()


@pytest.mark.parametrize("first", ["kernel", "server"])
def test_a_kernel_that_is_known_by_its_file_and_its_server_is_one_repl(room, sessions, first):
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


def test_what_nobody_can_connect_to_is_not_listed(room, sessions):
    sessions.add("a.ipynb", "2")
    room.server(sessions.url)
    assert not Discovered(room).look()
    assert list(Discovered(room, ("jupyter", "jupyter+http")).look()) == ["a-ipynb"]


def test_one_that_was_given_up_is_forgotten_when_nobody_listens_and_found_when_its_file_is_new(room, listener):
    path = room.kernel("1", age_ns=OLD_NS, jupyter_session=str(room.workspace / "a.ipynb"))
    discovered = Discovered(room)
    repl = discovered.look()["a-ipynb"]
    discovered.core.report(ReplLost(repl.id, "its key is wrong", final=True))
    assert discovered.look()["a-ipynb"].phase == "stopped"
    path.unlink()
    room.kernel("1", jupyter_session=str(room.workspace / "a.ipynb"))
    assert discovered.look()["a-ipynb"].phase == "connecting"


def test_without_the_extra_it_is_listed_with_what_to_install(room, monkeypatch):
    monkeypatch.setattr(kernel_discovery, "find_spec", lambda _: None)
    room.kernel("1", jupyter_session=str(room.workspace / "a.ipynb"))
    discovered = Discovered(room)
    repl = discovered.look()["a-ipynb"]
    assert repl.phase == "stopped"
    assert "uv tool install '.[jupyter]'" in repl.note
    assert not [effect for effect in discovered.effects if isinstance(effect, dispatch.ConnectRepl)]
