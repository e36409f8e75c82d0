"""Stacks of asyncio tasks: those that failed, those that wait, and which evaluation created them."""

import contextlib

import pytest
from needs import interpreter
from worker_client import NAMES, Repl, texts, wait_for_output

DYING = """
import asyncio

async def fetch(queue):
    page = await queue.get()
    return page.body

async def work(queue):
    await fetch(queue)

async def main():
    global workers
    queue = asyncio.Queue()
    workers = [asyncio.ensure_future(work(queue)) for _ in range(2)]
    for number in range(2):
        queue.put_nowait(None)
    print("begun", flush=True)
    await queue.join()
"""
ONE = """
async def one():
    global task
    queue = asyncio.Queue()
    queue.put_nowait(None)
    task = asyncio.ensure_future(work(queue))
    await asyncio.wait([task])

await one()
"""
ERROR = "AttributeError: 'NoneType' object has no attribute 'body'"


@pytest.fixture(scope="module", params=NAMES)
def process(request, tmp_path_factory):
    path = interpreter(request.param)
    with contextlib.closing(Repl(tmp_path_factory.mktemp("stacks"), "--supervised", python=path)) as repl:
        repl.connect()
        yield repl


RETRIEVE_ALL = """
import asyncio, gc
for one in gc.get_objects():
    if issubclass(type(one), asyncio.Future) and one.done() and not one.cancelled():
        one.exception()
"""


@pytest.fixture
def python(process):
    with process.fresh_session() as repl:
        repl.evaluate(RETRIEVE_ALL)  # what other tests left behind
        yield repl


def stacks(python):
    (found,) = texts(python.ask("codriver/stacks"), "stacks")
    return found


def evaluation(number):
    return {"codriver/keep": f"e-{number}"}


@pytest.mark.parametrize("runs", ["await main()", "asyncio.run(main())"])
def test_failed_tasks_come_first_with_their_location(python, runs):
    python.evaluate(DYING, **evaluation(1))
    assert wait_for_output(python, python.send("eval", code=runs, **evaluation(2)))
    until_both_died(python)
    first, *rest = stacks(python).split("\n\n")
    title, place, *_ = first.splitlines()
    made_by = ", created by evaluation e-2" if runs.startswith("await") else ""
    assert title.startswith("ended with an error: Task-")
    assert f"and 1 more like it{made_by}: {ERROR} at <eval " in title
    assert "in fetch" in place
    assert any("in main" in item for item in rest)


def until_both_died(python):
    for _ in range(1000):
        if "and 1 more like it" in stacks(python):
            return
    raise AssertionError("the tasks did not end")


def test_the_retrieved_error_of_a_task_is_not_reported(python):
    python.evaluate(DYING)
    python.evaluate(ONE)
    assert ERROR in stacks(python)
    python.evaluate("kept = task.exception()")
    assert "ended with an error" not in stacks(python)


def test_reading_stacks_does_not_mark_errors_as_retrieved(python):
    python.evaluate(DYING)
    python.evaluate(ONE)
    assert stacks(python) == stacks(python)
    assert texts(python.evaluate("task._log_traceback"), "value") == ["True"]


def test_tasks_are_attributed_to_the_evaluation_that_created_them(python):
    python.evaluate("import asyncio\nasync def first(): await asyncio.sleep(600)\n")
    python.evaluate("task = asyncio.create_task(first())\nawait asyncio.sleep(0)", **evaluation(1))
    second = "async def second():\n    print('begun', flush=True)\n    await asyncio.sleep(600)\nawait second()"
    assert wait_for_output(python, python.send("eval", code=second, **evaluation(2)))
    titles = [block.splitlines()[0] for block in stacks(python).split("\n\n")]
    assert sorted(title.partition(", ")[2] for title in titles if title.startswith("task ")) == [
        "created by evaluation e-1:",
        "created by evaluation e-2:",
    ]


def test_reading_stacks_runs_no_code_of_an_exception(python):
    code = (
        "import asyncio\nran = []\n"
        "class Own(Exception):\n    def __str__(self):\n        ran.append(1)\n        return 'own'\n"
        "async def die(): raise Own(object())\ntask = asyncio.ensure_future(die())\nawait asyncio.wait([task])"
    )
    python.evaluate(code)
    before = texts(python.evaluate("len(ran)"), "value")
    assert "Own at <eval" in stacks(python)
    assert texts(python.evaluate("len(ran)"), "value") == before
