"""No client starves another: the victim is answered while the busy client still waits."""

import contextlib
import os
import pathlib
import select
import signal

import posix_only
import pytest
import real_kernels
from live_server import serving, until

SLOW = '[:find ?l :where [?e :output/text ?t] [(re-find #"(?:a|a|ab)+b+$" ?t)] [?e :output/line ?l]]'
"""It takes a second or so, on the text below."""
NOTHING = '[:find ?l :where [?e :output/who "nobody"] [?e :output/line ?l]]'


pytestmark = pytest.mark.served("python", "lisp")


@pytest.fixture(scope="module")
def live(live):
    with live.client() as first:
        text = "a" * 18 + "c"
        assert first.call("evaluate_code", code=repr(text), replSessionKey="py", timeoutMs=60_000)["ok"]
        assert first.call("evaluate_code", code="1", replSessionKey="lpy", timeoutMs=60_000)["ok"]
    return live


@pytest.fixture
def victim(live):
    with live.client(name="victim") as client:
        yield client


def open_requests(client, name):
    rows = client.call("server_health")["clients"]
    return sum(row["openRequests"] for row in rows if row["name"] == name)


def queued_evaluations(client):
    return client.call("server_health")["evaluations"]["queued"]


def answers(client, identities):
    """Return the results of the calls, in whatever order they were answered."""
    found = {}
    while len(found) < len(identities):
        message = client.receive()
        if message.get("id") in identities:
            found[message["id"]] = message["result"]["structuredContent"]
    return [found[identity] for identity in identities]


def still_waits(client, name):
    return open_requests(client, name) > 0


# Files


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no FIFO")
def test_sixty_loads_of_a_pipe_are_refused_without_blocking_other_clients(live, victim):
    pipe = live.workspace / "pipe.py"
    with contextlib.suppress(FileExistsError):
        posix_only.make_pipe(pipe)
    with live.client(name="hungry") as hungry:
        loads = [hungry.begin_call("load_file", filePath=str(pipe), replSessionKey="py") for _ in range(60)]
        assert victim.call("repl_output_log", query=NOTHING)["ok"]
        with live.client() as newcomer:
            assert newcomer.request("ping")["result"] == {}
        for answer in answers(hungry, loads):
            assert answer["reason"] == "file-unreadable"
            assert "pipe" in answer["message"]


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/ptmx", "/dev/tty"])
def test_a_device_cannot_be_loaded(victim, path):
    if not os.path.exists(path):  # noqa: PTH110  # a device, no file
        pytest.skip(f"this system has no {path}")
    answer = victim.call("load_file", filePath=path, replSessionKey="py")
    assert (answer["ok"], answer["reason"]) == (False, "file-unreadable")


def test_loading_a_file_beyond_the_limit_is_refused_with_the_limit(live, victim):
    large = live.workspace / "large.py"
    with large.open("wb") as file:
        file.truncate(17 * 2**20)
    answer = victim.call("load_file", filePath="large.py", replSessionKey="py")
    assert answer["reason"] == "file-unreadable"
    assert f"{16 * 2**20:,} bytes are read" in answer["message"]


# Queries


def test_a_query_is_answered_while_two_hundred_slow_ones_of_another_client_wait(live, victim):
    with live.client(name="hungry") as hungry:
        for _ in range(200):
            hungry.begin_call("repl_output_log", query=SLOW)
        until(lambda: open_requests(victim, "hungry") > 190, "the queries to be asked")
        assert victim.call("repl_output_log", query=NOTHING)["ok"]
        assert still_waits(victim, "hungry")


def test_pings_waits_and_new_clients_work_despite_eight_hundred_pending_queries(live, victim):
    with contextlib.ExitStack() as stack:
        hungry = [stack.enter_context(live.client(name="hungry")) for _ in range(4)]
        for client in hungry:
            for _ in range(200):
                client.begin_call("wait_for", query=SLOW, timeoutMs=600_000)
        until(lambda: open_requests(victim, "hungry") == 4 * 64, "those that are too many to be refused")
        for _ in range(20):
            assert victim.request("ping")["result"] == {}
        with live.client() as newcomer:
            assert newcomer.request("ping")["result"] == {}
        line = victim.call("repl_output_log", limit=1)["lastLine"]
        victim.call("evaluate_code", code="'for the victim'", replSessionKey="py", who="herald")
        query = '[:find ?l :where [?e :output/who "herald"] [?e :output/line ?l]]'
        assert victim.call("wait_for", query=query, since=line, timeoutMs=60_000)["status"] == "found"
        assert open_requests(victim, "hungry") > 200


def test_a_wait_beyond_the_limit_is_refused_with_the_current_and_the_maximum_number(live, victim):
    with live.client(name="waits much") as hungry:
        waits = [hungry.begin_call("wait_for", query=NOTHING, timeoutMs=600_000) for _ in range(65)]
        refused = hungry.answer(waits[-1])["result"]["structuredContent"]
        assert (refused["reason"], refused["standing"], refused["most"]) == ("too-many-waits", 64, 64)
        assert open_requests(victim, "waits much") == 64
        assert victim.call("wait_for", query=NOTHING, timeoutMs=0)["status"] == "timed-out"


def test_a_wait_that_timed_out_in_the_queue_reports_the_line_to_continue_from(live, victim):
    with live.client(name="hungry") as hungry:
        waits = [hungry.begin_call("wait_for", query=SLOW, since=0, timeoutMs=1000) for _ in range(20)]
        reported = [answer["notes"][-1] for answer in answers(hungry, waits)]
        crowded = [note for note in reported if "all waits share one budget" in note]
        assert crowded
        assert all("To continue, pass since: 0" in note for note in crowded)


# Texts


def test_brackets_of_long_code_are_checked_while_others_are_answered(live, victim):
    with live.client(name="hungry") as hungry:
        code = "(quote (a b c d e f))\n" * 30_000
        reading = hungry.begin_call("evaluate_code", code=code + "(", replSessionKey="lpy")
        until(lambda: still_waits(victim, "hungry"), "the code to arrive")
        assert victim.request("ping")["result"] == {}
        assert victim.call("evaluate_code", code="(+ 1 2)", replSessionKey="lpy")["result"] == "3"
        assert still_waits(victim, "hungry")
        assert hungry.answer(reading)["result"]["structuredContent"]["reason"] == "unbalanced"


def test_short_code_does_not_overtake_long_code_of_the_same_client(victim):
    long = victim.begin_call("evaluate_code", code=f'(count "{"x" * 200_000}")', replSessionKey="lpy")
    short = victim.begin_call("evaluate_code", code="'short", replSessionKey="lpy")
    lines = [answer["outputLines"]["first"] for answer in answers(victim, [long, short])]
    assert lines == sorted(lines)


# Queued code


@pytest.mark.parametrize("isolate", [False, True], ids=["in the session of all", "in a session of its own"])
def test_a_client_waits_for_at_most_one_queued_evaluation_of_another_client(live, victim, tmp_path, isolate):
    gate = tmp_path / "gate"
    waits = f"import pathlib, time\nwhile not pathlib.Path({str(gate)!r}).exists(): time.sleep(0.01)"
    with live.client(name="hungry") as hungry:
        first = hungry.call("evaluate_code", code=waits, replSessionKey="py", who="hungry", timeoutMs=1000)
        names = [f"hungry-{number}" for number in range(3)]
        queued = [hungry.begin_call("evaluate_code", code="1", replSessionKey="py", who=name) for name in names]
        until(lambda: queued_evaluations(victim) == 3, "three to be queued")
        mine = victim.call("evaluate_code", code="2", replSessionKey="py", isolate=isolate, timeoutMs=1000)
        assert mine["status"] == "queued"
        assert f"occupied by evaluation {first['evaluationId']} of hungry" in str(mine["notes"])
        gate.touch()
        done = victim.call("get_evaluation", evaluationId=mine["evaluationId"], waitMs=60_000)
        theirs = [answer["outputLines"]["first"] for answer in answers(hungry, queued)]
    assert done["outputLines"]["first"] < theirs[0]
    assert theirs == sorted(theirs)


def test_the_queued_code_of_one_client_has_a_maximum_total_size(tmp_path):
    with serving(tmp_path, "--repl", "python") as live, live.client() as hungry, live.client() as victim:
        victim.call("evaluate_code", code="1", timeoutMs=60_000)
        code = f"'{'x' * 2**20}'; import time; time.sleep(60)"
        queued = [hungry.begin_call("evaluate_code", code=code, timeoutMs=600_000) for _ in range(40)]
        refused = answers(hungry, queued[31:])
        assert {answer["reason"] for answer in refused} == {"too-much-code"}
        assert {answer["most"] for answer in refused} == {32 * 2**20}
        assert all(30 * 2**20 < answer["waiting"] <= answer["most"] for answer in refused)
        mine = victim.call("evaluate_code", code="'of the victim'", timeoutMs=1000)
        assert (mine["ok"], mine["status"]) == (True, "queued")


def test_the_open_requests_of_one_client_have_a_maximum_total_size(live, victim):
    with live.client(name="hungry") as hungry:
        call = {"name": "wait_for", "arguments": {"query": NOTHING, "timeoutMs": 600_000}}
        call["_meta"] = {"padding": "x" * 15 * 2**20}
        waits = [hungry.begin("tools/call", call) for _ in range(6)]
        refused = [hungry.answer(identity) for identity in waits[4:]]
        assert all("are unanswered" in answer["error"]["message"] for answer in refused)
        assert all(f"{64 * 2**20:,}" in answer["error"]["message"] for answer in refused)
        assert victim.request("ping")["result"] == {}
        assert open_requests(victim, "hungry") == 4


def test_an_idle_server_accepts_a_single_load_of_any_length(victim):
    assert victim.call("evaluate_code", code=f"len('{'x' * 15 * 2**20}')", replSessionKey="py")["result"] == "15728640"


@pytest.mark.parametrize(
    ("code", "most"),
    [("1 " * 200_000, "100,000 at the top level"), (f"(do {'1 ' * 2_000_000})", "1,000,000 in all")],
    ids=["side by side", "nested"],
)
def test_lisp_code_with_too_many_forms_is_refused_with_the_limit(live, victim, code, most):
    before = memory_mib(live)
    refused = victim.call("evaluate_code", code=code, replSessionKey="lpy")
    assert refused["reason"] == "too-many-forms"
    assert most in refused["message"]
    assert memory_mib(live) - before < 150


def memory_mib(live):
    """Return the peak memory of the server so far; 0 if the system does not report it."""
    status = pathlib.Path(f"/proc/{live.process.pid}/status")
    return int(status.read_text().partition("VmHWM:")[2].split()[0]) // 1024 if status.exists() else 0


# Notebooks


CELL = '{"cell_type":"code","source":"x","outputs":[],"execution_count":null,"metadata":{}}'
NOTEBOOKS = {
    "790,000 small cells": lambda: f'{{"cells":[{",".join([CELL] * 790_000)}],"metadata":{{}},"nbformat":4}}',
    "20 million brackets": lambda: f'{{"cells":[],"metadata":{{"a":[{"[]," * 20_000_000}1]}},"nbformat":4}}',
    "without nbformat": lambda: f'{{"cells":[{",".join([CELL] * 790_000)}]}}',
    "not in UTF-8": lambda: f'{{"cells":[{{"source":"{"x" * 50 * 2**20}\udcff"}}],"nbformat":4}}',
    "a number that is too long": lambda: f'{{"cells":[{{"source":"{"x" * 50 * 2**20}"}}],"nbformat":{"4" * 5000}}}',
}

WHY = {"not in UTF-8": "the file is not UTF-8", "a number that is too long": "heavy.ipynb is not a notebook"}
"""Why those are refused that are not heavy by their elements."""


@pytest.mark.parametrize("made", NOTEBOOKS)
def test_oversized_notebooks_of_four_clients_neither_block_others_nor_leak_memory(tmp_path, made):
    with serving(tmp_path, "--repl", "none") as live, live.client(name="victim") as victim:
        heavy = live.workspace / "heavy.ipynb"
        heavy.write_text(NOTEBOOKS[made](), errors="surrogateescape")
        (live.workspace / "light.ipynb").write_text(f'{{"cells":[{CELL}],"metadata":{{}},"nbformat":4}}')
        before = memory_mib(live)
        with contextlib.ExitStack() as stack:
            hungry = [stack.enter_context(live.client(name="hungry")) for _ in range(4)]
            calls = [(item, item.begin_call("list_cells", filePath=heavy.name)) for item in hungry for _ in range(2)]
            until(lambda: still_waits(victim, "hungry"), "the calls to be there")
            for _ in range(20):
                assert victim.request("ping")["result"] == {}
            light = victim.begin_call("list_cells", filePath="light.ipynb")
            try:
                reported = [calls[0][0].answer(calls[0][1])["result"]["structuredContent"]]
            except TimeoutError:
                pytest.fail("the first of these notebooks was read, not weighed")
            assert WHY.get(made, "more than 300000 elements") in reported[0].get("message", ""), reported[0]
            listed = victim.answer(light)["result"]["structuredContent"]
            assert still_waits(victim, "hungry")
            reported += [element.answer(identity)["result"]["structuredContent"] for element, identity in calls[1:]]
        assert listed["cells"] == ["0 code [not run] x"]
        assert {answer["reason"] for answer in reported} == {"file-unreadable"}
        assert all("heavy.ipynb is not a notebook" in answer["message"] for answer in reported)
        assert memory_mib(live) - before < 250


def test_one_wide_character_does_not_make_a_notebook_oversized(tmp_path):
    """As a Python string it would take 256 MiB, and its outputs the same again."""
    with serving(tmp_path, "--repl", "none") as live, live.client() as client:
        output = f'{{"output_type":"stream","text":"{"x" * 60 * 2**20}\U0001f600"}}'
        (live.workspace / "wide.ipynb").write_text(f'{{"cells":[{CELL.replace("[]", f"[{output}]")}],"nbformat":4}}')
        before = memory_mib(live)
        assert client.call("list_cells", filePath="wide.ipynb")["cells"] == ["0 code x, 1 output"]
        assert memory_mib(live) - before < 150


def test_listing_a_notebook_with_many_cells_does_not_block_other_requests(live, victim):
    with live.client(name="hungry") as hungry:
        (live.workspace / "many.ipynb").write_text(f'{{"cells":[{",".join([CELL] * 20_000)}],"nbformat":4}}')
        listing = hungry.begin_call("list_cells", filePath="many.ipynb")
        until(lambda: still_waits(victim, "hungry"), "the call to be there")
        assert victim.request("ping")["result"] == {}
        answer = hungry.answer(listing)["result"]["structuredContent"]
    assert (answer["count"], answer["cells"][0]) == (20_000, "0 code [not run] x")
    assert f"{20_000 - len(answer['cells'])} more" in answer["notes"][0]


def test_running_cells_of_oversized_notebooks_is_refused_without_blocking_others(tmp_path):
    kernel = real_kernels.kernel("ipykernel")
    with serving(tmp_path, "--kernel", f"own={kernel.file}", "--repl", "none") as live, live.client() as victim:
        elements = f'{{"cells":[],"metadata":{{"a":[{"[]," * 2_500_000}1]}},"nbformat":4}}'
        (live.workspace / "heavy.ipynb").write_text(elements)
        until(lambda: "run_cell" in victim.tools(), "the kernel")
        before = memory_mib(live)
        with live.client(name="hungry") as hungry:
            calls = [hungry.begin_call("run_cell", filePath="heavy.ipynb", cell="0") for _ in range(8)]
            until(lambda: still_waits(victim, "hungry"), "the calls to be there")
            assert victim.request("ping")["result"] == {}
            assert victim.call("evaluate_code", code="1 + 1", timeoutMs=60_000)["result"] == "2"
            for call in calls:
                answer = hungry.answer(call)["result"]["structuredContent"]
                assert answer["reason"] == "file-unreadable", answer
                assert "more than 300000 elements" in answer["message"]
        assert memory_mib(live) - before < 200


# Messages


@pytest.mark.parametrize("item", [b"[],", b'{"a":1},', b"1,", b'"",'])
def test_a_message_with_millions_of_elements_is_refused_and_the_connection_survives(live, victim, item):
    call = b'{"jsonrpc":"2.0","id":"bomb","method":"tools/call","params":{"name":"list_sessions","arguments":{"x":['
    with live.client(name="hungry") as hungry:
        hungry.write(call + item * (12 * 2**20 // len(item)) + b"1]}}}\n")
        assert victim.request("ping")["result"] == {}
        error = hungry.answer("bomb")["error"]
        assert "more than 100000 elements" in error["message"]
        assert hungry.request("ping")["result"] == {}


def test_brackets_inside_a_long_string_do_not_count_as_elements(victim):
    code = f"len({'[{}, ' * 500_000!r})"
    assert victim.call("evaluate_code", code=code, replSessionKey="py")["result"] == "2500000"


def test_a_message_beyond_a_megabyte_is_handled_before_later_messages(victim):
    long = victim.begin_call("evaluate_code", code=f"len('{'x' * 3_000_000}')", replSessionKey="py")
    short = victim.begin_call("evaluate_code", code="'short'", replSessionKey="py")
    lines = [answer["outputLines"]["first"] for answer in answers(victim, [long, short])]
    assert lines == sorted(lines)


def test_incomplete_lines_of_all_clients_share_a_budget_and_the_longest_is_dropped(tmp_path):
    mib = 2**20
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace" / "codriver.toml").write_text(f"maxLineBytes = {mib}\n")
    with serving(tmp_path, "--repl", "none") as live, live.client() as victim, contextlib.ExitStack() as stack:
        hungry = [stack.enter_context(live.client(name="hungry")) for _ in range(20)]
        for client in hungry:
            client.write(b'{"x":"' + b"y" * (mib * 3 // 4))
        until(lambda: connected(victim, "hungry") <= 5, "most of the begun lines to be given up")
        text = victim.call("balance_brackets", text="x" * (mib // 2))
        assert text["changed"] is False
        reported = [client.receive() for client in hungry if not is_open(client)]
        assert len(reported) >= 15
        assert all(f"together exceed {4 * mib} bytes" in message["error"]["message"] for message in reported)


def connected(client, name):
    return sum(row["name"] == name for row in client.call("server_health")["clients"])


def is_open(client):
    """Return whether this client has not received anything yet."""
    return not select.select([client.socket], [], [], 0)[0]


# The end


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no FIFO")
def test_a_server_under_full_load_still_stops(tmp_path):
    with serving(tmp_path, "--repl", "python") as live, live.client() as hungry:
        hungry.call("evaluate_code", code=repr("a" * 18 + "c"), timeoutMs=60_000)
        pipe = live.workspace / "pipe.py"
        posix_only.make_pipe(pipe)
        for _ in range(60):
            hungry.begin_call("load_file", filePath=str(pipe))
            hungry.begin_call("repl_output_log", query=SLOW)
            wait = hungry.begin_call("wait_for", query=SLOW, timeoutMs=600_000)
        with live.client(name="other") as other:
            until(lambda: open_requests(other, "bare") > 60, "the calls to be there")
        live.process.send_signal(signal.SIGTERM)
        assert hungry.answer(wait)["result"]["structuredContent"]["status"] == "server-stopping"
        assert live.process.wait(60) == 0
