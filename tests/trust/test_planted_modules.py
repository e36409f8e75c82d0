"""Modules in an untrusted checkout named like modules that Codriver imports: none of them runs."""

import contextlib
import sys

import forked
import pytest
from live_server import RELAY, WAIT_S, Relayed, environ
from worker_client import Repl

NAMES = sorted({*sys.stdlib_module_names, "sitecustomize", "usercustomize", "a", "typing_extensions"} - {"__main__"})
LOOK_UPS = {
    "python": (("complete_symbol", {"prefix": "sys.v"}), ("symbol_info", {"symbol": "sys.exit"})),
    "lisp": (("complete_symbol", {"prefix": "basilisp.string/up"}), ("symbol_info", {"symbol": "map"})),
}
LANGUAGES = {"python": "python", "lisp": "basilisp"}
OTHERS = (
    ("list_sessions", {}), ("server_health", {}), ("what_changed", {}), ("repl_output_log", {"limit": 10}),
    ("symbol_info", {"symbol": "*dump*"}), ("symbol_info", {"symbol": "a"}), ("interrupt_evaluation", {}),
)  # fmt: skip


def plant(folder):
    """Put a module of every name into a directory; return the file in which each would record that it ran."""
    folder.mkdir(exist_ok=True)
    mark = folder.parent / "ran"
    for name in NAMES:
        (folder / f"{name}.py").write_text(f"with open({str(mark)!r}, 'a') as mark: mark.write({name + ' '!r})\n")
    return mark


def what_ran(mark):
    return mark.read_text() if mark.exists() else ""


@pytest.mark.parametrize(
    ("kind", "path"), [("lisp", None), *(("python", path) for path in (None, ".", "{0}/elsewhere:", "{0}/workspace"))]
)
def test_nothing_in_a_checkout_runs_before_code_is_evaluated(tmp_path, kind, path):
    workspace = tmp_path / "workspace"
    mark = plant(workspace)
    (workspace / "codriver.toml").write_text(f"repl = [{kind!r}]\n")
    # Lisp that nobody has compiled yet takes longer to start than a tool waits.
    env = environ(tmp_path) | {"CODRIVER_MCP_SOCKET_SERVER_PORT": "0", "CODRIVER_EVALUATE_TIMEOUT_MS": "120000"}
    command = [sys.executable, "-I", "-S", RELAY, str(workspace / ".calva" / "mcp-server" / "port"), "--start"]
    try:
        led = env | ({"PYTHONPATH": path.format(tmp_path)} if path else {})
        with Relayed(command, led, folder=workspace) as client:
            for tool, arguments in (*OTHERS, *LOOK_UPS[kind], *OTHERS):
                answer = client.request("tools/call", {"name": tool, "arguments": arguments})
                assert "result" in answer, (tool, answer)
                assert (tool, arguments) not in LOOK_UPS[kind] or not answer["result"].get("isError"), answer
            (repl,) = client.call("list_sessions")["sessions"]
            assert repl["dialect"] == LANGUAGES[kind]
            assert what_ran(mark) == ""
    finally:  # with no relay there any more, which would start another server
        forked.run(("stop",), env=env, cwd=workspace, timeout=WAIT_S)


@pytest.mark.parametrize(
    ("dialect", "code", "prefix"), [("python", "1", "textwrap.de"), ("lisp", "1", "basilisp.string/up")]
)
def test_lookups_after_an_evaluation_import_nothing_from_the_checkout(tmp_path, dialect, code, prefix):
    mark = plant(tmp_path / "workspace")
    with contextlib.closing(Repl(tmp_path / "workspace", "--dialect", dialect)) as repl:
        repl.connect()
        repl.evaluate(code)
        repl.ask("describe")
        for op in ("completions", "lookup", "codriver/names", "codriver/source", "codriver/drift", "codriver/loaded"):
            for name in (prefix, "basilisp.string/upper-case", "int", "*e", "*1"):
                repl.ask(op, prefix=name, sym=name, name=name, wanted=name, root=str(repl.folder))
        repl.ask("codriver/stacks")
        assert what_ran(mark) == ""


def test_evaluated_code_finds_the_projects_modules_first(tmp_path):
    mark = plant(tmp_path / "workspace")
    with contextlib.closing(Repl(tmp_path / "workspace")) as repl:
        repl.connect()
        repl.evaluate("import a, wave")
        assert what_ran(mark) == "a wave "


@pytest.mark.parametrize("dialect", ["python", "lisp"])
def test_in_an_untrusted_checkout_project_modules_come_last_and_only_for_evaluations(tmp_path, dialect):
    mark = plant(tmp_path / "workspace")
    with contextlib.closing(Repl(tmp_path / "workspace", "--dialect", dialect, "--unaccepted")) as repl:
        repl.connect()
        if dialect == "python":
            repl.evaluate("import a, wave, textwrap")
            assert what_ran(mark) == "a "
        else:
            repl.evaluate("(import a wave textwrap)")
            assert what_ran(mark) == "a "
        for op in ("completions", "lookup", "codriver/names", "codriver/source", "codriver/drift", "codriver/loaded"):
            for name in ("usercustomize", "usercustomize.x", "typing_extensions.x"):
                repl.ask(op, prefix=name, sym=name, name=name, wanted=name, root=str(repl.folder))
        assert what_ran(mark) == "a "
