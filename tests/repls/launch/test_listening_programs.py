"""An agent is warned that the REPL started by Codriver is not the application running next to it."""

import subprocess
import sys

import pytest
from live_server import serving, until

from codriver.core.actions import AddRepl, ProgramsFound, ReplConnected
from codriver.core.dispatch import Core
from codriver.core.effects import EFFECTS
from codriver.core.handlers import HANDLERS
from codriver.core.listening_program import ListeningProgram
from codriver.core.profiles import Profile
from codriver.core.state import Origin, State, first_answer_warnings
from codriver.repls.launch.listening_programs import ListeningPrograms

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells it in files")

SHOP = """
import socket, sys
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
sys.stdin.read()
"""
LOOK = """
import sys
from pathlib import Path
from codriver.repls.launch.listening_programs import ListeningPrograms
print(ListeningPrograms(Path(sys.argv[1])).search())
"""


@pytest.fixture
def shop(tmp_path):
    """Return a function that starts a listening program in a directory and returns the server's row for it."""
    running = []

    def start(name="workspace"):
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        command = [sys.executable, "-c", SHOP]
        program = subprocess.Popen(command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        running.append(program)
        return ListeningProgram(program.pid, f"127.0.0.1:{program.stdout.readline().strip()}")

    yield start
    for program in running:
        program.communicate()


def test_only_listening_programs_of_the_workspace_are_found(tmp_path, shop):
    program = shop()
    shop("other")
    # In a process of its own, which did not start the programs.
    command = [sys.executable, "-c", LOOK, str(tmp_path / "workspace")]
    port_cautions = subprocess.run(command, capture_output=True, text=True, check=True)
    assert port_cautions.stdout.strip() == repr((program,))


def test_processes_started_by_the_server_are_not_reported_as_applications(tmp_path, shop):
    shop()
    assert ListeningPrograms(tmp_path / "workspace").search() == ()


def test_each_client_is_warned_once_that_the_repl_is_not_part_of_the_application(tmp_path, shop):
    program = shop()
    words = f"this REPL is not part of the application listening on {program.address} (pid {program.pid})"
    with serving(tmp_path, "--repl", "python") as live, live.client() as client:
        until(lambda: words in str(client.call("list_sessions")), "the program to be seen")
        assert words in str(client.call("server_health"))
        assert words in str(client.call("evaluate_code", code="1")["notes"])
        assert words not in str(client.call("evaluate_code", code="2"))
        with live.client() as another:
            assert words in another.about["instructions"]


@pytest.fixture
def core():
    """Return a core that knows a Python REPL started by Codriver, and the key of that REPL."""
    made = Core(
        state=State(), settings=None, now=int, handlers=HANDLERS,
        performers=lambda _: dict.fromkeys(EFFECTS, lambda _: None),
    )  # fmt: skip
    made.report(AddRepl("process:python", "py", Origin("process", "python"), dialect="python"))
    return made


def port_cautions(core):
    return first_answer_warnings(core.state, core.state.repls["process:python"])


def test_the_warning_about_applications_without_a_repl_ends_when_they_have_one(core):
    assert port_cautions(core) == ()
    core.report(ProgramsFound((ListeningProgram(42, "127.0.0.1:5000"), ListeningProgram(43, "127.0.0.1:5001"))))
    (words,) = port_cautions(core)
    assert words.startswith(
        "this REPL is not part of the application listening on 127.0.0.1:5000 (pid 42) and 127.0.0.1:5001"
    )
    core.report(AddRepl("file:a", "app", Origin("port-file", "a"), "127.0.0.1:5001"))
    assert port_cautions(core)[0].startswith(
        "this REPL is not part of the application listening on 127.0.0.1:5000 (pid 42). To"
    )
    core.report(ReplConnected("file:a", Profile(dialect="python", process_id=42), "127.0.0.1:5001"))
    assert port_cautions(core) == ()


def test_no_warning_is_given_for_a_repl_inside_the_application(core):
    core.report(ProgramsFound((ListeningProgram(42, "127.0.0.1:5000"),)))
    core.report(AddRepl("file:a", "app", Origin("port-file", "a"), "127.0.0.1:7000"))
    assert first_answer_warnings(core.state, core.state.repls["file:a"]) == ()
