"""Transcripts of evaluations: bounded, readable in chunks, with notes on what was dropped."""

import itertools
import json

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from live_server import RELAY, serving
from mcp import StdioServerParameters
from mcp.client import Client
from mcp.client.stdio import stdio_client

from codriver.log.evaluation_transcripts import Transcripts
from codriver.log.redaction import Redactor
from codriver.tools.answers.answer_texts import share_budget
from codriver.tools.answers.text_parts import text_excerpt

NOTHING_SECRET = Redactor({})
MIB = 2**20


def transcripts(kept=10, max_bytes=1000, max_stream_bytes=100):
    return Transcripts(stored=kept, max_bytes=max_bytes, max_stream_bytes=max_stream_bytes, redactor=NOTHING_SECRET)


@given(st.lists(st.text("ab\n", max_size=30), max_size=30), st.integers(1, 40), st.integers(0, 300), st.integers(0, 99))
def test_offsets_into_a_text_stay_valid_when_its_start_is_dropped(chunks, room, start, length):
    transcript = transcripts(max_stream_bytes=room).open("e1")
    for chunk in chunks:
        transcript.out.append(chunk)
    whole = "".join(chunks)
    piece = transcript.chunk("stdout", start, length)
    assert piece.total == len(whole)
    assert piece.text == whole[max(start, piece.dropped) : max(start + length, piece.dropped)]
    assert piece.start == max(start, piece.dropped)


@given(st.text(min_size=1, max_size=200), st.integers(4, 50))
def test_continuing_where_each_excerpt_ended_returns_the_whole_text(text, max_bytes):
    transcript = transcripts(max_stream_bytes=MIB).open("e1")
    transcript.add_value(text)
    parts, start = [], 0
    while start is not None:
        part = text_excerpt(transcript, "result", start=start, length=None, max_bytes=max_bytes)
        parts.append(part["text"])
        start = part.get("next")
    assert "".join(parts) == text


def test_the_oldest_values_beyond_the_shared_size_limit_are_dropped_and_counted():
    transcript = transcripts(max_stream_bytes=10).open("e1")
    for text in ("aaaa", "bbbb", "cccc", "d" * 20):
        transcript.add_value(text)
    assert transcript.values() == [range(15, 35)]
    assert transcript.result.dropped == 15
    assert transcript.chunk("result", 0, 18).text == "ddd"


def test_the_oldest_transcripts_are_dropped_if_all_together_are_too_large():
    retained = transcripts(max_bytes=250)
    for number in range(5):
        retained.open(f"e{number}").out.append("x" * 100)
        retained.mark_finished(f"e{number}")
    assert [retained.get(f"e{number}") is None for number in range(5)] == [True, True, True, False, False]
    assert retained.store.usage() == {"keptBytes": 200, "spilledBytes": 0}


def test_a_running_evaluation_is_never_forgotten():
    retained = transcripts(kept=1)
    running = retained.open("running")
    for number in range(3):
        retained.open(f"e{number}")
        retained.mark_finished(f"e{number}")
    assert retained.get("running") is running


@pytest.fixture(scope="module")
def forgetful(tmp_path_factory):
    """Return a client of a server that keeps all texts in memory."""
    folder = tmp_path_factory.mktemp("forgetful")
    (folder / "workspace").mkdir()
    (folder / "workspace" / "codriver.toml").write_text("spillMaxBytes = 0\n")
    with serving(folder, "--repl", "python") as running, running.client() as connected:
        yield connected


def relayed(live):
    arguments = ["-I", "-S", RELAY, str(live.port_file)]
    return stdio_client(StdioServerParameters(command="python3", args=arguments))


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_real_client_reads_a_long_text_in_chunks_by_the_uri_in_the_answer(live, mode):
    with anyio.fail_after(60):
        async with Client(relayed(live), mode=mode) as client:
            code = "for number in range(60_000): print('line', number)"
            answer = (await client.call_tool("evaluate_code", {"code": code})).structured_content
            [note] = [note for note in answer["notes"] if note.startswith("stdout")]
            uri = next(word for word in note.split() if word.startswith("codriver://"))
            assert uri == f"codriver://evaluation/{answer['evaluationId']}/stdout"
            whole = "".join(f"line {number}\n" for number in range(60_000))
            read = []
            for offset in itertools.count(step=150_000):
                part = (await client.read_resource(f"{uri}?offset={offset}&limit=150000")).contents[0].text
                read.append(part)
                if len(part) < 150_000:
                    break
            assert "".join(read) == whole
            first, note = (await client.read_resource(uri)).contents
            assert first.text == whole[:100_000]
            assert first.meta == {"codriver/totalCharacters": len(whole), "codriver/nextOffset": 100_000}
            assert note.text == f"the text has {len(whole)} characters: continue with ?offset=100000"
            assert str(note.uri) == f"{uri}#note"


def test_dropped_output_is_noted_in_the_answer_the_excerpt_and_the_resource(forgetful):
    client = forgetful
    code = "import sys\nfor number in range(40): sys.stdout.write(f'{number:02}' * 2**19); sys.stdout.flush()\nNone"
    answer = client.call("evaluate_code", code=code, timeoutMs=60_000)
    [note] = [note for note in answer["notes"] if note.startswith("stdout")]
    part = client.call("get_evaluation", evaluationId=answer["evaluationId"], part="stdout", **{"from": 0, "length": 9})
    dropped = part["droppedCharacters"]
    assert f"{dropped} older ones were dropped" in note
    assert part["totalCharacters"] == 40 * MIB
    assert 8 * MIB <= dropped < 10 * MIB
    assert (part["text"], part["from"]) == ("", dropped)
    uri = f"codriver://evaluation/{answer['evaluationId']}/stdout"
    text, note = client.request("resources/read", {"uri": f"{uri}?limit=5"})["result"]["contents"]
    assert (text["text"], text["_meta"]) == ("", {"codriver/dropped": {"from": 0, "to": dropped}})
    assert note["text"] == f"characters 0 to {dropped} were dropped because only the newest are kept"
    last = client.request("resources/read", {"uri": f"{uri}?offset={40 * MIB - 4}"})["result"]["contents"][0]["text"]
    assert last == "3939"


def test_reading_an_evaluation_reports_that_its_output_was_dropped(forgetful):
    client = forgetful
    code = "print('x' * (30 * 2**20))"
    first = client.call("evaluate_code", code=code, timeoutMs=60_000)
    for number in range(2):
        client.call("evaluate_code", code=f"{code}\n{number}", timeoutMs=60_000)
    answer = client.call("get_evaluation", evaluationId=first["evaluationId"])
    assert answer["status"] == "done"
    assert any("discarded" in note for note in answer["notes"])
    part = client.call("get_evaluation", evaluationId=first["evaluationId"], part="stdout", length=5)
    assert (part["ok"], part["reason"]) == (False, "forgotten")


def test_several_values_fit_the_limit_and_the_rest_is_counted(client):
    answer = client.call("evaluate_code", code="\n".join(f"'{number:02}' * 1_000" for number in range(5)))
    assert sum(map(len, [answer["result"], *answer["values"]])) <= 6000
    assert answer["result"] == repr("04" * 1_000)
    assert len(answer["values"]) == 2
    [note] = [note for note in answer["notes"] if note.startswith("values")]
    assert note.startswith("values has 2 of 5, the last of them shortened: read the resource codriver://evaluation/")
    many = client.call("evaluate_code", code="\n".join(map(str, range(150))))
    assert len(many["values"]) == 100
    assert any(note.startswith("values has 100 of 150: ") for note in many["notes"])


def test_result_and_output_share_the_limit_of_one_answer(client):
    code = "import sys\nprint('o' * 100_000)\nprint('e' * 100_000, file=sys.stderr)\n'v' * 100_000"
    answer = client.call("evaluate_code", code=code)
    lengths = [len(answer[key]) for key in ("result", "stderr", "stdout")]
    assert sum(lengths) <= 6000
    assert min(lengths) >= 6000 // 5
    assert lengths[0] == max(lengths)
    assert len(json.dumps(answer)) < 6500
    assert answer["values"][-1] == "<<result>>"
    failed = client.call("evaluate_code", code=code.replace("'v' * 100_000", "raise ValueError('v' * 100_000)"))
    assert failed["error"]["class"] == "ValueError"
    assert len(json.dumps(failed)) < 6500
    alone = client.call("evaluate_code", code="print('short')\n'v' * 100_000")
    assert 6000 - 300 < len(alone["result"]) <= 6000
    assert alone["stdout"] == "short\n"


def test_the_list_of_values_includes_a_short_last_value(client):
    assert client.call("evaluate_code", code="1\n2\n3")["values"] == ["1", "2", "3"]


@given(st.integers(0, 60_000), st.lists(st.integers(0, 60_000), max_size=4))
def test_each_part_gets_a_fair_share_and_no_space_is_wasted(max_bytes, sizes):
    expected = {str(place): size for place, size in enumerate(sizes)}
    shares = share_budget(max_bytes, expected)
    assert sum(shares.values()) == min(max_bytes, sum(sizes))
    for name, size in expected.items():
        assert min(size, max_bytes // max(1, len(sizes))) <= shares[name] <= size


@pytest.mark.parametrize("requested", ["has_printed", "total_characters"])
def test_reading_a_stream_before_it_exists_is_safe_across_threads(requested):
    transcript = transcripts().open("e1")

    class Interrupted:
        @property
        def total(self):
            transcript.text("stderr")  # another thread may do this between any two steps
            return 0

    transcript._streams["stdout"] = Interrupted()
    assert not getattr(transcript, requested)
