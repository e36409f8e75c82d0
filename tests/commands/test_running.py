"""Running code while a command waits: output is streamed, and a terminal provides input and displays progress."""

import json
import re
import signal
import subprocess
import sys

import forked
import pytest
from forked import can_fork
from live_server import serving, until, user_settings_file
from needs import modules
from terminal import Terminal

WAITING = """import os, time
def until_there(path):
    while not os.path.exists(path):
        time.sleep(0.01)
"""
TESTS = """import waiting, pathlib
GATE = str(pathlib.Path(__file__).parent / "gate")
def test_first(): pass
def test_red():
    import matplotlib.pyplot as plt
    plt.figure(); plt.show()
    assert 1 == 2
def test_waits(): waiting.until_there(GATE)
"""


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    modules("matplotlib")
    folder = tmp_path_factory.mktemp("running")
    user_settings_file(folder).write_text(f"python = {sys.executable!r}\n")
    (folder / "workspace").mkdir()
    (folder / "workspace" / "waiting.py").write_text(WAITING)
    (folder / "workspace" / "test_gate.py").write_text(TESTS)
    with serving(folder, "--repl", "python") as served:
        yield served


def test_output_is_streamed_once(live, tmp_path):
    code = f"import waiting, sys\nprint('before')\nwaiting.until_there({str(tmp_path / 'gate')!r})\n"
    code += "print('after'); print('wrong', file=sys.stderr)\n6 * 7"
    with subprocess.Popen(
        live.command("eval", code), env=live.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "before\n"
        (tmp_path / "gate").touch()
        rest, wrong = process.communicate(timeout=60)
    assert (rest, wrong, process.returncode) == ("after\n42\n", "wrong\n", 0)


def test_input_is_read_from_the_terminal(live):
    code = "one = input('first? ')\ntwo = input()\none + two"
    with Terminal(live.command("eval", code), live.environ) as terminal:
        terminal.shows("first?")
        terminal.press("Bo\n")
        until(lambda: '"needs-input"' in live.run("call", "server_health").stdout, "the second line that it reads")
        terminal.press("b\n")
        terminal.shows("'Bob'")
        assert terminal.end() == 0


def test_code_that_reads_input_without_a_terminal_does_not_block_the_session(live):
    assert live.run("eval", "input()").returncode == 4
    health = live.run("call", "server_health").stdout
    assert '"unfinished": []' in health


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_command_and_its_evaluation(live, tmp_path, number):
    code = f"print('here', flush=True)\nimport waiting\nwaiting.until_there({str(tmp_path / 'never')!r})"
    with subprocess.Popen(live.command("eval", code), env=live.environ, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "here\n"
        process.send_signal(number)
        process.wait(60)
    assert '"unfinished": []' in live.run("call", "server_health").stdout


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_command_and_its_test_run(live, tmp_path, number):
    lines = ["import time", "", "", "def test_it():", "    print('here', flush=True)", "    time.sleep(600)", ""]
    (live.workspace / "test_endless.py").write_text("\n".join(lines))
    command = live.command("test", "test_endless.py", "--", "-s")
    with subprocess.Popen(command, env=live.environ, stdout=subprocess.PIPE, text=True) as process:
        while "here" not in process.stdout.readline():
            assert process.poll() is None
        process.send_signal(number)
        process.wait(60)
    jobs = json.loads(live.run("call", "status", '{"about": "jobs"}').stdout)["jobs"]
    assert [job["status"] for job in jobs if "test_endless.py" in job["code"]][-1:] == ["interrupted"]


def test_status_reports_running_and_waiting_callers(live, tmp_path):
    code = f"import waiting\nwaiting.until_there({str(tmp_path / 'gate')!r})"
    assert "busy" not in live.run("status").stdout
    with live.client() as ann, live.client() as bob:
        busy = ann.begin_call("evaluate_code", code=code, who="ann", timeoutMs=60_000)
        until(lambda: "  REPL py (python): connected, busy\n    ann for " in live.run("status").stdout, "ann")
        waits = bob.begin_call("evaluate_code", code="1 + 1", who="bob", timeoutMs=60_000)
        until(lambda: "    bob is waiting to run 1 + 1 (" in live.run("status").stdout, "bob")
        output = live.run("status").stdout
        (tmp_path / "gate").touch()
        ann.answer(busy)
        bob.answer(waits)
    assert re.search(r" ann for \d+ s: import waiting \([0-9a-f]+-\d+\)\n", output)
    assert re.search(
        r"bob is waiting .*: the session has been occupied by evaluation [0-9a-f]+-\d+ of ann for \d+ s\n", output
    )


def test_a_replay_in_a_terminal_displays_the_current_evaluation(live, tmp_path):
    file, gate = tmp_path / "slow.jsonl", tmp_path / "gate"
    head = {"format": "codriver-recording", "version": 1, "dialect": "python", "repl": "python"}
    code = f"import os, time\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.01)"
    rows = [head, {"id": "e-1", "code": "1", "values": ["1"]}, {"id": "e-2", "code": code}]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with Terminal(live.command("replay", str(file)), live.environ) as terminal:
        terminal.shows("codriver: evaluation 2 of 2 runs again in a fresh REPL (python) (")
        gate.touch()
        terminal.shows("2 evaluations: 2 the same, 0 differ")
        assert terminal.end() == 0


WHOLE_WAY = "from codriver.commands.cli import main; main()"
LINES = [
    ["eval", "1 + 2 #@"],
    ["eval", "print('a', end=''); 'ü\\ud800' #@"],
    ["eval", "import sys; print('wrong', file=sys.stderr)\n[1, None] #@"],
    ["eval", "None #@"],
    ["eval", "1 / 0\n#@"],
    ["eval", "(1\n#@"],
    ["eval", "input() #@"],
    ["eval", "import time; time.sleep(0.5); print('late'); 5 #@"],
    ["eval", "-1 #@"],
    ["eval", "--", "-1 #@"],
    ["eval", "-q", "list(range(100_000)) #@"],
    ["eval", "1 #@", "2"],
    ["eval", "--json"],
    ["eval", "--workspace", ".", "2 ** 70 #@"],
    ["eval", "-w", "missing", "1"],
    ["eval", "--workspace", "waiting.py", "1"],
    ["eval"],
    ["evil", "1"],
]  # fmt: skip


def test_the_fast_path_prints_exactly_what_the_full_command_prints(live):
    def ran(*start):
        command = [sys.executable, *start]
        return subprocess.run(command, cwd=live.workspace, env=live.environ, capture_output=True, check=False)

    def whole(*words):  # a forked process begins with what the way says
        if not can_fork(live.environ):
            return ran("-c", WHOLE_WAY, *words)
        done = forked.run(words, cwd=live.workspace, env=live.environ)
        done.stdout, done.stderr = done.stdout.encode(), done.stderr.encode()
        return done

    def outcome(done):
        return done.returncode, done.stdout, re.sub(rb"\b[0-9a-f]{4}-\d+\b|<eval \d+>|#[12]", b"ID", done.stderr)

    for words in LINES:  # as other code: a second result of the same code has a note
        item, two = ([word.replace("@", number) for word in words] for number in "12")
        assert outcome(ran("-m", "codriver", *item)) == outcome(whole(*two)), words


OF_THE_SHORT_WAY = [
    "codriver", "codriver.errors", "codriver.files", "codriver.files.codriver_paths",
    "codriver.files.directory_entry", "codriver.files.file_locks", "codriver.files.file_rules",
    "codriver.files.whole_files", "codriver.net", "codriver.net.client", "codriver.net.kernel_sockets",
    "codriver.net.server_record", "codriver.systems", "codriver.systems.file_system", "codriver.systems.machine",
    "codriver_relay", "codriver_relay.hosts", "codriver_relay.peer", "codriver_relay.safe_files",
]  # fmt: skip


def test_a_plain_evaluation_for_a_program_does_not_import_the_command_line(live):
    command = [sys.executable, "-X", "importtime", "-m", "codriver", "eval", "-w", str(live.workspace), "1 + 2 # once"]
    for _ in range(20):  # an answer that takes longer than the first call goes on with the whole command line
        done = subprocess.run(command, env=live.environ, capture_output=True, text=True, check=True)
        assert done.stdout == "3\n"
        names = set(re.findall(r"\| +([\w.]+)$", done.stderr, re.MULTILINE))
        if "codriver.commands.cli" not in names:
            break
    assert not {"click", "mcp", "pydantic", "asyncio", "subprocess", "threading", "shutil"} & names
    assert sorted(name for name in names if name.startswith("codriver")) == OF_THE_SHORT_WAY
