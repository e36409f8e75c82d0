"""Errors in the worker: the user's lines in them, and left where debuggers look."""

import pytest
from live_server import until
from worker_client import asked_for_input, begun, text, texts


def test_a_traceback_shows_the_users_lines_and_none_of_the_workers(python):
    (text,) = texts(python.evaluate("def boom():\n    return 1 / 0\nboom()"), "err")
    assert "return 1 / 0" in text
    assert "codriver/repls/worker" not in text


@pytest.mark.parametrize("words", ["raise ValueError", "return 1", "while True: pass"])
def test_an_error_whose_words_fail_or_never_end_is_reported(python, words):
    code = (
        f"class Bad(Exception):\n    def __str__(self):\n        print('begun', flush=True)\n        {words}\nraise Bad"
    )
    running = python.send("eval", code=code)
    until(lambda: begun(python, running), "the words to be asked for")
    python.send("interrupt")
    (parts,) = texts(python.answer(running), "codriver/error")
    assert parts["type"].endswith("Bad")
    assert texts(python.evaluate("1 + 1"), "value") == ["2"]


def test_errors_tell_the_place_in_the_file_that_the_code_is_of(python):
    where = {"file": "/no/such.py", "line": 7, "column": 5}
    (read,) = texts(python.evaluate("f(", **where), "codriver/error")
    assert (read["file"], read["line"], read["column"]) == ("/no/such.py", 7, 6)
    (ran,) = texts(python.evaluate("1\n\n(1 / 0)", **where), "codriver/error")
    assert (ran["file"], ran["line"]) == ("/no/such.py", 9)


def test_a_dump_of_all_threads_shows_what_runs(python):
    running = python.send("eval", code="def busy():\n    print('begun', flush=True)\n    while True: pass\nbusy()")
    until(lambda: begun(python, running), "the code to run")
    (stacks,) = texts(python.ask("codriver/stacks"), "stacks")
    assert "in busy" in stacks
    python.send("interrupt")
    python.answer(running)


def test_a_failure_is_left_where_post_mortem_debuggers_look(python):
    python.evaluate("import sys\ndef boom():\n    inner = 42\n    raise ValueError('why')\nboom()")
    said = python.evaluate("repr(sys.last_value), sys.last_exc is sys.last_value, sys.last_type is ValueError")
    assert texts(said, "value") == ["(\"ValueError('why')\", True, True)"]
    frames = "import traceback\n[f.name for f in traceback.extract_tb(sys.last_traceback)]"
    assert texts(python.evaluate(frames), "value") == ["['<module>', 'boom']"], "and none of the worker's"


def test_post_mortem_debugging_works(python):
    python.evaluate("def boom():\n    inner = 42\n    raise ValueError('why')\nboom()")
    running = python.send("eval", code="import pdb\npdb.pm()")
    until(lambda: asked_for_input(python, running), "the prompt")
    python.send("stdin", stdin="p inner\nwhere\nq\n")
    answer = python.answer(running)
    assert "42\n" in text(answer, "out")
    assert "worker" not in text(answer, "out")


def test_the_users_excepthook_holds(python):
    try:
        hook = "lambda kind, error, tb: print(kind.__name__, error, tb.tb_frame.f_code.co_name, file=sys.stderr)"
        python.evaluate(f"import sys\nsys.excepthook = {hook}")
        answer = python.evaluate("raise ValueError('why')")
        assert text(answer, "err") == "ValueError why <module>\n"
        assert texts(answer, "codriver/error")[0]["message"] == "why"
        assert "Traceback" in text(python.evaluate("exit(3)"), "err"), "the hook is not for those"
        python.evaluate("def broken(*_): raise KeyError('hook')\nsys.excepthook = broken")
        said = text(python.evaluate("raise ValueError('why')"), "err")
        assert "Error in sys.excepthook:" in said
        assert "KeyError: 'hook'" in said
        assert said.endswith("ValueError: why\n")
        assert "codriver/repls/worker" not in said
    finally:
        python.evaluate("sys.excepthook = sys.__excepthook__")
    assert "Traceback" in text(python.evaluate("raise ValueError('why')"), "err")
