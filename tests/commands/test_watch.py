"""`codriver watch` on a real terminal: readable, never garbled, and gone without a trace."""

import contextlib
import json
import re
import shutil
import signal
import subprocess
import sys

import pytest
from live_server import serving, until
from terminal import Terminal

from codriver.commands.followers import Follower, followed
from codriver.net.client import connect

pytestmark = pytest.mark.served(client="ann")


def watching(live, *options, **kwargs):
    return Terminal(live.command("watch", *options), live.environ, **kwargs)


def row_of(lines, text):
    return next(line for line in lines if text in line)


def test_an_evaluation_is_one_row_with_who_where_what_and_what_came_of_it(live, client):
    with watching(live) as terminal:
        terminal.shows("codriver watch", "q quit", "live")
        client.call("evaluate_code", code="40 +\\\n  2")
        # The value may be read from the terminal before the rest of its row: the time at its end completes the row.
        ended = terminal.until(lambda lines: any(re.search("= 42 .*(ms| s)$", line) for line in lines), "the whole row")
        row = row_of(ended, "= 42")
        assert "ann" in row
        assert " py " in row
        assert "40 +\\ 2" in row
        assert terminal.grid.faults == []


def test_what_was_evaluated_before_is_there_already(live, client):
    client.call("evaluate_code", code="'long before'")
    with watching(live) as terminal:
        terminal.shows("= 'long before'")


def test_an_error_names_itself_and_is_counted(live, client):
    with watching(live) as terminal:
        client.call("evaluate_code", code="{}['missing key']")
        lines = terminal.shows("✗ KeyError: 'missing key'")
        assert " 0 errors" not in lines[0]


def test_what_runs_is_seen_to_run_and_to_end_without_a_word(live, client):
    gate = live.workspace / "gate"
    with watching(live) as terminal:
        code = (
            f"import os, time\nprint('half way', flush=True)\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.01)"
        )
        running = client.begin_call("evaluate_code", code=code)
        lines = terminal.shows("… half way", " 1 running")
        assert "import os, time" in row_of(lines, "half way")
        gate.touch()
        terminal.shows(" 0 running")
        assert client.answer(running)["result"]["structuredContent"]["ok"]


def test_ten_callers_are_told_apart(live):
    with watching(live, lines=40) as terminal:
        for number in range(10):
            with live.client() as caller:
                caller.call("evaluate_code", code=f"'by number {number}'", who=f"caller-{number}")
        lines = terminal.shows(*(f"= 'by number {number}'" for number in range(10)))
        for number in range(10):
            assert f"caller-{number}" in row_of(lines, f"= 'by number {number}'")
        assert terminal.grid.faults == []


def test_a_paused_screen_stays_and_says_what_waits(live, client):
    with watching(live) as terminal:
        client.call("evaluate_code", code="'before the pause'")
        terminal.shows("= 'before the pause'", "live")
        terminal.press(" ")
        terminal.shows("paused, 0 new")
        client.call("evaluate_code", code="'during the pause'")
        lines = terminal.shows("paused, 1 new")
        assert not any("during the pause" in line for line in lines)
        terminal.press(" ")
        terminal.shows("= 'during the pause'", "live")


def test_it_can_be_filtered_to_errors_and_to_one_caller(live, client):
    client.call("evaluate_code", code="'fine result'")
    client.call("evaluate_code", code="undefined_name")
    client.call("evaluate_code", code="'by zoe'", who="zoe")
    with watching(live) as terminal:
        terminal.shows("= 'fine result'", "NameError", "= 'by zoe'", "show: all")
        terminal.press("f")
        lines = terminal.shows("show: errors", "NameError")
        assert not any("fine result" in line for line in lines)
        terminal.press("F")
        terminal.shows("show: all")
        terminal.press("F")
        lines = terminal.until(lambda now: "show: all" not in now[-1], "a caller")
        assert "show: errors" not in lines[-1]
        terminal.press("\x1b")
        terminal.shows("show: all", "= 'fine result'")


def test_it_can_be_searched_as_one_types(live, client):
    client.call("evaluate_code", code="'needle ö'")
    client.call("evaluate_code", code="'hay'")
    with watching(live) as terminal:
        terminal.shows("= 'needle ö'", "= 'hay'")
        terminal.press("/NEEDLE ö")
        lines = terminal.shows("/NEEDLE ö_", "= 'needle ö'")
        assert not any("'hay'" in line for line in lines)
        terminal.press("x\x7f\r")
        terminal.shows("/ search NEEDLE ö", "= 'needle ö'")
        terminal.press("\x1b")
        terminal.shows("= 'hay'")


def test_it_can_be_scrolled_back(live, client):
    for number in range(30):
        client.call("evaluate_code", code=f"'row {number}'")
    with watching(live, lines=12) as terminal:
        terminal.shows("= 'row 29'")
        terminal.press("\x1b[5~\x1b[5~")
        terminal.shows("= 'row 11'", "paused")
        terminal.press("\x1b[F")
        terminal.shows("= 'row 29'")
        terminal.press("\x1bOA\x1bOA")
        terminal.until(lambda lines: not any("= 'row 28'" in line for line in lines), "two rows less")
        terminal.press("\x1bOF\x1bOH")
        terminal.until(lambda lines: not any("= 'row 29'" in line for line in lines), "the start")
        assert terminal.grid.faults == []


@pytest.mark.parametrize("size", [(200, 50), (70, 20), (40, 10), (25, 6), (10, 3), (3, 2), (1, 1)])
def test_any_size_is_filled_and_not_overrun(live, client, size):
    client.call("evaluate_code", code="print('ü' * 300)\n'漢字' * 100")
    columns, lines = size
    with watching(live, columns=columns, lines=lines) as terminal:
        terminal.until(lambda now: any(line.strip() for line in now), "anything")
        client.call("evaluate_code", code="1 / 0")
        terminal.press("  ")
        if columns >= 25:
            terminal.shows("ann")
        terminal.press("q")
        assert terminal.end() == 0
        assert terminal.grid.faults == []


def test_a_resized_terminal_is_drawn_anew_at_once(live, client):
    client.call("evaluate_code", code="'stays ' + 'in sight'")
    with watching(live, columns=120, lines=30) as terminal:
        terminal.shows("= 'stays in sight'")
        for columns, lines in ((60, 15), (20, 5), (140, 40)):
            terminal.resize(columns, lines)
            terminal.until(lambda now: "q quit" in now[-1], f"the foot at {columns} times {lines}")
        terminal.shows("= 'stays in sight'")
        assert terminal.grid.faults == []


def test_what_programs_print_cannot_reach_the_terminal(live, client):
    evil = "\x1b[2J\x1b]0;owned\x07\x9b31m\u202egnp\ud83d"
    with watching(live) as terminal:
        client.call("evaluate_code", code=f"print({evil!r}.encode('utf-8', 'ignore').decode())\n'quite ' + 'harmless'")
        client.call("evaluate_code", code="'\x1b[2Jraw\x07'")
        terminal.shows("quite harmless", "raw")
        assert terminal.grid.faults == []


@pytest.mark.parametrize(("end", "status"), [("q", 0), ("\x03", 130), ("\x1c", 131), ("TERM", 143), ("HUP", 129)])
def test_however_it_ends_the_terminal_is_as_it_was(live, end, status):
    with watching(live) as terminal:
        terminal.shows("q quit")
        assert not terminal.is_restored
        if len(end) == 1:
            terminal.press(end)
        else:
            terminal.process.send_signal(getattr(signal, f"SIG{end}"))
        assert terminal.end() == status
        assert terminal.is_restored
        # At the start of a line: a row may show what failing code of another test printed.
        assert not re.search(rb"(^|[\r\n])Traceback|Exception in thread", terminal.output)


SHELL = """
import os, pathlib, signal, subprocess, sys, time
mark, *command = sys.argv[1:]
child = subprocess.Popen(command, process_group=0)
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
def foreground():
    os.tcsetpgrp(0, child.pid)
    os.killpg(child.pid, signal.SIGCONT)
foreground()
while os.WIFSTOPPED(status := os.waitpid(child.pid, os.WUNTRACED)[1]):
    os.tcsetpgrp(0, os.getpgrp())
    pathlib.Path(mark).touch()
    while os.path.exists(mark):
        time.sleep(0.01)
    foreground()
os._exit(os.waitstatus_to_exitcode(status))
"""
"""A shell's job control, as only a process that a shell started can be suspended."""


def test_a_suspended_watch_gives_the_terminal_back_and_takes_it_again(live, client, tmp_path):
    mark = tmp_path / "stopped"
    with Terminal([sys.executable, "-c", SHELL, str(mark), *live.command("watch")], live.environ) as terminal:
        terminal.shows("q quit")
        terminal.press("\x1a")
        until(mark.exists, "it to stop")
        terminal.read(0.05)
        assert terminal.is_restored
        mark.unlink()
        client.call("evaluate_code", code="'after the ' + 'break'")
        terminal.shows("= 'after the break'", "q quit")
        assert not terminal.is_restored
        terminal.press("q")
        assert terminal.end() == 0
        assert terminal.is_restored
        assert terminal.grid.faults == []


def test_without_a_server_it_says_so_and_touches_no_terminal(live, tmp_path):
    command = [*live.command("watch")[:-1], str(tmp_path)]
    with Terminal(command, live.environ) as terminal:
        assert terminal.end() == 3
        assert b"no codriver server runs" in terminal.output
        assert b"\x1b" not in terminal.output


def test_a_server_that_restarts_is_found_again(tmp_path):
    with serving(tmp_path, "--repl", "python") as live, watching(live) as terminal:
        terminal.shows("live")
        live.stop()
        terminal.shows("server lost, trying again")
        with serving(tmp_path, "--repl", "python") as again, again.client(name="ann") as client:
            client.call("evaluate_code", code="'second ' + 'life'")
            terminal.shows("= 'second life'")
            terminal.until(lambda lines: "server lost" not in lines[0], "the trouble to be over")


def test_a_server_whose_lines_begin_before_those_of_the_last_one_is_shown_from_its_first(tmp_path):
    with serving(tmp_path, "--repl", "python") as live, watching(live) as terminal:
        with live.client(name="ann") as client:
            client.call("evaluate_code", code="for line in range(50): print(line, flush=True)")
            client.call("evaluate_code", code="'first ' + 'life'")
        terminal.shows("= 'first life'")
        live.stop()
        terminal.shows("server lost, trying again")
        shutil.rmtree(live.environ["XDG_STATE_HOME"])  # the next server counts its lines from 1
        with serving(tmp_path, "--repl", "python") as again, again.client(name="ann") as client:
            client.call("evaluate_code", code="'second ' + 'life'")
            lines = terminal.shows("= 'first life'", "= 'second life'")
            assert lines.index(row_of(lines, "first life")) < lines.index(row_of(lines, "second life"))


def test_a_follower_gets_the_next_server_from_its_first_line_even_before_it_first_asked(tmp_path):
    with serving(tmp_path, "--repl", "python") as live:
        with live.client() as client:
            client.call("evaluate_code", code="for line in range(50): print(line, flush=True)")
            last = client.call("server_health")["log"]["lastLine"]
        follower = Follower(connect(live.workspace), last)
    shutil.rmtree(live.environ["XDG_STATE_HOME"])  # the next server counts its lines from 1
    with serving(tmp_path, "--repl", "python") as again, again.client() as client:
        client.call("evaluate_code", code="'second ' + 'life'")
        with contextlib.closing(followed(follower, again.workspace, "follower")) as coming:
            assert "'second life'" in [entry["text"] for entry in next(coming)]


def test_piped_it_prints_plain_lines_as_they_come(live, client):
    command = live.command("watch", "--search", "plainly")
    process = subprocess.Popen(command, env=live.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        with live.client() as other:
            until(lambda: "codriver-watch" in [row["name"] for row in _clients(other)], "it to come")
        client.call("evaluate_code", code="'said ' + 'plainly'")
        lines = [process.stdout.readline() for _ in range(2)]
        assert ["» 'said ' + 'plainly'" in lines[0], "= 'said plainly'" in lines[1]] == [True, True]
        assert all("ann" in line and "\x1b" not in line for line in lines)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        assert (process.returncode, errors) == (130, "")
    finally:
        process.kill()
        process.communicate()


def _clients(client):
    return client.call("server_health")["clients"]


def test_a_followed_log_prints_what_comes_and_filters_it(live, client):
    command = live.command("log", "--follow", "--limit", "1", "--who", "fay", "--category", "evaluationResults")
    process = subprocess.Popen(command, env=live.environ, stdout=subprocess.PIPE, text=True)
    try:
        with live.client() as other:
            waits = [{"name": "codriver-log", "openRequests": 1}]
            until(lambda: [{k: row[k] for k in ("name", "openRequests")} for row in _clients(other)
                           if row["name"] == "codriver-log"] == waits, "it to wait")  # fmt: skip
        client.call("evaluate_code", code="'not hers'")
        client.call("evaluate_code", code="print('output')\n'hers'", who="fay")
        assert ["= None" in process.stdout.readline(), "= 'hers'" in process.stdout.readline()] == [True, True]
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("words", [("log", "--follow"), ("watch",)], ids=" ".join)
def test_lines_go_on_with_the_next_server_when_one_ends(tmp_path, words):
    with serving(tmp_path, "--repl", "python") as live:
        process = subprocess.Popen(
            live.command(*words), env=live.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        try:
            with live.client(name="ann") as client:
                until(lambda: {"codriver-log", "codriver-watch"} & {row["name"] for row in _clients(client)}, "it")
                client.call("evaluate_code", code="'first ' + 'life'")
            _read_until(process.stdout, "= 'first life'")
            live.stop()
            assert "the server ended; waiting for the next one" in process.stderr.readline()
            with serving(tmp_path, "--repl", "python") as again, again.client(name="ann") as client:
                client.call("evaluate_code", code="'second ' + 'life'")
                _read_until(process.stdout, "= 'second life'")
        finally:
            process.kill()
            process.communicate()


def _read_until(lines, text):
    while text not in (line := lines.readline()):
        assert line, f"the lines ended before {text}"


def test_a_screen_without_its_server_says_so_in_words_all_the_time(tmp_path):
    with serving(tmp_path, "--repl", "python") as live, watching(live) as terminal:
        terminal.shows("live")
        live.stop()
        terminal.shows("server lost, trying again: no codriver server runs")
        assert "Errno" not in terminal.output.decode()


def test_no_color_is_heeded(live, client):
    with Terminal(live.command("watch"), {**live.environ, "NO_COLOR": "1"}) as terminal:
        client.call("evaluate_code", code="'grey ' + 'on grey'")
        terminal.shows("= 'grey on grey'")
        assert not re.search(rb"\x1b\[[0-9;]+m", terminal.output)


@pytest.mark.parametrize("given", [{"LC_ALL": "C"}, {"LC_ALL": "POSIX"}, {"LC_ALL": "xx_XX.UTF-8"}])
def test_text_is_shown_as_it_is_in_any_locale(live, client, given):
    client.call("evaluate_code", code="'für 漢字'")
    with Terminal(live.command("watch"), {**live.environ, **given}) as terminal:
        terminal.shows("= 'für 漢字'")
        terminal.press("/漢")
        terminal.shows("/漢_", "= 'für 漢字'")
        assert terminal.grid.faults == []


def test_the_terminal_is_believed_more_than_what_a_shell_says_of_its_size(live):
    told = {**live.environ, "LINES": "24", "COLUMNS": "200"}
    with Terminal(live.command("watch"), told, columns=60, lines=10) as terminal:
        terminal.until(lambda lines: lines[-1].startswith("q quit"), "the foot in the last line")
        assert terminal.grid.faults == []


def test_a_terminal_of_a_name_nobody_knows_is_taken_for_the_usual_one(live, client):
    with Terminal(live.command("watch"), live.environ, name="xterm-of-tomorrow") as terminal:
        terminal.shows("q quit", "live")
        terminal.press("q")
        assert terminal.end() == 0
        assert terminal.is_restored


def test_where_no_terminal_is_described_plain_lines_come_and_why(live, client):
    client.call("evaluate_code", code="'plain ' + 'enough'")
    code = "import codriver.commands.watch_screen as it, codriver.commands.cli as c; it.USUAL = 'xterm-of-2050'"
    command = [sys.executable, "-c", f"{code}; c.main()", *live.command("watch", "--search", "plain")[3:]]
    with Terminal(command, live.environ, name="xterm-of-tomorrow") as terminal:
        terminal.shows("the live screen needs a terminal that terminfo describes", "= 'plain enough'")
        assert b"\x1b[?" not in terminal.output
        terminal.press("\x03")
        assert terminal.end() == 130


def test_where_python_has_no_curses_plain_lines_come_and_why(live, client):
    client.call("evaluate_code", code="'without ' + 'curses'")
    code = "import sys; sys.modules['curses'] = None; from codriver.commands.cli import main; main()"
    with Terminal(
        [sys.executable, "-c", code, *live.command("watch", "--search", "without")[3:]], live.environ
    ) as terminal:
        terminal.shows("the live screen needs curses, which Python has on Linux and macOS", "= 'without curses'")
        assert b"\x1b[?" not in terminal.output
        terminal.press("\x03")
        assert terminal.end() == 130


def test_a_query_can_be_given_its_inputs_as_json_or_as_plain_words(live, client):
    line = client.call("evaluate_code", code="'asked ' + 'for'", who="gil")["outputLines"]["last"]
    query = "[:find ?t . :in $ ?who ?line :where [?e :output/line ?line] [?e :output/who ?who] [?e :output/text ?t]]"
    done = live.run("log", "--query", query, "--input", "gil", "--input", str(line))
    assert (done.returncode, done.stdout) == (0, "\"'asked for'\"\n")


def test_what_a_watched_application_does_is_shown_and_listed_by_its_category(live, client):
    with watching(live) as terminal:
        terminal.shows("codriver watch", "live")
        client.call("evaluate_code", code="import codriver_seam as seam; seam.install(True); seam.emit('fx', 'before')")
        watch = client.call("watch_app", topic="trace")
        client.call("evaluate_code", code="seam.emit('fx', 'db/write', frame='shop')", who="zoe")
        assert client.call("wait_for", query=watch["query"], since=watch["since"])["count"] == 1
        row = row_of(terminal.shows("fx db/write shop", "a hide app"), "fx db/write")
        assert " py " in row
        terminal.press("a")
        assert not any("fx db/write shop" in line for line in terminal.shows("a show app"))
    listed = live.run("log", "--category", "appEvent", "--json")
    assert [(one["op"], one["name"], one["frame"]) for one in map(json.loads, listed.stdout.splitlines())] == [
        ("fx", "db/write", "shop")
    ]
    assert "events of applications, beside these: 1; --category appEvent" in live.run("log").stderr
    refused = live.run("log", "--run", "-1", "--category", "appEvent")
    assert (refused.returncode, "until their server ends" in refused.stderr) == (2, True)
    with watching(live) as terminal:
        terminal.shows("fx db/write shop")
    client.call("watch_app", stop=watch["subId"])


def test_tests_are_seen_while_they_run(live, client, tmp_path):
    gate = tmp_path / "gate"
    slow = "import os, time\ndef test_waits():\n    while not os.path.exists({!r}): time.sleep(0.01)\n"
    (live.workspace / "test_watched.py").write_text("def test_fine(): pass\n" + slow.format(str(gate)))
    with watching(live, columns=160) as terminal:
        terminal.shows("live")
        asked = client.begin_call("run_tests", namespace="test_watched.py", who="tester", timeoutMs=60_000)
        terminal.until(lambda lines: any("test_watched.py" in one and "…" in one for one in lines), "it")
        gate.touch()
        client.answer(asked)
        terminal.until(lambda lines: any("test_watched.py" in one and "2 passed" in one for one in lines), "it")


def test_what_a_killed_server_ran_is_over_on_the_screen(tmp_path):
    with serving(tmp_path, "--repl", "python") as first, first.client() as client:
        until(lambda: "evaluate_code" in client.tools(), "the REPL")
        client.call("evaluate_code", code="import time; time.sleep(600)", timeoutMs=100)
        with watching(first, columns=160) as terminal:
            terminal.shows("1 running")
            first.process.kill()
            terminal.shows("✗ its server ended")
