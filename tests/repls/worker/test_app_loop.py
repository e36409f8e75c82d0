"""Top-level `await` in an asyncio program runs on the program's own loop, which survives interrupts."""

import pytest
from application import SEAM, running
from worker_client import text, texts, wait_for_output

PROGRAM = f"""\
import asyncio, sys
sys.path.insert(0, {str(SEAM)!r})
import codriver_seam

async def work(queue):
    while True:
        done.append(await queue.get())
        queue.task_done()

async def main():
    global loop, queue, repl
    loop, queue = asyncio.get_running_loop(), asyncio.Queue()
    worker = asyncio.create_task(work(queue))
    repl = codriver_seam.start_repl(True)
    print(f"listens:{{repl.port}}", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    worker.cancel()

done = []
asyncio.run(main())
"""


@pytest.fixture(scope="module")
def process(tmp_path_factory):
    with running(tmp_path_factory.mktemp("loop"), PROGRAM) as program:
        yield program


@pytest.fixture
def program(process):
    with process.fresh_session() as repl:
        yield repl
        assert texts(repl.evaluate("import asyncio\nawait asyncio.sleep(0, 'the loop lives')"), "value")[-1:] == [
            "'the loop lives'"
        ]


def test_await_runs_on_the_event_loop_of_the_program(program):
    assert texts(program.evaluate("await queue.put(5)\nawait queue.join()\ndone"), "value")[-1:] == ["[5]"]
    here = "import asyncio\nasync def here():\n    return asyncio.get_running_loop() is loop\nawait here()"
    assert texts(program.evaluate(here), "value") == ["True"]


def test_the_event_loop_of_the_main_thread_is_used_by_default(program):
    here = "import asyncio\nasync def here():\n    return asyncio.get_running_loop() is loop\nawait here()"
    program.evaluate("import __main__; __main__.repl._python.loop = None")
    assert texts(program.evaluate(here), "value") == ["True"]
    program.evaluate("__main__.repl.use_loop(loop)")


def test_output_of_a_task_on_the_programs_loop_belongs_to_the_evaluation_that_started_it(program):
    code = (
        "import asyncio\nasync def tell():\n    print('told')\n    return asyncio.get_running_loop() is loop\n"
        "task = asyncio.create_task(tell())\nawait task"
    )
    answer = program.evaluate(code)
    assert (text(answer, "out"), texts(answer, "value")[-1:]) == ("told\n", ["True"])


def test_a_failing_await_is_reported_with_only_its_own_frames(program):
    (parts,) = texts(program.evaluate("async def fail():\n    return 1 / 0\nawait fail()"), "codriver/error")
    assert (parts["type"], parts["line"]) == ("ZeroDivisionError", 2)
    assert len(parts["trace"]) == 2, parts["trace"]


def test_an_interrupt_cancels_an_await(program):
    code = (
        "import asyncio\nended = []\nasync def wait():\n    print('begun', flush=True)\n    try:\n"
        "        await asyncio.Event().wait()\n    finally:\n        ended.append(True)\nawait wait()"
    )
    waiting = program.send("eval", code=code)
    assert wait_for_output(program, waiting)
    program.ask("interrupt")
    assert "interrupted" in program.answer(waiting)[-1]["status"]
    assert texts(program.evaluate("await asyncio.sleep(0)\nended"), "value")[-1:] == ["[True]"]


def test_an_interrupt_cancels_an_await_that_has_just_started(program):
    slow = (
        "import asyncio, time\nsubmit = asyncio.run_coroutine_threadsafe\ndef submit_slowly(*words):\n"
        "    future = submit(*words)\n    time.sleep(0.3)\n    return future\n"
        "asyncio.run_coroutine_threadsafe = submit_slowly"
    )
    program.evaluate(slow)
    try:
        test_an_interrupt_cancels_an_await(program)
    finally:
        program.evaluate("asyncio.run_coroutine_threadsafe = submit")


def test_an_endless_loop_in_an_awaited_coroutine_can_be_interrupted(program):
    code = "async def spin():\n    print('begun', flush=True)\n    while True: pass\nawait spin()"
    spinning = program.send("eval", code=code)
    assert wait_for_output(program, spinning)
    program.ask("interrupt")
    assert "interrupted" in program.answer(spinning)[-1]["status"]
