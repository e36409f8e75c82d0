"""A REPL kind is one entry in one table. Discovery, recipes, init and doctor all read it there."""

import socket

import anyio
import pytest

from codriver.app.hot_reload import source_file_stamps
from codriver.app.workspace_settings import load_workspace_settings
from codriver.core.profiles import Profile
from codriver.core.state import Origin, Repl
from codriver.repls import dialects, kinds
from codriver.repls.dialects.server_dialect import Dialect
from codriver.repls.launch import port_files
from codriver.repls.launch.projects import find_projects, port_files_with_port
from codriver.repls.launch.recipes import RecipeError, find_recipe
from codriver.repls.launch.repl_discovery import _configured_command
from codriver.setup import doctor_checks
from codriver.tools.calls.session_choice import find_serving_repl

pytestmark = pytest.mark.anyio

MOON = kinds.ReplKind(
    "Moonlisp",
    "moon",
    "moonlisp",
    ("moon",),
    suffixes=(".moon",),
    distinctive_suffixes=(".moon",),
    marks=("moon.edn",),
    needed_packages=(("package.json", "moonlisp"),),
    port_files=(".moon/port",),
    programs=("moonrise",),
    install="see moon.example",
    arguments=("--repl", "0"),
    by_hand="moonrise --repl 0",
)


@pytest.fixture(autouse=True)
def moon(monkeypatch):
    monkeypatch.setattr(kinds, "REPL_KINDS", (*kinds.REPL_KINDS, MOON))


def write(path, text=""):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize("evidence", ["moon.edn", "package.json requires moonlisp", "src/orbit.moon"])
def test_init_recognizes_the_projects_of_a_repl_kind(tmp_path, evidence):
    file, _, package = evidence.partition(" requires ")
    write(tmp_path / file, f'{{"dependencies": {{"{package}": "1"}}}}')
    (project,) = find_projects(tmp_path)
    assert (project.kind, project.evidence, project.repl) == ("Moonlisp", evidence, "moon")
    assert (project.programs, project.command) == (("moonrise",), "moonrise --repl 0")


async def test_discovery_finds_the_port_file_of_a_repl_kind_under_its_key(tmp_path):
    write(tmp_path / "far" / "moon.edn")
    write(tmp_path / "far" / ".moon" / "port", "7001")
    write(tmp_path / ".moon" / "port", "7002")
    with anyio.fail_after(60):
        async for found in port_files.watch_port_files(tmp_path, kinds.port_file_names()):
            assert [(item.port, item.key) for item in found] == [(7002, "moon"), (7001, "far-moon")]
            break
    assert port_files_with_port(tmp_path) == (".moon/port",)


def test_doctor_checks_the_port_file_of_a_repl_kind(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        write(tmp_path / ".moon" / "port", str(port))
        assert [check.text for check in doctor_checks.check_port_files(tmp_path)] == [f".moon/port has port {port}"]


def test_a_repl_requested_by_kind_gets_the_session_key_of_that_kind():
    found = _configured_command("moon")
    assert (found.key, found.dialect, found.keyed) == ("moon", "moonlisp", True)


def test_a_repl_recipe_includes_the_program_its_arguments_and_the_port_file(tmp_path):
    program = write(tmp_path / "bin" / "moonrise")
    program.chmod(0o755)
    found = find_recipe("moon", tmp_path, {"PATH": str(program.parent)})
    assert found.command == (str(program), "--repl", "0")
    assert found.port_file == tmp_path / ".moon" / "port"


def test_a_missing_repl_program_is_reported_with_advice(tmp_path):
    with pytest.raises(RecipeError, match=r"no 'moonrise' in PATH or node_modules; see moon\.example"):
        find_recipe("moon", tmp_path, {"PATH": "/nowhere"})


def test_hot_reload_loads_files_in_the_repl_of_their_kind(tmp_path):
    file = write(tmp_path / "orbit.moon")
    assert list(source_file_stamps(tmp_path)) == [file]
    repl = Repl("r", "moon", Origin("process", "moon"), phase="connected", profile=Profile("moonlisp"))
    assert find_serving_repl(file, [repl], tmp_path) is repl


def test_a_workspace_can_request_a_repl_kind_by_name(tmp_path):
    write(tmp_path / "codriver.toml", 'repl = ["moon"]\n')
    assert load_workspace_settings(tmp_path, environ={}).withheld == ()


@pytest.mark.parametrize(
    ("dialect", "loads", "refuses"),
    [("python", ".py", ".clj"), ("hy", ".hy", ".py"), ("basilisp", ".cljc", ".py"), ("clojurescript", ".cljs", ".py")],
)
def test_a_dialect_loads_only_files_of_its_language_family(dialect, loads, refuses):
    suffixes = kinds.loadable_suffixes(dialect)
    assert loads in suffixes
    assert refuses not in suffixes


def test_every_detectable_dialect_has_its_own_session_key():
    displayed = [var.name for var in vars(dialects).values() if isinstance(var, Dialect) and var.name != "unknown"]
    keys = {dialect: kinds.session_key_for_dialect(dialect) for dialect in displayed}
    assert len(set(keys.values())) == len(keys)
    assert "repl" not in keys.values()
    assert kinds.session_key_for_dialect("unknown") == "repl"


def test_an_unknown_dialect_has_no_file_suffixes():
    assert kinds.loadable_suffixes("unknown") == frozenset()
