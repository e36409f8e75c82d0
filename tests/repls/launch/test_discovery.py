"""Discovery of REPLs by port files, with real files in a workspace."""

import os
import shutil
import socket
import subprocess
import sys
from contextlib import asynccontextmanager, contextmanager
from functools import partial

import anyio
import pytest
from live_server import serving
from live_server import until as live_until
from needs import program
from ports import closed_port

from codriver.core.actions import AddRepl, ReplConnected, ReplLost
from codriver.core.dispatch import Core
from codriver.core.effects import EFFECTS, AppendEntry, ConnectRepl
from codriver.core.handlers import HANDLERS
from codriver.core.profiles import Capability, Profile
from codriver.core.state import Lifecycle, Origin, State
from codriver.repls.launch import recipes
from codriver.repls.launch.recipes import WORKER_PROGRAM, NotAcceptedError, RecipeError, find_recipe
from codriver.repls.launch.repl_discovery import Discovery, ReplChoice, choose_repl
from codriver.settings.model import Settings

pytestmark = pytest.mark.anyio
CLOJURE = Profile(dialect="clojure", capabilities={"evaluate": Capability("eval")})


class Shell:
    """A core whose effects are recorded."""

    def __init__(self):
        self.performed = []
        remember = dict.fromkeys(EFFECTS, self.performed.append)
        self.core = Core(
            state=State(lifecycle=Lifecycle(phase="started", session_id="abcdef")),
            settings=Settings(),
            now=lambda: 1000,
            handlers=HANDLERS,
            performers=lambda _: remember,
        )

    def do(self, *actions):
        self.core.report(*actions)

    def connections(self):
        return [effect.id for effect in self.performed if isinstance(effect, ConnectRepl)]

    def log_texts(self):
        return [effect.text for effect in self.performed if isinstance(effect, AppendEntry)]


@asynccontextmanager
async def finding(workspace):
    shell = Shell()
    discovery = Discovery(
        core=shell.core,
        workspace=workspace,
        addresses=(),
        commands=("none",),
        port_files=(),
        recipe_of=partial(find_recipe, workspace=workspace, environ=os.environ),
    )
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(discovery.run)
        yield shell
        tasks.cancel_scope.cancel()


async def until(condition):
    with anyio.fail_after(60):
        while not condition():
            await anyio.sleep(0.01)


def write(file, port, *, at):
    file.write_text(str(port))
    os.utime(file, (at, at))


async def test_a_repl_restarted_on_the_same_port_is_reconnected_immediately(tmp_path):
    file = tmp_path / ".nrepl-port"
    write(file, 7001, at=1000)
    async with finding(tmp_path) as shell:
        await until(lambda: shell.connections() == [f"file:{file}"])
        for attempt in range(8):
            shell.do(ReplLost(f"file:{file}", f"nobody listens ({attempt})"))
        assert shell.core.state.repls[f"file:{file}"].phase == "waiting"
        write(file, 7001, at=2000)
        await until(lambda: len(shell.connections()) == 2)
        assert shell.core.state.repls[f"file:{file}"].phase == "connecting"


async def test_a_port_file_is_not_read_while_a_repl_that_may_write_it_is_starting(tmp_path):
    write(tmp_path / ".nrepl-port", 7001, at=1000)
    shell = Shell()
    shell.do(AddRepl("process:python", "py", Origin("process", "python")))
    assert shell.core.state.repls["process:python"].phase == "starting"
    discovery = Discovery(
        core=shell.core, workspace=tmp_path, addresses=(), commands=("none",), port_files=(),
        recipe_of=partial(find_recipe, workspace=tmp_path, environ=os.environ),
    )  # fmt: skip
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(discovery.run)
        await until(lambda: shell.core.state.lifecycle.has_unread_port_files)
        assert shell.connections() == []
        shell.do(ReplLost("process:python", "it ended"))
        await until(shell.connections)
        assert not shell.core.state.lifecycle.has_unread_port_files
        tasks.cancel_scope.cancel()


async def test_an_unchanged_port_file_does_not_trigger_an_early_reconnect(tmp_path):
    file = tmp_path / ".nrepl-port"
    write(file, 7001, at=1000)
    async with finding(tmp_path) as shell:
        await until(shell.connections)
        shell.do(ReplLost(f"file:{file}", "nobody listens"))
        # Another reported file shows that discovery has scanned again.
        (tmp_path / "b").mkdir()
        (tmp_path / "b" / ".nrepl-port").write_text("no port")
        await until(lambda: any("cannot be used" in text for text in shell.log_texts()))
        assert shell.core.state.repls[f"file:{file}"].phase == "waiting"
        assert len(shell.connections()) == 1


async def test_a_rewritten_port_file_does_not_affect_a_connected_repl(tmp_path):
    file = tmp_path / ".nrepl-port"
    write(file, 7001, at=1000)
    async with finding(tmp_path) as shell:
        await until(shell.connections)
        shell.do(ReplConnected(f"file:{file}", CLOJURE, "127.0.0.1:7001"))
        write(file, 7001, at=2000)
        (tmp_path / "b").mkdir()
        (tmp_path / "b" / ".nrepl-port").write_text("no port")
        await until(lambda: any("cannot be used" in text for text in shell.log_texts()))
        assert shell.core.state.repls[f"file:{file}"].phase == "connected"
        assert len(shell.connections()) == 1


async def test_an_invalid_port_file_is_reported_once(tmp_path):
    file = tmp_path / ".nrepl-port"
    file.write_text("not a port")
    async with finding(tmp_path) as shell:
        await until(shell.log_texts)
        assert str(file) in shell.log_texts()[0]
        assert "not a port" in shell.log_texts()[0]
        write(file, 7001, at=2000)
        await until(shell.connections)
        assert len([text for text in shell.log_texts() if "cannot be used" in text]) == 1


@contextmanager
def worker(port):
    """Run somebody else's REPL at `port`."""
    command = [sys.executable, str(WORKER_PROGRAM), "--dialect", "python", "--port", str(port)]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    try:
        assert str(port) in process.stdout.readline()
        yield
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.parametrize("removes_its_file", [True, False])
def test_a_restarted_repl_keeps_its_session_key(tmp_path, removes_its_file):
    port = closed_port()
    with serving(tmp_path, "--repl", "none") as live, live.client(name="opencode") as client:
        file = live.workspace / ".nrepl-port"
        for generation in (1, 2):
            with worker(port):
                file.write_text(str(port))
                live_until(lambda: "symbol_info" in client.tools(), "the REPL's tools")
                answer = client.call("evaluate_code", code="1")
                assert (answer["result"], answer["sessionKey"], answer["generation"]) == ("1", "py", generation)
            live_until(lambda: "symbol_info" not in client.tools(), "the loss")
            if removes_its_file:
                file.unlink()
                live_until(lambda: not client.call("list_sessions")["sessions"], "the file to be missed")


# The first search


@pytest.mark.parametrize(
    ("files", "default"),
    [
        ({"pyproject.toml": ""}, ["process:python"]),
        ({"Cargo.toml": ""}, []),
        ({}, ["process:python"]),
        ({"pyproject.toml": "[project]\ndependencies = ['basilisp>=0.4']"}, ["process:lisp"]),
        ({"pyproject.toml": "[project.optional-dependencies]\nlisp = ['basilisp']"}, ["process:python"]),
        ({"README.md": "", "shop.lpy": "(ns shop)"}, ["process:lisp"]),
        ({"shop.py": "", "test_shop.lpy": "(ns test-shop)"}, ["process:python"]),
        ({"pyproject.toml": "[tool.poetry.dependencies]\nbasilisp = {optional = true}"}, ["process:python"]),
        ({"Cargo.toml": "", "examples/deep/x.lpy": ""}, ["process:lisp"]),
        ({"package.json": "{}", "docs/x.md": ""}, []),
        ({"README.md": "", "src/app.py": "", "examples/x.lpy": ""}, ["process:python"]),
        ({"notes/look.ipynb": "{}"}, ["process:python"]),
        ({"deps.edn": "{}", "shop.lpy": ""}, ["process:clojure"]),
        ({"project.clj": "", "pyproject.toml": ""}, ["process:lein"]),
        ({"pyproject.toml": "[project]\ndependencies = ['hy']", "shop.hy": ""}, ["process:hy"]),
    ],
)
async def test_calls_wait_for_the_first_search_if_it_may_find_a_repl(tmp_path, files, default):
    for kind in {"process:clojure", "process:lein"}.intersection(default):
        program(kind.removeprefix("process:"), install="apt-get install clojure leiningen")
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    shell = Shell()
    finder = Discovery(
        core=shell.core,
        workspace=tmp_path,
        addresses=(),
        commands=(),
        port_files=(),
        recipe_of=partial(find_recipe, workspace=tmp_path, environ=os.environ),
    )
    finder.report_configured()
    assert shell.core.state.lifecycle.is_searching
    assert "evaluate" in shell.core.state.capabilities()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(finder.run)
        with anyio.fail_after(30):
            while shell.core.state.lifecycle.is_searching:
                await anyio.sleep(0.01)
        tasks.cancel_scope.cancel()
    assert list(shell.core.state.repls) == default
    assert ("evaluate" in shell.core.state.capabilities()) == bool(default)


async def test_a_stale_port_file_does_not_prevent_starting_a_repl(tmp_path):
    (tmp_path / "app.py").write_text("")
    (tmp_path / ".nrepl-port").write_text(str(closed_port()))
    shell = Shell()
    finder = Discovery(
        core=shell.core, workspace=tmp_path, addresses=(), commands=(), port_files=(), recipe_of=recipe_in(tmp_path)
    )  # fmt: skip
    finder.report_configured()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(finder.run)
        await until(lambda: "process:python" in shell.core.state.repls)
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize("command", ["clojure", "clojure -M:dev:nrepl"])
@pytest.mark.parametrize("is_running", [True, False])
async def test_a_configured_repl_is_not_started_while_its_port_file_points_to_a_running_repl(
    tmp_path, command, is_running
):
    shell = Shell()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1] if is_running else closed_port()
        (tmp_path / ".nrepl-port").write_text(str(port))
        finder = Discovery(
            core=shell.core, workspace=tmp_path, addresses=(), commands=(command,), port_files=(),
            recipe_of=recipe_in(tmp_path),
        )  # fmt: skip
        finder.report_configured()
        assert shell.core.state.lifecycle.is_searching == is_running
        assert (f"process:{command}" in shell.core.state.repls) != is_running
        if is_running:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(finder.run)
                await until(lambda: not shell.core.state.lifecycle.is_searching)
                tasks.cancel_scope.cancel()
            assert [repl.address for repl in shell.core.state.repls.values()] == [f"127.0.0.1:{port}"]
            assert any(".nrepl-port leads to a running REPL" in text for text in shell.log_texts())


def recipe_in(workspace, python="auto"):
    return partial(find_recipe, workspace=workspace, environ=os.environ, python=python)


def test_a_project_that_requires_a_missing_basilisp_reports_it(tmp_path, monkeypatch):
    (tmp_path / "pyproject.toml").write_text("[project]\ndependencies = ['basilisp']")
    assert choose_repl(tmp_path, recipe_in(tmp_path)) == ReplChoice("lisp")
    monkeypatch.setattr(recipes, "_has_basilisp", lambda *_: False)
    found = choose_repl(tmp_path, recipe_in(tmp_path))
    assert (found.repl, found.error) == ("python", None)
    assert found.stand_in_note.startswith(
        "this is Python instead, because this project's REPL (Basilisp) cannot be started"
    )
    (tmp_path / "pyproject.toml").unlink()
    (tmp_path / "shop.lpy").touch()
    found = choose_repl(tmp_path, recipe_in(tmp_path))
    assert found.repl == "lisp"
    assert "Basilisp is not installed; run `uv tool install '.[lisp]'` in a checkout of Codriver" in found.error


@pytest.mark.parametrize(("name", "kind"), [("pyproject.toml", "python"), ("Cargo.toml", None)])
def test_a_missing_interpreter_is_reported_by_the_failing_start(tmp_path, name, kind):
    (tmp_path / name).touch()
    expected = choose_repl(tmp_path, recipe_in(tmp_path, str(tmp_path / "no-such-python")))
    assert (expected and expected.repl) == kind


CAN_START = {
    ("clojure", "python"): ("clojure", ""),
    ("python",): ("python", "this is Python instead, because Clojure with deps.edn is not here"),
    ("lisp",): ("lisp", "this is Basilisp instead, because Clojure with deps.edn is not here"),
    (): ("clojure", ""),
}


@pytest.mark.parametrize("able", CAN_START)
def test_a_fallback_repl_is_reported_with_the_repl_it_replaces(tmp_path, able):
    for name in ("deps.edn", "pyproject.toml"):
        (tmp_path / name).touch()

    def recipe_of(words):
        if words not in able:
            error = RecipeError(words, "it is not here")
            error.report = f"{error.report.partition('(')[2].partition(')')[0]} is not here"
            raise error

    found = choose_repl(tmp_path, recipe_of)
    assert (found.repl, found.stand_in_note) == CAN_START[able]
    assert (found.error is None) == bool(able)


def test_a_repl_that_needs_an_accepted_workspace_is_distinguished_from_one_that_cannot_start(tmp_path):
    (tmp_path / "deps.edn").touch()

    def recipe_of(words):
        raise NotAcceptedError(words, tmp_path, "it runs project files", None)

    assert choose_repl(tmp_path, recipe_of).is_not_accepted

    def missing(words):
        raise RecipeError(words, "clojure is not installed")

    assert not choose_repl(tmp_path, missing).is_not_accepted


def test_the_first_call_in_a_large_workspace_waits_for_its_repl(tmp_path):
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "pyproject.toml").touch()
    for number in range(1500):
        folder = workspace / f"part{number // 40}" / f"folder{number}"
        folder.mkdir(parents=True)
        (folder / "module.py").touch()
    with serving(tmp_path) as live, live.client() as client:
        listed = {tool["name"] for tool in client.request("tools/list")["result"]["tools"]}
        assert {"evaluate_code", "load_file"} <= listed
        assert client.call("evaluate_code", code="1 + 1", timeoutMs=60_000)["result"] == "2"


def test_the_first_call_without_a_repl_reports_that_none_is_connected(tmp_path):
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "Cargo.toml").touch()
    with serving(tmp_path) as live, live.client() as client:
        refused = client.call("evaluate_code", code="1 + 1")
        assert refused["reason"] == "capability-missing"
        assert "no REPL is connected" in refused["message"]


def test_a_repl_that_cannot_be_started_is_reported_immediately(tmp_path):
    if shutil.which("nbb"):
        pytest.skip("nbb is in PATH here, and so could be started")
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "nbb.edn").write_text("{}")
    with serving(tmp_path) as live, live.client() as client:
        client.tools()
        refused = client.call("evaluate_code", code="1 + 1")
        assert "this project's REPL (nbb) cannot be started: there is no 'nbb'" in refused["hint"]
        with live.client() as newcomer:
            assert "nbb is stopped: this project's REPL (nbb) cannot" in newcomer.about["instructions"]
            assert "starting" not in newcomer.about["instructions"]
        (row,) = client.call("list_sessions")["sessions"]
        assert (row["phase"], row["note"] in refused["hint"]) == ("stopped", True)
        assert row["note"] in live.run("status").stdout.replace("\n", " ")


def test_a_listener_that_is_not_a_repl_is_reported_by_status_doctor_and_log(tmp_path):
    silent = socket.create_server(("127.0.0.1", 0))
    port = silent.getsockname()[1]
    with silent, serving(tmp_path, "--nrepl", str(port)) as live:
        reported = f"the program at 127.0.0.1:{port} has not answered like a REPL"
        live_until(lambda: reported in live.run("status").stdout, "the word that nothing answers")
        live_until(lambda: reported in live.run("log").stdout, "the same in the log")
        assert f"127.0.0.1:{port}" in live.run("doctor").stdout
