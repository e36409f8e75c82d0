"""Errors in the worker: they include the user's lines, and stay available to debuggers."""

import sys

import pytest
from live_server import until
from worker_client import text, texts, wait_for_input_request, wait_for_output


def test_a_traceback_includes_user_code_and_excludes_worker_code(python):
    (text,) = texts(python.evaluate("def boom():\n    return 1 / 0\nboom()"), "err")
    assert "return 1 / 0" in text
    assert "codriver/repls/worker" not in text


@pytest.mark.parametrize("words", ["raise ValueError", "return 1", "while True: pass"])
def test_an_error_whose_message_fails_or_hangs_is_reported(python, words):
    code = (
        f"class Bad(Exception):\n    def __str__(self):\n        print('begun', flush=True)\n        {words}\nraise Bad"
    )
    running = python.send("eval", code=code)
    until(lambda: wait_for_output(python, running), "the words to be asked for")
    python.send("interrupt")
    (parts,) = texts(python.answer(running), "codriver/error")
    assert parts["type"].endswith("Bad")
    assert texts(python.evaluate("1 + 1"), "value") == ["2"]


def test_errors_include_positions_in_the_file_that_the_code_comes_from(python):
    where = {"file": "/no/such.py", "line": 7, "column": 5}
    (read,) = texts(python.evaluate("f(", **where), "codriver/error")
    assert (read["file"], read["line"], read["column"]) == ("/no/such.py", 7, 6)
    (ran,) = texts(python.evaluate("1\n\n(1 / 0)", **where), "codriver/error")
    assert (ran["file"], ran["line"]) == ("/no/such.py", 9)


def test_a_dump_of_all_threads_includes_the_evaluation(python):
    running = python.send("eval", code="def busy():\n    print('begun', flush=True)\n    while True: pass\nbusy()")
    until(lambda: wait_for_output(python, running), "the code to run")
    (stacks,) = texts(python.ask("codriver/stacks"), "stacks")
    assert "in busy" in stacks
    python.send("interrupt")
    python.answer(running)


def test_a_failure_is_available_to_post_mortem_debuggers(python):
    python.evaluate("import sys\ndef boom():\n    inner = 42\n    raise ValueError('why')\nboom()")
    answer = python.evaluate("repr(sys.last_value), sys.last_exc is sys.last_value, sys.last_type is ValueError")
    assert texts(answer, "value") == ["(\"ValueError('why')\", True, True)"]
    frames = "import traceback\n[f.name for f in traceback.extract_tb(sys.last_traceback)]"
    assert texts(python.evaluate(frames), "value") == ["['<module>', 'boom']"], "and none of the worker's"


def test_post_mortem_debugging_works(python):
    python.evaluate("def boom():\n    inner = 42\n    raise ValueError('why')\nboom()")
    running = python.send("eval", code="import pdb\npdb.pm()")
    until(lambda: wait_for_input_request(python, running), "the prompt")
    python.send("stdin", stdin="p inner\nwhere\nq\n")
    answer = python.answer(running)
    assert "42\n" in text(answer, "out")
    assert "worker" not in text(answer, "out")


def test_the_users_excepthook_is_used(python):
    try:
        hook = "lambda kind, error, tb: print(kind.__name__, error, tb.tb_frame.f_code.co_name, file=sys.stderr)"
        python.evaluate(f"import sys\nsys.excepthook = {hook}")
        answer = python.evaluate("raise ValueError('why')")
        assert text(answer, "err") == "ValueError why <module>\n"
        assert texts(answer, "codriver/error")[0]["message"] == "why"
        assert "Traceback" in text(python.evaluate("exit(3)"), "err"), "the hook is not for those"
        python.evaluate("def broken(*_): raise KeyError('hook')\nsys.excepthook = broken")
        reply = text(python.evaluate("raise ValueError('why')"), "err")
        assert "Error in sys.excepthook:" in reply
        assert "KeyError: 'hook'" in reply
        assert reply.endswith("ValueError: why\n")
        assert "codriver/repls/worker" not in reply
    finally:
        python.evaluate("sys.excepthook = sys.__excepthook__")
    assert "Traceback" in text(python.evaluate("raise ValueError('why')"), "err")


def chain_of(repl, code):
    """Return the relation, type, message and innermost frame of each error in a reported chain."""
    (parts,) = texts(repl.evaluate(code), "codriver/error")
    return [
        (
            part["relation"],
            part["type"],
            part["message"],
            *[frame.partition(" ")[0] for frame in part.get("trace", ())[:1]],
        )
        for part in parts.get("chain", ())
    ]


CAUSES = """
def low():
    {}["a"]
def middle():
    try:
        low()
    except KeyError as error:
        raise ValueError("bad") from error
def high():
    try:
        middle()
    except ValueError:
        raise OSError("worse")
"""


def test_each_error_of_a_chain_has_its_own_frames(python):
    assert chain_of(python, CAUSES + "high()") == [
        ("context", "ValueError", "bad", "middle"),
        ("cause", "KeyError", "'a'", "low"),
    ]
    silenced = CAUSES + "try:\n    high()\nexcept OSError:\n    raise LookupError from None\n"
    assert chain_of(python, silenced) == []


def test_a_cause_that_was_never_raised_is_included(python):
    assert chain_of(python, "raise ValueError('bad') from KeyError('a')") == [("cause", "KeyError", "'a'")]


def test_a_circular_chain_of_causes_does_not_loop_forever(python):
    code = "a, b = ValueError('a'), KeyError('b')\na.__cause__, b.__cause__ = b, a\nraise a"
    assert chain_of(python, code) == [("cause", "KeyError", "'b'")]


def test_only_the_nearest_errors_of_a_long_chain_are_included(python):
    code = (
        "error = None\nfor n in range(900):\n    new = ValueError(str(n))\n    new.__cause__ = error\n    error = new\n"
        "raise error"
    )
    reported = chain_of(python, code)
    assert [item[2] for item in reported[:10]] == [str(n) for n in range(898, 888, -1)]
    assert reported[10:] == [("omitted", "…", "889 more errors are left out")]


def test_a_failing_message_of_a_cause_does_not_lose_the_error(python):
    code = (
        "class Bad(Exception):\n    def __str__(self):\n        raise LookupError\nraise ValueError('why') from Bad()"
    )
    ((_, kind, message),) = chain_of(python, code)
    assert (kind, message) == ("Bad", "the message cannot be displayed: LookupError")


@pytest.mark.skipif(sys.version_info < (3, 11), reason="it has no groups")
def test_a_group_includes_its_members_and_their_causes(python):
    code = CAUSES + (
        "try:\n    high()\nexcept OSError as error:\n"
        "    error.add_note('seen twice')\n    raise ExceptionGroup('many', [error, TypeError('t')]) from None\n"
    )
    (parts,) = texts(python.evaluate(code), "codriver/error")
    assert [(part["relation"], part["type"]) for part in parts["chain"]] == [
        ("member 1", "OSError"),
        ("context of member 1", "ValueError"),
        ("cause of member 1", "KeyError"),
        ("member 2", "TypeError"),
    ]
    assert parts["chain"][0]["notes"] == ["seen twice"]


def test_lisp_errors_include_their_chain_with_data(lisp):
    lisp.evaluate('(defn low [] (throw (ex-info "low" {:a 1})))')
    lisp.evaluate('(defn high [] (try (low) (catch python/Exception e (throw (ex-info "high" {:b [2]}) e))))')
    (parts,) = texts(lisp.evaluate("(high)"), "codriver/error")
    assert (parts["type"], parts["message"], parts["data"]) == ("ExceptionInfo", "high", "{:b [2]}")
    (link,) = parts["chain"]
    assert [link[key] for key in ("relation", "type", "message", "data")] == ["cause", "ExceptionInfo", "low", "{:a 1}"]
    assert [frame.partition(" ")[0] for frame in link["trace"][:2]] == ["low", "high"]
    # An error raised while another one is handled, without naming it as the cause.
    lisp.evaluate('(defn by-the-way [] (try (low) (catch python/Exception _ (throw (ex-info "way" {})))))')
    (parts,) = texts(lisp.evaluate("(by-the-way)"), "codriver/error")
    assert [(part["relation"], part["message"]) for part in parts["chain"]] == [("context", "low")]
