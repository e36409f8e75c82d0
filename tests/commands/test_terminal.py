"""Text from others cannot control the terminal that a command writes to, and piped output is unchanged."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import forked
import posix_only
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from live_server import Live, environ, serving, until, user_settings_file
from terminal import Terminal

from codriver.commands.terminal import Styled, wrap_text
from relay.relay_process import claimed

WAIT_S = 60
EVIL = "\x1b]52;c;aGk=\x07\x9b31m\x00\u202egnp\u2066\x7f"
"""The clipboard, a colour in C1, NUL, two overrides of direction, DEL."""
SEEN = r"\x1b]52;c;aGk=\x07\x9b31m"
OURS = re.compile(rb"\x1b\[[0-9;]*m|\r\n|[\n\t]")
"""What our own output has: colours, and line ends as the terminal writes them."""


@pytest.fixture(scope="module")
def client(live):
    with live.client(name=f"evil{EVIL}\n  REPL forged") as item:
        until(lambda: "interrupt_evaluation" in item.tools(), "the REPL")
        item.call("evaluate_code", code=f"print({EVIL!r})  # {EVIL.replace(chr(0), '')}", who="ann")
        item.call("evaluate_code", code=f"import sys; print({EVIL!r}, file=sys.stderr)", who="ann")
        yield item


def on_terminal(command, env):
    """Return the exit status of a command in a terminal, and the bytes that it wrote."""
    with Terminal(command, env, columns=200, is_forked=True) as terminal:
        return terminal.end(), terminal.output


def obeyed(output):
    """Return the characters that a terminal would act on and that are not our own."""
    text = OURS.sub(b"", output).decode("utf-8")
    return {char for char in text if not char.isprintable()}


COMMANDS = {
    "log": ["log"],
    "history": ["history"],
    "status": ["status"],
    "eval": ["eval", f"import sys; print({EVIL!r}); print({EVIL!r}, file=sys.stderr); {EVIL!r}"],
    "eval that fails": ["eval", f"raise ValueError({EVIL!r})"],
    "call": ["call", "repl_output_log"],
    "call --json": ["call", "repl_output_log", "--json"],
    "call of no tool": ["call", f"no{EVIL.replace(chr(0), '')}"],
    "log --json": ["log", "--json"],
    "log --query": ["log", "--query", "[:find [?t ...] :where [_ :output/text ?t]]"],
    "status --json": ["status", "--json"],
    "no option": ["log", f"--no{EVIL.replace(chr(0), '')}"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_no_escape_sequence_from_other_programs_reaches_the_terminal(live, client, name):
    word, *options = COMMANDS[name]
    _, output = on_terminal(live.command(word, *options), live.environ)
    assert obeyed(output) == set()
    if name in ("log", "history", "status", "eval", "eval that fails"):
        assert SEEN in output.decode()


@pytest.mark.parametrize("words", [["status"], ["log"], ["doctor"]], ids=" ".join)
def test_colors_are_used_in_a_terminal_or_on_request(live, client, words):
    colour = b"\x1b["
    word, *options = words

    def is_coloured(on, *more, **variables):
        env = {name: text for name, text in live.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")} | variables
        if on == "terminal":
            return colour in on_terminal(live.command(word, *options, *more), {**env, "TERM": "xterm-256color"})[1]
        done = forked.run(live.command(word, *options, *more)[3:], env=env)
        return colour in done.stdout.encode().replace(EVIL.encode(), b"")

    assert is_coloured("terminal")
    assert not is_coloured("terminal", NO_COLOR="1")
    assert is_coloured("terminal", "--color", "always", NO_COLOR="1")
    assert not is_coloured("terminal", "--color", "never")
    if word != "log":  # there the program's own colours are piped, too
        assert not is_coloured("pipe")
        assert not is_coloured("pipe", "--color", "never", FORCE_COLOR="1")
    assert is_coloured("pipe", FORCE_COLOR="1")
    assert is_coloured("pipe", "--color", "always")


PATIENT = """
import sys, threading
from codriver.commands import terminal
terminal.WAITING_LINE_DELAY_S = 0.01
asked = threading.Event()
with terminal.waiting_line(lambda: (asked.set(), "it takes a while")[1]):
    if sys.argv[1] == "slow":
        asked.wait(60)
        [thread.join() for thread in threading.enumerate() if isinstance(thread, threading.Timer)]
with terminal.waiting_line(lambda: ""):
    [thread.join() for thread in threading.enumerate() if isinstance(thread, threading.Timer)]
print("done", threading.active_count())
"""


def test_a_slow_step_is_announced_once_and_only_in_a_terminal():
    env = environ(Path.cwd()) | {"TERM": "dumb"}
    with Terminal([sys.executable, "-c", PATIENT, "slow"], env, columns=200, name="dumb") as terminal:
        assert terminal.end() == 0
    assert terminal.output == b"codriver: it takes a while\r\ndone 1\r\n"
    piped = [sys.executable, "-c", PATIENT, "fast"]
    done = subprocess.run(piped, env=env, capture_output=True, timeout=WAIT_S, check=True)
    assert (done.stdout, done.stderr) == (b"done 1\n", b"")


LIVE = """
import sys, threading, click
from codriver.commands import terminal
terminal.WAITING_LINE_DELAY_S = terminal.UPDATE_INTERVAL_S = 0.01
seen = threading.Semaphore(0)
def words():
    seen.release()
    return "it takes\\n a while"
def drawn():
    while seen.acquire(blocking=False):
        pass
    for _ in range(3):  # the words are requested again after they were drawn
        seen.acquire()
with click.Context(click.Command("wait")), terminal.waiting_line(words) as waiting:
    drawn()
    terminal.echo("meanwhile", err=sys.argv[1] == "err")
    drawn()
    with waiting.hidden():
        terminal.echo("typing ", end="")
    drawn()
terminal.echo("done")
"""


@pytest.mark.parametrize("stream", ["out", "err"])
def test_the_progress_line_is_replaced_by_other_output(stream):
    with Terminal([sys.executable, "-c", LIVE, stream], environ(Path.cwd()), columns=200) as terminal:
        assert terminal.end() == 0
    assert b"\rcodriver: it takes  a while (0 s)\x1b[K" in terminal.output
    assert terminal.output.count(b"\r\x1b[K") >= 2
    lines = [line for line in terminal.grid.text() if line]
    assert lines == ["meanwhile", "done"], lines


def test_waiting_for_a_starting_repl_is_displayed(tmp_path):
    user_settings_file(tmp_path).write_text(f"repl = [\"sh -c 'read line < {tmp_path}/gate'\"]\n")
    posix_only.make_pipe(tmp_path / "gate")
    with serving(tmp_path) as live, Terminal(live.command("eval", "1"), live.environ, columns=200) as terminal:
        terminal.shows("codriver: waiting for the REPL repl: starting sh")
        (tmp_path / "gate").write_text("go\n")


def test_a_quiet_server_prints_nothing_and_quiet_commands_print_only_their_result(tmp_path):
    quiet = Live(tmp_path, "--repl", "python", "--quiet", is_awaited=False)
    try:
        until(quiet.port_file.exists, "the server")
        assert quiet.run("eval", "--start", "list(range(9))", "--max-length", "2", "-q").stderr == ""
        report = quiet.run("doctor", "-q").stdout
        assert not [line for line in report.splitlines() if line.startswith("ok ")]
    finally:
        quiet.process.send_signal(signal.SIGTERM)
        assert quiet.process.communicate(timeout=WAIT_S)[0] == ""


def test_control_characters_in_a_followed_log_are_escaped(live, client):
    with Terminal(live.command("log", "--follow"), live.environ, columns=200) as terminal:
        terminal.shows("gnp")
        client.call("evaluate_code", code=f"print('followed' + {EVIL!r})")
        terminal.shows(f"followed{SEEN}")
        assert obeyed(terminal.output) == set()


def test_a_name_with_several_lines_is_printed_on_one_line(live, client):
    assert [line for line in live.run("status").stdout.splitlines() if line.startswith("  REPL forged")] == []


def test_piped_output_is_unchanged(live, client):
    coloured = "\x1b[31mred\x1b[0m" + EVIL
    done = live.run("eval", f"import sys; print({coloured!r}); print({EVIL!r}, file=sys.stderr)")
    assert (done.stdout, done.stderr) == (f"{coloured}\n", f"{EVIL}\n")
    assert f"print({EVIL!r})" in live.run("history").stdout


@pytest.mark.parametrize("words", [["log", "--json"], ["call", "repl_output_log"], ["status", "--json"]])
def test_escaped_json_is_equivalent_to_the_original(live, client, words):
    done = live.run(*words)
    assert obeyed(done.stdout.encode()) == set()
    read = [json.loads(line) for line in done.stdout.splitlines()] if words[0] == "log" else json.loads(done.stdout)
    assert EVIL.replace("\x00", "") in json.dumps(read, ensure_ascii=False).replace("\\u0000", "").replace(
        "\\u001b", "\x1b"
    ).replace("\\u0007", "\x07")


SETTINGS = 'logMaxEntities = "{0}"\n"{0}" = 1\npython = "{0}"\n'.format(
    r"\u001B]52;c;aGk=\u0007\u009b31m\u202Egnp\u007f\nwrong"
)


@pytest.mark.parametrize("words", ["config check", "config show", "doctor", "init --dry-run", "stop", "trust"])
def test_control_characters_in_text_from_the_workspace_are_escaped(tmp_path, words):
    workspace = tmp_path / "work\x1b]0;owned\x07\u202e"
    workspace.mkdir()
    (workspace / "codriver.toml").write_text(SETTINGS)
    command = [sys.executable, "-m", "codriver", *words.split(), "--workspace", str(workspace)]
    _, output = on_terminal(command, environ(tmp_path))
    assert output
    assert obeyed(output) == set()
    assert b"Traceback" not in output


def test_a_server_in_a_terminal_escapes_its_output(tmp_path):
    workspace = tmp_path / "work\x1b]0;owned\x07\u202e"
    workspace.mkdir()
    command = [
        sys.executable,
        "-m",
        "codriver",
        "serve",
        "--port",
        "0",
        "--repl",
        "none",
        "--workspace",
        str(workspace),
    ]
    with Terminal(command, environ(tmp_path), columns=200) as terminal:
        terminal.shows("127.0.0.1")
        terminal.process.terminate()
        terminal.end()
        assert obeyed(terminal.output) == set()


ANSWERS = {
    "nothing": {},
    "no fields": {"structuredContent": {}},
    "a list": {"structuredContent": [1]},
    "all numbers": {
        "structuredContent": {
            "ok": True, "pid": 1, "host": 2, "port": 3, "startedAt": 4, "repls": 5, "clients": 6, "errors": 7,
            "result": 8, "lastLine": 9, "values": 10, "stdout": 11, "status": 12, "gap": 13,
        }
    },
    "rows that are none": {
        "structuredContent": {
            "ok": True, "repls": [1], "clients": ["x"], "errors": [None], "result": [1, {}], "lastLine": "x", "gap": 0,
            "pid": 1, "host": 1, "port": 1, "startedAt": 1,
        }
    },
    "rows without fields": {
        "structuredContent": {"ok": True, "repls": [{}], "clients": [{}], "errors": [{}], "result": [{}]}
    },
    "a refusal with no words": {"structuredContent": {"ok": False}},
    "a refusal with evil words": {"structuredContent": {"ok": False, "message": EVIL, "hint": EVIL}},
}  # fmt: skip
LINES = {
    "no JSON": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "no UTF-8": b'{"jsonrpc":"2.0","id":2,"result":"\xff\xfe"}\n',
    "too deep": b"[" * 100_000 + b"\n",
    "an error that is a word": b'{"jsonrpc":"2.0","id":2,"error":"\\u001b]52;c;aGk=\\u0007"}\n',
    "an error with a strange code": b'{"jsonrpc":"2.0","id":2,"error":{"code":[],"message":"\\u001b]0;x\\u0007"}}\n',
    "the end": b"",
}
CASES = {name: json.dumps({"jsonrpc": "2.0", "id": 2, "result": a}).encode() + b"\n" for name, a in ANSWERS.items()}
ASKING = [["status"], ["log"], ["log", "--follow"], ["history"], ["eval", "1"], ["tools"], ["watch"], ["doctor"]]
SHOWING = [["call", "list_sessions"], ["log", "--query", "[:find ?e]"], ["status", "--json"]]
"""Commands that show whatever came."""
MOST = ("no fields", "all numbers", "rows that are none", "no UTF-8")
PAIRS = [
    (name, words)
    for name in (*CASES, *LINES)
    for words in (*ASKING, *SHOWING)
    if words[0] in ("status", "doctor") or words == ["log"] or name in MOST
]


class Strange:
    """A listener that makes the handshake like a server, and sends the same answer to each later request."""

    def __init__(self, folder, line):
        self.line = line
        self.listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self.accept, daemon=True).start()
        self.folder = folder / ".calva" / "mcp-server"

    def named(self):
        """Write the files that name it, and hold the lock, for the duration of the context."""
        context = contextlib.ExitStack()
        context.enter_context(self.listener)
        context.enter_context(claimed(self.folder))
        (self.folder / "port").write_text(str(self.listener.getsockname()[1]))
        return context

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.answer, args=(connection,), daemon=True).start()

    def answer(self, connection):
        with connection, connection.makefile("rb") as file:
            for line in file:
                message = json.loads(line)
                if message.get("method") == "codriver/token":
                    ours = {"workspace": message["params"]["workspace"]}
                    fields = {"jsonrpc": "2.0", "method": "codriver/workspace", "params": ours}
                    connection.sendall(json.dumps(fields).encode() + b"\n")
                elif message.get("method") == "initialize":
                    connection.sendall(b'{"jsonrpc":"2.0","id":1,"result":{"serverInfo":{"name":"x"}}}\n')
                elif "id" in message:
                    with contextlib.suppress(OSError):  # the command has exited
                        connection.sendall(self.line.replace(b'"id": 2,', b'"id": %d,' % message["id"]))
                        if not self.line.endswith(b'"result": {}}\n'):
                            connection.shutdown(socket.SHUT_WR)


@pytest.mark.parametrize(
    ("name", "words"), PAIRS, ids=lambda value: value if isinstance(value, str) else " ".join(value)
)
def test_an_invalid_answer_of_a_server_is_reported(tmp_path, name, words):
    strange = Strange(tmp_path, (CASES | LINES)[name])
    with strange.named():
        done = forked.run([*words, "--workspace", str(tmp_path)], env=environ(tmp_path), timeout=WAIT_S)
    assert "Traceback" not in done.stderr + done.stdout
    assert (done.stdout + done.stderr).strip()
    assert "no codriver server is running" not in done.stdout + done.stderr
    if words in ASKING and (name, words[0]) != ("rows that are none", "eval"):  # a result of any kind is shown
        assert done.returncode != 0


def test_a_character_missing_from_the_terminals_encoding_causes_no_failure(live, client):
    ascii_only = {**live.environ, "PYTHONIOENCODING": "ascii"}
    code = "print('caf\\u00e9'); '\\u6f22'"
    for options in ([], ["--json"]):
        done = subprocess.run(
            live.command("eval", code, *options), env=ascii_only, capture_output=True, text=True, check=False,
            timeout=WAIT_S,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")
        assert r"\xe9" in done.stdout or r"\u00e9" in done.stdout
    assert os.environ.get("PYTHONIOENCODING") is None


@example(["aaa", "aaaaaaaaa", "aaaaaaaaa"], 20, 0)
@given(st.lists(st.text(alphabet="ab \n", max_size=60), max_size=4), st.integers(20, 60), st.integers(0, 10))
def test_lines_are_wrapped_between_words_without_changing_text(texts, columns, hang):
    reported = "".join(item.text for item in wrap_text(map(Styled, texts), columns, hang))
    assert reported.split() == "".join(texts).split()
    for line in reported.split("\n"):
        if len(line.rstrip()) > columns:
            words = line.split()
            assert len(words) == 1 or line.startswith(" " * (columns - 2)) or line.rfind(words[-1]) <= hang


def test_a_wrapped_line_is_indented_and_no_word_is_split():
    text = "wrong  server  this is what has to be done about it"
    assert "".join(item.text for item in wrap_text([Styled(text)], 30, 15)) == (
        "wrong  server  this is what\n               has to be done\n               about it"
    )
    assert wrap_text([Styled("no room")], 10, 8) == [Styled("no room")]
