"""`codriver export` and `codriver replay`: turning a session into a test, and running a recording again."""

import json
import os
import subprocess
import sys
from xml.etree import ElementTree as ET

import pytest
from forked import Forked, can_fork
from live_server import serving
from python_projects import project


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("export"), "--repl", "python") as running:
        (running.workspace / "shop.py").write_text("def price(n):\n    return n * 3\n")
        with running.client() as client:
            for code, why in [
                ("from shop import price", "checkpoint: prices"),
                ("price(2)", None),
                ("price('a', 'b')", None),
                ("prize(2)", None),
                ("import time\nstarted = 1\ntime.sleep(600)", None),
                ("started", None),
                ("import os\nos.getpid()", None),
            ]:
                waiting = {"timeoutMs": 1000, "onTimeout": "interrupt"} if "sleep" in code else {}
                client.call("evaluate_code", code=code, **waiting, **({"description": why} if why else {}))
            log = client.call("repl_output_log", category=["evaluatedCode"])["result"]
        running.ids = [entry["evaluation"] for entry in log]
        yield running


def written(live, name, *options):
    done = live.run("export", *options, "-o", str(live.workspace / name))
    return done, live.workspace / name


def test_an_exported_session_is_a_passing_test_that_fails_when_the_code_changes(live):
    done, file = written(live, "test_prices.py", "--since", "prices")
    assert done.returncode == 0, done.stderr
    text = file.read_text()
    assert "assert price(2) == 6" in text
    assert "with pytest.raises(TypeError, match=" in text
    tests, _, left_out = text.partition("# Left out:")
    assert "prize" not in tests
    assert "sleep" not in tests, "what was interrupted has no end"
    assert "the code was interrupted" in left_out
    assert "assert started == 1" in tests
    assert "os.getpid()" in done.stderr, "what differs is said"
    assert "1 differ and are marked" in done.stderr
    assert passes(live, file)
    (live.workspace / "shop.py").write_text("def price(n):\n    return n * 4\n")
    assert not passes(live, file)
    (live.workspace / "shop.py").write_text("def price(n):\n    return n * 3\n")


def passes(live, file):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", file.name]
    environ = {
        **os.environ, "PYTHONPATH": str(live.workspace), "PYTHONDONTWRITEBYTECODE": "1",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }  # fmt: skip
    return subprocess.run(command, cwd=live.workspace, env=environ, timeout=60, check=False).returncode == 0


def test_an_existing_file_is_replaced_only_if_forced(live):
    file = live.workspace / "kept.py"
    file.write_text("mine\n")
    done = live.run("export", "--last", "1", "-o", str(file))
    assert done.returncode == 1
    assert "--force" in done.stderr
    assert file.read_text() == "mine\n"


@pytest.mark.parametrize("where", ["outside", "link"])
def test_nothing_is_written_outside_the_workspace(live, tmp_path, where):
    file = tmp_path / "x.jsonl"
    if where == "link":
        (live.workspace / "away").symlink_to(tmp_path)
        file = live.workspace / "away" / "x.jsonl"
    done = live.run("export", "--last", "1", "-o", str(file))
    assert done.returncode == 1
    assert not (tmp_path / "x.jsonl").exists()


def test_a_recording_is_listed_and_differences_are_reported_when_it_is_replayed(live):
    done, file = written(live, "prices.jsonl", *live.ids[:4])
    assert done.returncode == 0, done.stderr
    assert "recording: prices.jsonl" in live.run("forget").stdout
    report = live.workspace / "replay.xml"
    done = live.run("replay", str(file), "--junit", str(report))
    assert done.returncode == 0, done.stdout
    assert "4 evaluations: 4 the same, 0 differ" in done.stdout
    assert ET.parse(report).getroot().attrib["tests"] == "4"
    file.write_text(file.read_text().replace('["6"]', '["7"]'))
    done = live.run("replay", str(file), "--junit", str(report), "--quiet")
    assert done.returncode == 1
    assert "recorded: 7; in a fresh REPL: 6" in done.stdout
    assert ET.parse(report).getroot().attrib["failures"] == "1"


def test_a_recording_that_contains_a_command_line_is_refused(live):
    mark = live.workspace / "ran"
    done, file = written(live, "hostile.jsonl", *live.ids[:1])
    assert done.returncode == 0, done.stderr
    head, *rows = file.read_text().splitlines()
    head = json.dumps(json.loads(head) | {"repl": f"touch {mark}"})
    file.write_text("\n".join([head, *rows]))
    done = live.run("replay", str(file))
    assert (done.returncode, "names a command line" in done.stderr) == (2, True), done.stderr
    assert not mark.exists()


def test_evaluations_are_selected_by_exactly_one_option(live):
    assert live.run("export", "--last", "1", "--since", "prices").returncode == 2
    done = live.run("export", "--since", "nowhere")
    assert done.returncode == 1
    assert "checkpoint: nowhere" in done.stderr


def test_a_query_selects_evaluations_by_id(live):
    query = '[:find [?id ...] :where [?e :output/evaluation ?id] [?e :output/text "price(2)"]]'
    done = live.run("export", "--query", query, "--format", "recording")
    assert done.returncode == 0
    assert [line.count("price(2)") for line in done.stdout.splitlines()] == [0, 1]


def test_exporting_does_not_run_code_in_the_repl_of_the_session(live):
    with live.client() as client:
        before = client.call("evaluate_code", code="import os\nos.getpid()")["result"]
        live.run("export", live.ids[-1], "--format", "test")
        assert client.call("evaluate_code", code="os.getpid()")["result"] == before
        assert len(client.call("list_sessions")["sessions"]) == 1


def test_exported_tests_assert_module_state_and_workspace_files(tmp_path):
    with serving(tmp_path, "--repl", "python") as live, live.client() as client:
        (live.workspace / "data.txt").write_text("hello")
        (live.workspace / "acc.py").write_text("n = 0\ndef inc(by=1):\n    global n\n    n += by\n    return n\n")
        for code in ("open('data.txt').read()", "import acc\nacc.inc()", "acc.inc(10)"):
            assert client.call("evaluate_code", code=code)["ok"]
        done, file = written(live, "test_acc.py", "--last", "3")
        assert done.returncode == 0, done.stderr
        text = file.read_text()
        asserted = ("assert open('data.txt').read() == 'hello'", "assert acc.inc() == 1", "assert acc.inc(10) == 11")
        assert [item for item in asserted if item not in text] == []
        assert passes(live, file)
        (live.workspace / "acc.py").write_text("n = 0\ndef inc(by=1):\n    global n\n    n += 2 * by\n    return n\n")
        assert not passes(live, file)


GATED = "import pathlib, time\nprint('waits')\nwhile not pathlib.Path('gate/open').exists():\n    time.sleep(0.01)"


@pytest.mark.parametrize("command", [["replay"], ["export", "--last", "1"]], ids=["replay", "export"])
def test_output_of_replayed_code_is_streamed(live, command):
    gate = live.workspace / "gate" / "open"  # a fresh REPL has links to the existing directories
    gate.parent.mkdir(exist_ok=True)
    gate.touch()
    with live.client() as client:
        assert client.call("evaluate_code", code=GATED)["ok"]
    done, file = written(live, f"gated-{command[0]}.jsonl", "--last", "1")
    assert done.returncode == 0, done.stderr
    gate.unlink()
    words = live.command(command[0], *command[1:], *([str(file)] if command == ["replay"] else []))
    piped = {"env": live.environ, "stderr": subprocess.PIPE}
    if can_fork(live.environ):
        running = Forked(words[3:], **piped)
    else:
        running = subprocess.Popen(words, **piped, stdout=subprocess.PIPE, text=True)
    assert running.stderr.readline() == "waits\n"
    gate.touch()
    output, rest = running.communicate(timeout=60)
    assert running.returncode == 0, output + rest
    assert "waits" not in rest, "a document's own runs are not told"
    if command == ["replay"]:
        assert "waits" not in live.run("replay", str(file), "--quiet").stderr


def test_the_fresh_repl_uses_the_servers_interpreter_or_the_requested_interpreter(tmp_path):
    project(tmp_path / "other", has_pytest=False)
    python = tmp_path / "other" / "workspace" / ".venv" / "bin" / "python"
    with serving(tmp_path, "--repl", "python", "--python", str(python)) as live:
        with live.client() as client:
            client.call("evaluate_code", code="import sys; sys.prefix")
        file, document = live.workspace / "session.jsonl", live.workspace / "test_prefix.py"
        for words in (("-o", str(file)), ("-o", str(document))):
            assert live.run("export", *words).returncode == 0
        assert "sys.prefix" in document.read_text()
        assert live.run("replay", str(file)).returncode == 0
        live.run("stop")
        assert live.run("replay", str(file), "--python", str(python)).returncode == 0
