"""Output of hy-nrepl with Codriver's fixes: by line, by evaluation, and without messages of the server itself."""

from dataclasses import replace
from itertools import accumulate

import anyio
import pytest
from real_repls import fresh

from codriver.core.requests import Request
from codriver.repls import dialects
from codriver.repls.contract.events import Output
from codriver.repls.dialects import HY
from codriver.repls.nrepl.nrepl_adapter import connect

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def server():
    with fresh("hy") as running:
        yield running


async def printed(server, code):
    """Return what an evaluation prints, message by message."""
    return (await evaluated(server, code))[0]


async def evaluated(server, code):
    """Return what an evaluation prints, message by message, and how it ends."""
    received, endings, over = [], [], anyio.Event()

    def ended(how):
        endings.append(how)
        over.set()

    def listener(_evaluation, event):
        if isinstance(event, Output):
            received.append(event.text)

    async with connect(server.endpoint, listener=listener) as adapter:
        adapter.start_evaluation(Request("1", code), ended)
        with anyio.fail_after(60):
            await over.wait()
    return received, endings[0]


def ends(texts):
    """Return the positions at which texts end when they are joined."""
    return set(accumulate(map(len, texts)))


@pytest.mark.parametrize(
    ("code", "messages"),
    [
        ('(print "one" 2 [3]) (print "four")', ["one 2 [3]\n", "four\n"]),
        ('(print "no end" :end "") 7', ["no end"]),
        ('(print "asked? " :end "" :flush True) (print "yes")', ["asked? ", "yes\n"]),
        ('(print "a\\nb\\nc" :end "")', ["a\nb\n", "c"]),
        ('(for [_ (range 3)] (print (* "x" 5000) :end ""))', ["x" * 10_000, "x" * 5000]),
    ],
)
async def test_output_is_sent_line_by_line_and_completely_before_the_value(server, code, messages):
    received = await printed(server, code)
    assert "".join(received) == "".join(messages)
    assert ends(received) <= ends(messages)  # messages that arrive together are read as one


async def test_output_of_a_failing_evaluation_precedes_its_error(server):
    received = await printed(server, '(print "before" :end "") (/ 1 0)')
    assert received[0] == "before"
    assert "ZeroDivisionError" in "".join(received[1:])


async def test_thread_output_is_attributed_to_the_running_evaluation_or_else_to_the_process(server, tmp_path):
    pending = """
        (import os threading time)
        (setv t (threading.Thread :target (fn []
          (while (not (os.path.exists "%s")) (time.sleep 0.01))
          (print "aside"))))
        (.start t)"""
    assert await printed(server, f"{pending % tmp_path} (.join t)") == ["aside\n"]
    gate = tmp_path / "gate"
    assert await printed(server, pending % gate) == []
    gate.touch()
    with anyio.fail_after(60):
        while "aside" not in server.lines:
            await anyio.sleep(0.05)


@pytest.mark.parametrize("mend", [str(fix) for fix in HY.fixes])
async def test_applying_the_output_fix_twice_has_no_further_effect(server, mend):
    stream = "(id hy.I.sys.stdout)"
    (before,) = await printed(server, f"(print {stream})")
    received, how = await evaluated(server, mend)
    assert (received, how.status) == ([], "done")
    assert await printed(server, f"(print {stream})") == [before]


async def test_applying_the_output_fix_does_not_replace_the_streams_of_a_concurrent_evaluation(monkeypatch):
    """The evaluation that applies the fix may end while the next evaluation prints."""
    monkeypatch.setattr(dialects, "HY", replace(HY, fixes=()))
    received, over = [], anyio.Event()

    def listener(evaluation, event):
        if isinstance(event, Output):
            received.append((evaluation, event.text))

    sleep = '(.sleep (__import__ "time") %s)'
    with fresh("hy") as server:
        async with connect(server.endpoint, listener=listener) as adapter:
            await adapter.open_session("apart")
            adapter.start_evaluation(
                Request("fixes", f"(do {' '.join(map(str, HY.fixes))} {sleep % 0.5})"), lambda _how: None
            )
            code = f'(for [_ (range 20)] (print "apart") {sleep % 0.1})'
            await anyio.sleep(0.1)
            adapter.start_evaluation(Request("prints", code, session="apart"), lambda _how: over.set())
            with anyio.fail_after(60):
                await over.wait()
    assert ({evaluation for evaluation, _ in received}, "".join(text for _, text in received)) == (
        {"prints"},
        "apart\n" * 20,
    )


async def test_a_long_message_does_not_make_the_server_print_anything(server):
    await printed(server, "1")  # the first client's own fixes are such messages
    before = len(server.lines)
    assert await printed(server, f'(print (len "{"x" * 100_000}"))') == ["100000\n"]
    assert set(server.lines[before:]) == {"New client"}
