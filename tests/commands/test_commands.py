"""The command line as a person uses it: help, completion, and messages if something is wrong."""

import contextlib
import json
import os
import platform
import re
import shlex
import socket
import subprocess
import sys
import threading
from importlib import metadata
from pathlib import Path

import click
import forked
import posix_only
import pytest
from click.testing import CliRunner
from live_server import WAIT_S, environ, serving, until, until_connected, user_settings_file
from process_states import stopped
from real_repls import repl

from codriver import __version__
from codriver.commands.cli import cli
from codriver.commands.history import comment_markers
from codriver.commands.options import workspace_above
from codriver.files.codriver_paths import server_directory
from codriver.net.registration import claim_workspace
from codriver.net.server_record import is_claimed
from relay.relay_process import claimed


def every_command():
    context = click.Context(cli)
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        yield (name,), command
        if isinstance(command, click.Group):
            yield from (((name, sub), command.commands[sub]) for sub in command.commands)


ALL = dict(every_command())


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_every_command_and_option_has_help(words):
    command = ALL[words]
    assert command.help
    assert command.help.split("\n\n")[0].endswith(".")
    assert command.get_short_help_str(200).endswith(".")
    for option in command.params:
        assert isinstance(option, click.Argument) or option.help, option.name


def test_the_version_output_contains_the_information_for_a_bug_report(tmp_path):
    lines = dict(line.split(" ", 1) for line in run(tmp_path, "--version").stdout.splitlines())
    assert lines["codriver"] == __version__
    assert lines["Python"].startswith(f"{platform.python_version()} (")
    assert lines["mcp"] == metadata.version("mcp")
    assert platform.machine() in lines[platform.system()]


def test_the_list_of_commands_is_not_truncated(tmp_path):
    output = run(tmp_path, "--help").stdout.partition("Commands:")[2]
    assert "..." not in output
    assert all(f"  {name} " in output for name in cli.list_commands(click.Context(cli)))


def run(folder, *arguments, env=None, **kwargs):
    env = {**environ(folder), **(env or {})}
    if not kwargs:
        return forked.run(arguments, env=env, cwd=folder, timeout=WAIT_S)
    return subprocess.run(
        [sys.executable, "-m", "codriver", *arguments], cwd=folder, capture_output=True, text=True, timeout=WAIT_S,
        env=env, check=False, **kwargs,
    )  # fmt: skip


def complete(folder, *words):
    env = {"_CODRIVER_COMPLETE": "bash_complete", "COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
    program = [
        sys.executable,
        "-c",
        "import sys; from codriver.commands.cli import main; sys.argv = ['codriver']; main()",
    ]
    done = subprocess.run(
        program, cwd=folder, capture_output=True, text=True, timeout=WAIT_S, env={**environ(folder), **env}, check=False
    )
    return [line.split(",", 1)[1] for line in done.stdout.splitlines()]


def test_commands_options_and_clients_are_completed(tmp_path):
    assert complete(tmp_path, "codriver", "ini") == ["init"]
    assert set(complete(tmp_path, "codriver", "")) == set(cli.list_commands(click.Context(cli)))
    assert "--dry-run" in complete(tmp_path, "codriver", "init", "--d")
    assert complete(tmp_path, "codriver", "init", "--client", "cla") == ["claude-code", "claude-desktop"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_gets_its_completion_script(tmp_path, shell):
    done = run(tmp_path, "completion", shell)
    assert done.returncode == 0
    assert f"_CODRIVER_COMPLETE={shell}_complete" in done.stdout
    assert "%(" not in done.stdout


def test_bash_accepts_the_completion_script(tmp_path):
    script = run(tmp_path, "completion", "bash").stdout
    done = subprocess.run(
        ["bash", "-c", f"{script}\ncomplete -p codriver"], capture_output=True, text=True, timeout=WAIT_S, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "_codriver_completion" in done.stdout


pytestmark = pytest.mark.served("python", "lisp", settings="goneClientGraceMs = 500\n")


@pytest.fixture(scope="module")
def live(live):
    with live.client() as bare:
        until_connected(bare, 2)
    return live


def test_sessions_and_tools_of_the_running_server_are_completed(live):
    def completed(*words):
        env = {"_CODRIVER_COMPLETE": "bash_complete", "COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
        program = [
            sys.executable,
            "-c",
            "import sys; from codriver.commands.cli import main; sys.argv = ['codriver']; main()",
        ]
        done = subprocess.run(
            program, cwd=live.workspace, capture_output=True, text=True, timeout=WAIT_S, env=live.environ | env,
            check=False,
        )  # fmt: skip
        return [line.split(",", 1)[1] for line in done.stdout.splitlines()]

    assert completed("codriver", "eval", "--session", "") == ["py", "lpy"]
    assert completed("codriver", "eval", "--session", "l") == ["lpy"]
    assert completed("codriver", "call", "list_") == ["list_sessions"]


def test_an_ambiguous_session_error_names_the_option_to_choose(live):
    done = live.run("eval", "1")
    assert done.returncode == 1
    assert done.stderr == "there are several REPL sessions. Choose one with --session: py, lpy\n"


def test_unbalanced_code_is_reported_once_with_a_suggestion(live):
    done = live.run("eval", "(+ 1", "--session", "lpy")
    assert done.returncode == 1
    assert done.stderr.count("never closed") == 1
    assert "with the brackets that the indentation suggests: (+ 1)" in done.stderr


def test_a_failure_is_printed_as_in_the_repl(live):
    done = live.run("eval", "print('before')\n1/0", "--session", "py")
    assert (done.returncode, done.stdout) == (1, "before\n")
    assert done.stderr.splitlines()[-1] == "ZeroDivisionError: division by zero"


def test_code_without_a_value_prints_no_result(live):
    assert live.run("eval", "print('said')", "--session", "py").stdout == "said\n"
    assert live.run("eval", "nil", "--session", "lpy").stdout == "nil\n"


def test_loading_a_file_updates_an_imported_class(live):
    module = live.workspace / "renewed_by_hand.py"
    module.write_text("class Rate:\n    value = 1\n")
    live.run("eval", "import renewed_by_hand; from renewed_by_hand import Rate", "--session", "py")
    module.write_text("class Rate(dict):\n    value = 22\n")
    done = live.run("load", str(module), "--session", "py")
    assert done.stdout.startswith("<module 'renewed_by_hand'")
    assert live.run("eval", "Rate().value, Rate() == {}", "--session", "py").stdout == "(22, True)\n"


def test_a_value_is_printed_whole_unless_a_length_is_given(live, tmp_path):
    file = tmp_path / "squares.py"
    file.write_text("[[number, 'x' * 5000] for number in range(40)]\n")
    whole = f"{[[number, 'x' * 5000] for number in range(40)]}\n"
    assert live.run("load", str(file), "--session", "py").stdout == whole
    assert live.run("eval", file.read_text(), "--session", "py").stdout == whole
    assert live.run("eval", "(vec (range 40))", "--session", "lpy").stdout == f"[{' '.join(map(str, range(40)))}]\n"
    given = json.dumps({"code": "list(range(40))", "replSessionKey": "py"})
    assert json.loads(live.run("call", "evaluate_code", given).stdout)["result"] == str(list(range(40)))
    for words in (("load", str(file)), ("eval", file.read_text())):
        cut = live.run(*words, "--session", "py", "--max-length", "2")
        assert cut.stdout.endswith(", ...]\n")
        assert (
            "cut: 38 of 40 elements, and in 2 more places. Use --max-length to print more or fewer elements"
            in cut.stderr
        )


def test_an_infinite_sequence_is_truncated_with_a_note(live):
    done = live.run("eval", "(range)", "--session", "lpy", "--timeout", "60")
    assert (done.returncode, done.stdout.startswith("(0 1 2 "), "cut: more than 100000." in done.stderr) == (
        0,
        True,
        True,
    )


def test_call_reads_arguments_from_standard_input(live):
    arguments = json.dumps({"code": "(* 6 7)", "replSessionKey": "lpy"})
    done = live.run("call", "evaluate_code", "-", "--json", input=arguments)
    assert done.returncode == 0
    assert "\n" not in done.stdout.strip()
    assert json.loads(done.stdout)["result"] == "42"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("no_such_tool",), "unknown tool 'no_such_tool'"),
        (("list_sessions", "not json"), "the arguments are not valid JSON"),
        (("list_sessions", "[" * 50_000), "the arguments are not valid JSON"),
        (("list_sessions", "[]"), "must be a JSON object"),
        (("no_such_tool", "{}"), "codriver tools --json"),
        (("balance_brackets", "{}"), "text: Field required"),
        (("balance_brackets", '{"text": "", "txt": ""}'), "txt: there is no such argument"),
    ],
)
def test_an_unknown_tool_or_invalid_arguments_are_a_usage_error(live, words, message):
    done = live.run("call", *words)
    assert done.returncode == 2
    assert message in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_a_refusal_of_a_tool_is_a_failure_and_not_a_usage_error(live):
    assert live.run("call", "evaluate_code", '{"code": "1", "replSessionKey": "nope"}').returncode == 1
    assert live.run("call", "repl_output_log", '{"query": "[:find"}').returncode == 1


def test_a_call_that_times_out_has_its_own_exit_status(live):
    gate = live.workspace / "gate of the call"
    code = f"import os, time\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.01)"
    arguments = json.dumps({"code": code, "replSessionKey": "py", "timeoutMs": 1000})
    assert live.run("call", "evaluate_code", arguments).returncode == 4
    gate.touch()


def test_tools_are_listed_one_per_line_if_the_output_is_piped(live):
    lines = live.run("tools").stdout.splitlines()
    assert len(lines) == len(json.loads(live.run("tools", "--json").stdout))


def test_an_unknown_client_or_scope_is_a_usage_error(tmp_path):
    done = run(tmp_path, "init", "--client", "nope", "--dry-run")
    assert done.returncode == 2
    assert "The known clients are claude-code" in done.stderr
    done = run(tmp_path, "init", "--client", "claude-desktop", "--scope", "workspace", "--dry-run")
    assert done.returncode == 2
    assert "Use --scope user" in done.stderr


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("abc", "does not contain a port number"),
        ("", "does not contain a port number"),
        ("99999", "does not contain a port number"),
        ("-1", "does not contain a port number"),
        ("1", "nothing answers on port 1, the port in the workspace's port file (Connection refused)"),
    ],
)
def test_an_invalid_port_file_is_explained(tmp_path, content, words):
    with claimed(tmp_path / ".calva" / "mcp-server") as folder:
        (folder / "port").write_text(content)
        done = run(tmp_path, "eval", "1")
    assert done.returncode == 3
    assert words in done.stderr
    assert "codriver serve" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("answer", "words"), [(b"", "did not answer within"), (b"HTTP/1.1 400 Bad Request\r\n", "is not a Codriver server")]
)
def test_a_listener_that_is_not_a_server_does_not_block_a_command(tmp_path, answer, words):
    def serve():
        connection, _ = listener.accept()
        connection.sendall(answer)
        over.wait(WAIT_S)
        connection.close()

    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        with claimed(tmp_path / ".calva" / "mcp-server") as folder:
            (folder / "port").write_text(str(listener.getsockname()[1]))
            done = run(tmp_path, "status")
        over.set()
        thread.join(WAIT_S)
    assert done.returncode == 3
    assert words in done.stdout


def test_the_workspace_option_works_before_and_after_a_command(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    before, after = str(tmp_path / "one"), str(tmp_path / "two")
    assert f"is running for {before}:" in CliRunner().invoke(cli, ["--workspace", before, "status"]).output
    assert f"is running for {after}:" in CliRunner().invoke(cli, ["-w", before, "status", "-w", after]).output
    assert "mcpSocketServerPort" in CliRunner().invoke(cli, ["-w", before, "config", "show"]).output


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_help_texts_contain_no_formatting_characters(words):
    text = CliRunner().invoke(cli, [*words, "--help"]).output
    assert [mark for mark in ("\\b", "\b", "\f") if mark in text] == []


AS_NOBODY = """import os, sys
from click.testing import CliRunner
from codriver.commands.cli import cli, main
CliRunner().invoke(cli, ["-w", sys.argv[1], "init", "--dry-run"])  # imports all while it can be read
os.chmod(sys.argv[2], 0)
if not os.geteuid():  # root reads any folder
    os.seteuid(65534)
sys.argv = ["codriver", "-w", *sys.argv[2:]]
main()
"""


@pytest.mark.parametrize("words", [["init", "--dry-run"], ["init", "--dry-run", "--client", "all"]], ids=" ".join)
def test_an_unreadable_directory_is_reported_in_one_line(tmp_path, words):
    tmp_path.chmod(0o755)
    (tmp_path / "closed").mkdir()
    command = [sys.executable, "-c", AS_NOBODY, tmp_path, "closed", *words]
    done = subprocess.run(
        command, cwd=tmp_path, env=environ(tmp_path), capture_output=True, text=True, timeout=WAIT_S, check=False
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.startswith(
        f"codriver: {tmp_path / 'closed'} cannot be read: Permission denied. If it is yours, run `chmod"
    )


def test_a_server_that_cannot_be_started_is_explained(tmp_path):
    (tmp_path / ".calva").write_text("")
    done = run(tmp_path, "eval", "--start", "1")
    assert done.returncode == 3
    assert "no server could be started" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(getattr(os, "geteuid", lambda: 1)() != 0, reason="only root can create files of other users")
def test_making_a_group_project_accessible_to_others_is_never_advised(tmp_path):
    directory = tmp_path / ".calva" / "mcp-server"
    directory.mkdir(parents=True)
    for path in (directory, directory.parent, tmp_path):
        os.chown(path, 65534, -1)  # nobody
        path.chmod(0o2775)
    done = run(tmp_path, "eval", "--start", "1")
    assert done.returncode == 3
    assert "the directory belongs to another user. " in done.stderr
    assert f"Make {directory} a writable folder of yours that contains no links, or choose another" in done.stderr


LIGHT = [*([name, "--help"] for name in ("eval", "load", "call", "tools", "status", "stop", "log")), ["--version"]]


@pytest.mark.parametrize("words", LIGHT, ids=" ".join)
def test_fast_commands_import_no_slow_modules(words):
    code = (
        f"import sys\nfrom codriver.commands.cli import cli\ncli.main({words!r}, standalone_mode=False)\n"
        "print(sorted({'mcp', 'mcp_types', 'pydantic', 'anyio', 'asyncio', 'tomlkit', 'regex', 'transit', 'tinydb'}"
        " & set(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert done.stderr == "[]\n"


def test_settings_are_listed_with_their_origin_and_checked(tmp_path):
    (tmp_path / "codriver.toml").write_text("maxDepth = 3\nmaxLenght = 1\n")
    displayed = run(tmp_path, "config", "show", "--json", env={"CODRIVER_WATCH": "yes"})
    rows = {row["setting"]: row for row in json.loads(displayed.stdout)}
    assert rows["maxDepth"] == {
        "setting": "maxDepth", "value": "3", "origin": f"workspace ({tmp_path / 'codriver.toml'})"
    }  # fmt: skip
    assert rows["watch"]["origin"] == "environment (CODRIVER_WATCH)"
    assert rows["maxLength"]["origin"] == "default"
    assert "did you mean maxLength?" in displayed.stderr
    checked = run(tmp_path, "config", "check")
    assert checked.returncode == 1
    assert "did you mean maxLength?" in checked.stdout
    (tmp_path / "codriver.toml").write_text("maxDepth = 0\n")
    for words in (["config", "show"], ["config", "check"], ["serve"]):
        done = run(tmp_path, *words)
        assert done.returncode == 1
        assert "maxDepth = 0 is invalid. Use a whole number from 1 to 1000" in done.stderr
        assert "Traceback" not in done.stderr


def test_checking_the_settings_reports_all_errors(tmp_path):
    (tmp_path / "codriver.toml").write_text('maxDepth = 0\nmaxLenght = 1\nwatch = "x"\n')
    checked = run(tmp_path, "config", "check", env={"CODRIVER_EVENT_LOOP": "none"})
    assert checked.returncode == 1
    lines = checked.stderr.splitlines()
    wrong = (
        "maxDepth = 0 is invalid",
        'watch = "x" is invalid',
        'eventLoop = "none" is invalid',
        "no setting maxLenght",
    )
    assert [[words in line for words in wrong].index(True) for line in lines] == [0, 1, 2, 3]


@pytest.mark.parametrize("words", [["config", "show"], ["serve"]], ids=" ".join)
def test_every_command_that_reads_settings_reports_all_invalid_settings(tmp_path, words):
    (tmp_path / "codriver.toml").write_text('maxDepth = 0\nwatch = "x"\nport = 1\n')
    done = run(tmp_path, *words)
    assert done.returncode == 1
    for reported in (
        "maxDepth = 0 is invalid",
        'watch = "x" is invalid',
        "setting port; did you mean mcpSocketServerPort?",
    ):
        assert reported in done.stderr


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("stats", "`codriver status`"),
        ("serv", "`codriver serve`"),
        ("logs", "`codriver log`"),
        ("zzz", "The commands are "),
    ],
)
def test_the_error_for_an_unknown_command_suggests_similar_commands(word, message):
    done = CliRunner().invoke(cli, [word])
    assert (done.exit_code, message in done.output) == (2, True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["log", "--category", "nope"],
            "there is no category 'nope'. The categories are evaluatedCode, evaluationResults, ",
        ),
        (["log", "--input", "1"], "--input requires --query"),
    ],
    ids=["category", "input"],
)
def test_an_option_value_that_makes_no_sense_is_refused(tmp_path, words, message):
    done = CliRunner().invoke(cli, ["-w", str(tmp_path), *words])
    assert (done.exit_code, message in done.output) == (2, True)


def test_history_is_printed_as_code_that_can_be_pasted(live):
    with live.client(name="ann") as client:
        assert client.call("evaluate_code", code="40 + 2.5", replSessionKey="py")["ok"]
    comment, code = live.run("history", "40 + 2.5").stdout.splitlines()
    assert (comment[:2], code) == ("# ", "40 + 2.5")


def test_a_search_of_the_history_without_matches_is_reported(live):
    assert live.run("history", "no such code").stderr == "nothing in the history contains 'no such code'\n"


def test_a_loaded_file_is_one_line_in_the_history_and_can_be_found_by_its_text(live):
    (live.workspace / "long.py").write_text("FIRST = 1\nSECOND = 2\n")
    with live.client(name="ann") as client:
        assert client.call("load_file", filePath="long.py", replSessionKey="py")["ok"]
    comment, lines = live.run("history", "SECOND = 2").stdout.splitlines()
    assert (comment[:2], lines) == ("# ", "# load long.py")
    assert live.run("history", "long.py").stdout.splitlines()[-1] == lines


def test_history_comments_use_the_comment_sign_of_the_session_language():
    keys = {
        "py": "#",
        "py/ann": "#",
        "py-2/ann-2": "#",
        "clj": ";;",
        "lpy": ";;",
        "hy": ";;",
        "pyre": ";;",
        "work": "#",
    }
    code = {"pyre": ["(def x 1)", "x", "(+ x 1)"], "work": ["x = 1", "print(x)", "("]}
    rows = [(key, text) for key in keys for text in code.get(key, ["x"])]
    assert comment_markers(rows) == keys


def test_the_history_contains_python_code_of_a_renamed_session_after_its_server_has_ended(tmp_path):
    address = f"work={repl('python').endpoint.port}"
    with serving(tmp_path, "--repl", "none", "--nrepl", address) as other, other.client(name="ann") as client:
        until_connected(client)
        assert client.call("evaluate_code", code="months = {1: 'January'}\nmonths[1]")["ok"]
    comment, *code = other.run("history", "months").stdout.splitlines()
    assert (comment[:2], code) == ("# ", ["months = {1: 'January'}", "months[1]"])


def test_the_reason_why_a_repl_failed_to_start_is_printed(tmp_path):
    user_settings_file(tmp_path).write_text('repl = ["no-such-program"]\n')
    with serving(tmp_path) as live:
        until(lambda: "stopped" in live.run("status").stdout, "its end")
        done = live.run("eval", "1")
        assert done.returncode == 6
        assert "no REPL is connected: repl: " in done.stderr
        assert "there is no command 'no-such-program' in PATH" in done.stderr
        assert "list_sessions" not in done.stderr
        again = live.run("call", "restart_repl", '{"replSessionKey": "repl"}')
        assert "there is no command 'no-such-program' in PATH" in again.stdout


def test_following_the_advice_for_a_directory_without_a_repl_works(tmp_path):
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace" / "main.go").write_text("package main\n")
    with serving(tmp_path) as live:
        (line,) = re.findall(r"repl = \[.*?\]", live.run("eval", "6 * 7").stderr)
        (live.workspace / "codriver.toml").write_text(line)
        until(lambda: "connected" in live.run("status").stdout.replace("no REPL is connected", ""), "the REPL")
        assert live.run("eval", "6 * 7").stdout == "42\n"


def test_a_directory_without_a_repl_is_explained_with_advice(tmp_path):
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace" / "main.go").write_text("package main\n")
    with socket.create_server(("127.0.0.1", 0)) as taken, serving(
        tmp_path, "--port", str(taken.getsockname()[1])
    ) as live:  # fmt: skip
        assert " is in use" in live.greeting
        text = [live.run(*words) for words in (("eval", "1"), ("load", live.workspace / "main.go"), ("status",))]
    assert [done.returncode for done in text] == [6, 6, 0]
    for done in text:
        output = done.stdout + done.stderr
        assert "none is running in this workspace" in output
        assert "put repl = ['python']" in output.replace("Put", "put")
        assert not [word for word in ("capability", "session", "list_sessions", "is in use") if word in output]


def test_a_configured_repl_that_was_not_started_is_explained_with_advice(tmp_path):
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace" / "codriver.toml").write_text("repl = ['python']\n")
    with serving(tmp_path, "--repl", "none") as live:
        output = live.run("status").stdout
        assert "repl = ['python'] is started together with the server" in output
        assert "codriver init" not in output
        live.run("stop")
        assert live.run("eval", "--start", "6 * 7").stdout == "42\n"
        live.run("stop")


def test_an_unknown_repl_fails_the_start_before_it_is_announced(tmp_path):
    done = run(tmp_path, "serve", "--repl", "nothing", "--port", "0")
    assert (done.returncode, done.stdout) == (1, "")
    assert "there is no command 'nothing' in PATH. The known REPLs are clojure, " in done.stderr
    assert not server_directory(tmp_path).exists()


def test_a_server_on_a_public_address_prints_where_its_token_is(tmp_path):
    with serving(tmp_path, "--repl", "none", "--host", "0.0.0.0") as live:
        token = live.greeting.strip().rpartition("the token that clients must send is in ")[2]
        assert Path(token).read_text()


def test_a_command_in_a_subdirectory_uses_and_names_the_workspace_that_contains_it(tmp_path):
    with serving(tmp_path, "--repl", "none") as live:
        inner = live.workspace / "a" / "b"
        inner.mkdir(parents=True)
        status = run(inner, "status", env=live.environ)
        assert status.stdout.startswith(f"running: pid {live.process.pid} ")
        assert status.stderr == f"codriver: using the workspace {live.workspace}\n"
        as_json = run(inner, "status", "--json", env=live.environ)
        assert (json.loads(as_json.stdout)["pid"], as_json.stderr) == (live.process.pid, "")
        exact = run(inner, "status", "--workspace", ".", env=live.environ)
        assert (exact.returncode, f"is running for {inner}:" in exact.stdout) == (3, True)
        with serving(inner, "--repl", "none", "--workspace", str(inner)) as own:
            assert own.greeting == (
                f"codriver: another server is running for a parent folder. See `codriver status -w {live.workspace}`\n"
            )
            assert str(inner) in own.process.stdout.readline()


@pytest.mark.parametrize("mark", ["codriver.toml", "pyproject.toml", "deps.edn", ".calva/mcp-server/lock"])
def test_the_nearest_directory_with_a_marker_file_is_the_workspace(tmp_path, mark):
    inner = tmp_path / "project" / "a" / "b"
    inner.mkdir(parents=True)
    for folder in (tmp_path, tmp_path / "project"):
        (folder / mark).parent.mkdir(parents=True, exist_ok=True)
        (folder / mark).touch()
    assert workspace_above(inner) == tmp_path / "project"
    assert workspace_above(tmp_path / "project") is None


def test_home_and_world_writable_directories_are_not_searched_for_workspaces(tmp_path, monkeypatch):
    inner = tmp_path / "shared" / "mine" / "a"
    inner.mkdir(parents=True)
    for folder in (tmp_path, tmp_path / "shared"):
        (folder / "pyproject.toml").touch()
    assert workspace_above(inner) == tmp_path / "shared"
    monkeypatch.setenv("HOME", str(tmp_path / "shared"))
    assert workspace_above(inner) is None
    monkeypatch.setenv("HOME", str(tmp_path / "shared" / "mine"))
    assert workspace_above(inner) is None
    monkeypatch.delenv("HOME")
    monkeypatch.setenv("TMPDIR", str(tmp_path / "shared"))
    assert workspace_above(inner) is None
    monkeypatch.delenv("TMPDIR")
    (tmp_path / "shared").chmod(0o777)
    assert workspace_above(inner) is None


def test_a_background_server_detaches_from_the_process_that_started_it(tmp_path):
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    command = [sys.executable, "-m", "codriver", "serve", "--repl", "none", "--port", "0", "--detach"]
    given = {"cwd": workspace, "env": environ(tmp_path), "capture_output": True, "text": True, "timeout": WAIT_S}
    started = subprocess.run(command, check=False, **given)
    try:
        assert (started.returncode, started.stderr) == (0, "")
        assert started.stdout.startswith("codriver listens on 127.0.0.1:")
        process = json.loads((server_directory(workspace) / "server.json").read_text())["pid"]
        assert posix_only.session_of(process) != posix_only.session_of(0)
    finally:
        subprocess.run([*command[:3], "stop"], check=True, **given)


def test_a_hung_server_is_reported_with_the_command_that_kills_it(tmp_path):
    with serving(tmp_path, "--repl", "none") as live:
        with stopped(live.process.pid):
            reported, examined = live.run("stop"), live.run("doctor")
        for done in (reported, examined):
            assert done.returncode == 1
            assert f"kill -9 {live.process.pid}" in done.stdout + done.stderr
        assert "did not answer within" in examined.stdout
        # What `stop` sent it while it hung ends it as soon as it goes on.
        assert live.process.wait(WAIT_S) == 0
        live.process.wait(WAIT_S)
        assert live.run("stop").stdout == "no server is running for this workspace\n"


@pytest.mark.parametrize("is_reaped", [True, False])
def test_a_killed_server_is_reported_as_dead_and_its_files_are_removed(tmp_path, is_reaped):
    with serving(tmp_path, "--repl", "none") as live:
        folder = live.port_file.parent
        live.process.kill()
        if is_reaped:
            live.process.wait(WAIT_S)
        until(lambda: is_claimed(folder) is False, "the end of the server")
        token = ", token" if (folder / "token").exists() else ""
        assert live.run("stop").stdout == (
            f"no server is running for this workspace. The last one, pid {live.process.pid}, died without "
            f"removing its files. They have been removed: port, server.json{token}\n"
        )
        assert live.run("stop").stdout == "no server is running for this workspace\n"


HELD_BACK = """
import os, time
from codriver.net import relay_install
install = relay_install.install_relay
def install_later(*args):
    print("held", flush=True)
    while not os.path.exists("gate"):
        time.sleep(0.01)
    return install(*args)
relay_install.install_relay = install_later
from codriver.commands.cli import main
main()
"""
"""A server that holds its workspace's lock and goes on with its start when there is a file `gate`."""


def test_stop_waits_for_a_starting_server_and_stops_it(tmp_path):
    piped = {"cwd": tmp_path, "env": environ(tmp_path), "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    serve = [sys.executable, "-c", HELD_BACK, "serve", "--port", "0", "--repl", "none"]
    with subprocess.Popen(serve, **piped, text=True) as server:
        try:
            assert server.stdout.readline() == "held\n"
            with subprocess.Popen([sys.executable, "-m", "codriver", "stop"], **piped, text=True) as stop:
                assert "is starting or stopping" in stop.stderr.readline()
                (tmp_path / "gate").touch()
                output, _ = stop.communicate(timeout=WAIT_S)
        finally:
            server.kill()
    assert (stop.returncode, output) == (0, f"stopped pid {server.pid}\n")


ENDS_LATE = """
import time
from codriver.commands.cli import main
try:
    main()
finally:
    time.sleep(0.5)  # far longer than a command that does not wait needs to print its answer
    open("ended", "w").close()
"""
"""A server whose process ends later than it stops serving."""


@contextlib.contextmanager
def ending_late(folder, *more):
    serve = [sys.executable, "-c", ENDS_LATE, "serve", "--port", "0", "--repl", "none", *more]
    with subprocess.Popen(serve, cwd=folder, env=environ(folder), stdout=subprocess.PIPE, text=True) as server:
        try:
            server.stdout.readline()
            yield server
        finally:
            server.kill()


def test_stop_waits_until_the_process_of_the_server_has_ended(tmp_path):
    with ending_late(tmp_path) as server:
        stop = subprocess.run(
            [sys.executable, "-m", "codriver", "stop"], cwd=tmp_path, env=environ(tmp_path), capture_output=True,
            text=True, timeout=WAIT_S, check=False,
        )  # fmt: skip
        assert (stop.returncode, stop.stdout) == (0, f"stopped pid {server.pid}\n")
        assert (tmp_path / "ended").exists()


def test_stop_reports_a_server_that_has_stopped_serving_but_does_not_end(tmp_path, monkeypatch):
    monkeypatch.setattr("codriver.commands.stop.EXIT_TIMEOUT_S", 0.1)
    with ending_late(tmp_path, "--workspace", str(tmp_path)) as server:
        monkeypatch.setattr("codriver.commands.stop.has_exited", lambda _pid: False)
        done = CliRunner().invoke(cli, ["stop", "--workspace", str(tmp_path)])
    text = f"pid {server.pid} has stopped serving this workspace, but its process is still ending\n"
    assert (done.exit_code, done.output) == (0, text)


def test_a_server_that_hangs_during_its_start_is_reported_with_advice(tmp_path, monkeypatch):
    monkeypatch.setattr("codriver.commands.stop.STARTING_TIMEOUT_S", 0.1)
    folder = server_directory(tmp_path)
    with claim_workspace(folder, is_alive=lambda _record: False):
        done = CliRunner().invoke(cli, ["stop", "--workspace", str(tmp_path)])
    assert done.exit_code == 1
    assert f"fuser {folder / 'lock'}" in done.output
    assert "no server is running" not in done.output
    again = CliRunner().invoke(cli, ["stop", "--workspace", str(tmp_path)])
    assert (again.exit_code, again.output) == (0, "no server is running for this workspace\n")


def follow(live, message, before):
    """Run the command line that follows `before` in a printed text, and return its output."""
    line = next(line for line in message.splitlines() if before in line).partition(f"{before}: ")[2]
    program, *words = shlex.split(line)
    assert program == "codriver"
    done = subprocess.run(
        [sys.executable, "-m", program, *words], env=live.environ, capture_output=True, text=True, timeout=WAIT_S,
        check=False,
    )  # fmt: skip
    return json.loads(done.stdout)


def test_a_running_evaluation_is_reported_with_the_command_that_waits_for_it(live):
    gate = live.workspace / "gate"
    code = f"import os, time\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.01)\n'through'"
    done = live.run("eval", code, "--session", "py", "--timeout", "1")
    assert done.returncode == 4
    assert "with this evaluationId" not in done.stderr
    assert "codriver call interrupt_evaluation" in done.stderr
    gate.touch()
    assert follow(live, done.stderr, "to wait for its result")["result"] == "'through'"


def test_an_evaluation_waiting_for_input_ends_with_its_command(live):
    done = live.run("eval", "input()", "--session", "py", "--timeout", "30")
    assert done.returncode == 4
    assert "was interrupted because it reads standard input" in done.stderr
    assert "codriver call" not in done.stderr
    assert live.run("eval", "'free'", "--session", "py").stdout == "'free'\n"
