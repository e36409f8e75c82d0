"""`codriver watch` and `codriver log --follow`: one command that prints new entries."""

import contextlib
import json
import re
import shutil
import signal
import subprocess

import pytest
from live_server import serving, until
from terminal import Terminal

from codriver.commands.log_follower import Follower, follow
from codriver.net.client import connect

pytestmark = pytest.mark.served(client="ann")


def watching(live, *options, **kwargs):
    return Terminal(live.command("watch", *options), live.environ, **kwargs)


def test_earlier_and_new_entries_are_printed_with_their_caller(live, client):
    client.call("evaluate_code", code="'long before'")
    with watching(live) as terminal:
        terminal.shows("= 'long before'")
        client.call("evaluate_code", code="40 +\\\n  2")
        lines = terminal.shows("= 42")
        assert "ann" in next(line for line in lines if "= 42" in line)
        terminal.press("\x03")
        assert terminal.end() == 130


def test_program_output_cannot_control_the_terminal(live, client):
    evil = "\x1b[2J\x1b]0;owned\x07\x9b31m\u202egnp\ud83d"
    with watching(live) as terminal:
        client.call("evaluate_code", code=f"print({evil!r}.encode('utf-8', 'ignore').decode())\n'quite ' + 'harmless'")
        client.call("evaluate_code", code="'\x1b[2Jraw\x07'")
        terminal.shows("quite harmless", "raw")
        assert terminal.grid.faults == []


def test_watch_reports_a_missing_server_and_leaves_the_terminal_unchanged(live, tmp_path):
    command = [*live.command("watch")[:-1], str(tmp_path)]
    with Terminal(command, live.environ) as terminal:
        assert terminal.end() == 3
        assert b"no codriver server is running" in terminal.output
        assert b"\x1b" not in terminal.output


def test_the_no_color_variable_is_respected(live, client):
    with Terminal(live.command("watch"), {**live.environ, "NO_COLOR": "1"}) as terminal:
        client.call("evaluate_code", code="'grey ' + 'on grey'")
        terminal.shows("= 'grey on grey'")
        assert not re.search(rb"\x1b\[[0-9;]+m", terminal.output)


def test_a_follower_continues_with_the_first_line_of_the_next_server(tmp_path):
    with serving(tmp_path, "--repl", "python") as live:
        with live.client() as client:
            client.call("evaluate_code", code="for line in range(50): print(line, flush=True)")
            last = client.call("server_health")["log"]["lastLine"]
        follower = Follower(connect(live.workspace), last)
    shutil.rmtree(live.environ["XDG_STATE_HOME"])  # the next server counts its lines from 1
    with serving(tmp_path, "--repl", "python") as again, again.client() as client:
        client.call("evaluate_code", code="'second ' + 'life'")
        with contextlib.closing(follow(follower, again.workspace, "follower")) as coming:
            assert "'second life'" in [entry["text"] for entry in next(coming)]


def test_watch_prints_plain_lines_immediately_if_its_output_is_piped(live, client):
    command = live.command("watch", "--search", "plainly")
    process = subprocess.Popen(command, env=live.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        with live.client() as other:
            until(lambda: "codriver-log" in [row["name"] for row in _clients(other)], "it to come")
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


def test_a_followed_log_prints_and_filters_new_entries(live, client):
    command = live.command("log", "--follow", "--limit", "2", "--who", "fay", "--category", "evaluationResults")
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
def test_a_followed_log_continues_with_the_next_server(tmp_path, words):
    with serving(tmp_path, "--repl", "python") as live:
        process = subprocess.Popen(
            live.command(*words), env=live.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        try:
            with live.client(name="ann") as client:
                until(lambda: "codriver-log" in [row["name"] for row in _clients(client)], "it")
                client.call("evaluate_code", code="'first ' + 'life'")
            _read_until(process.stdout, "= 'first life'")
            live.stop()
            assert "the server has stopped. Waiting for the next one" in process.stderr.readline()
            with serving(tmp_path, "--repl", "python") as again, again.client(name="ann") as client:
                client.call("evaluate_code", code="'second ' + 'life'")
                _read_until(process.stdout, "= 'second life'")
        finally:
            process.kill()
            process.communicate()


def _read_until(lines, text):
    while text not in (line := lines.readline()):
        assert line, f"the lines ended before {text}"


def test_query_inputs_can_be_json_or_plain_text(live, client):
    line = client.call("evaluate_code", code="'asked ' + 'for'", who="gil")["outputLines"]["last"]
    query = "[:find ?t . :in $ ?who ?line :where [?e :output/line ?line] [?e :output/who ?who] [?e :output/text ?t]]"
    done = live.run("log", "--query", query, "--input", "gil", "--input", str(line))
    assert (done.returncode, done.stdout) == (0, "\"'asked for'\"\n")


def test_entries_can_be_searched(live, client):
    client.call("evaluate_code", code="'a needle ö'")
    for number in range(60):
        client.call("evaluate_code", code=f"'hay {number}'")
    found = live.run("log", "--search", "NEEDLE Ö", "--limit", "1").stdout.splitlines()
    assert len(found) == 1
    assert "= 'a needle ö'" in found[0]


def test_watched_application_events_are_printed_and_listed_by_category(live, client):
    client.call("evaluate_code", code="import codriver_seam as seam; seam.install(True); seam.emit('fx', 'before')")
    with watching(live, columns=160) as terminal:
        watch = client.call("watch_app", topic="trace")
        client.call("evaluate_code", code="seam.emit('fx', 'db/write', frame='shop')", who="zoe")
        assert client.call("wait_for", query=watch["query"], since=watch["since"])["count"] == 1
        terminal.shows("fx db/write shop")
    listed = live.run("log", "--category", "appEvent", "--json")
    assert [(line["op"], line["name"], line["frame"]) for line in map(json.loads, listed.stdout.splitlines())] == [
        ("fx", "db/write", "shop")
    ]
    assert "there is 1 event from applications too. Use --category appEvent" in live.run("log").stderr
    refused = live.run("log", "--run", "-1", "--category", "appEvent")
    assert (refused.returncode, "are available only while their server is running" in refused.stderr) == (2, True)
    with watching(live, "--limit", "2") as terminal:
        terminal.shows("fx db/write shop")
    client.call("watch_app", stop=watch["subId"])
