"""Code that cannot be parsed is refused before any of it is accepted."""

import sys
from dataclasses import replace

import pytest
from live_server import serving
from needs import interpreter
from refusals import refused_as

from codriver.core.profiles import Profile
from codriver.core.state import Origin, Repl, State
from codriver.tools.calls.syntax_check import MAX_PYTHON_CHARACTERS, check_python, possible_repls, speaks_lisp

EVERYTHING = "[:find (count ?e) . :where [?e :output/line]]"


@pytest.fixture
def client(live):
    with live.client() as connected:
        connected.call("evaluate_code", code="0")
        yield connected


def test_unparsable_python_is_refused_and_leaves_no_trace(client):
    before = client.call("repl_output_log", query=EVERYTHING)["result"]
    answer = client.call("evaluate_code", code="ran = 1\nx = (1")
    assert (answer["ok"], answer["reason"]) == (False, "syntax-error")
    assert (answer["error"]["message"], answer["error"]["line"], answer["error"]["column"]) == (
        "'(' was never closed", 2, 5,
    )  # fmt: skip
    assert "nothing was evaluated" in answer["hint"]
    assert "evaluationId" not in answer
    assert client.call("repl_output_log", query=EVERYTHING)["result"] == before
    assert client.call("evaluate_code", code="'ran' in dir()")["result"] == "False"


def test_an_unparsable_python_file_is_refused(live, client):
    (live.workspace / "broken.py").write_text("a = 1\nb = = 2\n")
    answer = client.call("load_file", filePath="broken.py")
    assert (answer["reason"], answer["error"]["line"], answer["error"]["column"]) == ("syntax-error", 2, 5)
    assert "evaluationId" not in answer


@pytest.mark.parametrize("code", ["import asyncio\nawait asyncio.sleep(0)\n7", "'\\d' and 7", "\n7  # end"])
def test_valid_python_is_evaluated(client, code):
    assert client.call("evaluate_code", code=code)["result"] == "7"


def test_an_unknown_session_is_reported_before_the_code_is_parsed(client):
    answer = client.call("evaluate_code", code="(this is no Python", replSessionKey="clj")
    assert (answer["reason"], answer["sessions"]) == ("unknown-session", ["py"])


@pytest.mark.parametrize("name", ["pyproject.toml", "notes.md", "core.clj", ".env", ".env.local", "Procfile"])
def test_a_file_in_another_language_is_refused(live, client, name):
    (live.workspace / name).write_text("x = 1\n")
    answer = client.call("load_file", filePath=name)
    assert (answer["ok"], answer["reason"]) == (False, "wrong-language")
    assert name in answer["message"]
    assert ".py" in answer["hint"]
    assert client.call("evaluate_code", code="'x' in dir()")["result"] == "False"


@pytest.mark.parametrize(
    ("name", "needed"),
    [
        ("core.hy", '.hy needs a session of Hy: add "hy" to repl in codriver.toml'),
        ("core.lpy", '.lpy needs a session of Basilisp: add "lisp" to repl in codriver.toml'),
        ("core.clj", ".clj needs a session of Clojure or Babashka"),
        ("notes.md", "data is read by code in the data's own language"),
    ],
)
def test_a_refused_file_names_the_session_it_needs(live, client, name, needed):
    (live.workspace / name).write_text("1\n")
    assert client.call("load_file", filePath=name)["hint"] == f"this session loads files that end in .py; {needed}"


def test_a_file_without_an_extension_can_be_loaded(live, client):
    (live.workspace / "script").write_text("40 + 2\n")
    assert client.call("load_file", filePath="script")["ok"]


def test_a_dotfile_with_a_shebang_is_loaded(live, client):
    (live.workspace / ".startup").write_text("#!/usr/bin/env python3\nstarted = 6 * 7\n")
    assert client.call("load_file", filePath=".startup")["ok"]
    (live.workspace / ".settings").write_text("started = 0\n")
    assert "#!" in client.call("load_file", filePath=".settings")["hint"]
    assert client.call("evaluate_code", code="started")["result"] == "42"


def test_a_compile_error_of_the_repl_reports_that_nothing_ran(client):
    answer = client.call("evaluate_code", code="ran = 1\nreturn 2")
    assert (answer["reason"], answer["error"]["phase"]) == ("evaluation-failed", "read")
    assert "nothing was evaluated" in answer["hint"]
    assert client.call("evaluate_code", code="'ran' in dir()")["result"] == "False"


def a_state(version, dialect="python"):
    repl = Repl(id="r1", key="py", origin=Origin("process", "python"))
    profile = None if version is None else Profile(dialect=dialect, versions={"python": version})
    return replace(State(), repls={"r1": replace(repl, profile=profile)})


@pytest.mark.parametrize("version", [None, "", "99.1.0", "many"])
def test_a_repl_with_an_unknown_or_newer_python_parses_for_itself(version):
    check_python(possible_repls(a_state(version), "py"), "x = (1")


def test_code_for_an_older_python_is_parsed_by_the_server():
    with refused_as("syntax-error"):
        check_python(possible_repls(a_state("3.8.1"), "py"), "x = (1")


@pytest.mark.parametrize("code", ["(" * MAX_PYTHON_CHARACTERS + "1", "-" * 20_000 + "1"])
def test_code_beyond_the_parser_limits_is_left_to_the_repl(code):
    check_python(possible_repls(a_state("3.8.1"), None), code)


def test_code_for_a_lisp_is_not_parsed_as_python():
    check_python(possible_repls(a_state("3.8.1", "basilisp"), "py"), "(+ 1 2")


def test_brackets_are_checked_before_an_unknown_session_is_refused():
    lisp = a_state("3.8.1", "basilisp")
    assert speaks_lisp(possible_repls(lisp, "nosuch"))
    assert speaks_lisp(possible_repls(lisp, "py/own"))
    assert not speaks_lisp(possible_repls(a_state("3.8.1"), "nosuch"))
    assert not speaks_lisp(possible_repls(State(), "nosuch"))


IPYTHON = pytest.mark.parametrize(
    ("code", "way"),
    [
        ("x = 1\n!ls -l", "subprocess.run('ls -l', shell=True, check=True)"),
        ("%timeit f(1)", "timeit.timeit"),
        ("files = !ls", "subprocess.run('ls', shell=True, check=True, capture_output=True, text=True)"),
        ("here = %pwd", "os.getcwd()"),
        ("%%time\nf()", "time.perf_counter"),
        ("%nosuch", "plain Python"),
        ("%matplotlib inline", "%matplotlib is an IPython magic: leave it out, because figures need no setting"),
        ("%%bash\nls", "subprocess.run(script, shell=True, check=True)"),
        ("import os; !ls -l", "subprocess.run('ls -l', shell=True, check=True)"),
        ("len?", "call symbol_info with the symbol 'len'"),
        ("?str.join", "call symbol_info with the symbol 'str.join'"),
        ("json.dumps??", "call symbol_info with the symbol 'json.dumps'"),
    ],
)


@IPYTHON
def test_ipython_only_syntax_is_refused_with_a_python_alternative(code, way):
    with refused_as("syntax-error") as raised:
        check_python(possible_repls(a_state("3.8.1"), "py"), code)
    assert way in raised.value.hint
    assert raised.value.hint.endswith("nothing was evaluated")


@pytest.fixture(scope="module", params=["python3.12", "python3.13"])
def newer(request, tmp_path_factory):
    """Return a client of a server whose project has a newer Python than the server."""
    python = interpreter(request.param)
    version = tuple(map(int, request.param.removeprefix("python").split(".")))
    if version <= sys.version_info[:2]:
        pytest.skip("the server's own Python is as new")
    options = ("--repl", "python", "--python", str(python))
    with serving(tmp_path_factory.mktemp("newer"), *options) as live, live.client() as connected:
        yield connected


@IPYTHON
def test_an_alternative_to_ipython_syntax_is_also_suggested_for_a_newer_python(newer, code, way):
    answer = newer.call("evaluate_code", code=code)
    assert (answer["ok"], answer["reason"]) == (False, "syntax-error")
    assert way in answer["hint"]
    assert answer["hint"].startswith("nothing was evaluated")


def test_other_syntax_errors_of_a_newer_python_do_not_mention_ipython(newer):
    assert "IPython" not in str(newer.call("evaluate_code", code="x = (1\n% 2"))
    assert newer.call("evaluate_code", code="(7\n% 4)")["result"] == "3"
