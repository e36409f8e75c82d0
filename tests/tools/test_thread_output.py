"""No answer includes the output of plain threads in an external JVM REPL. The first answer says where it is printed."""

import pytest
from live_server import serving, until_connected
from real_repls import repl

GOES = "output from threads and System/out in clj goes to the standard output of the REPL's process"


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    options = ("--nrepl", f"clj={repl('jvm').endpoint}", "--repl", "none")
    with serving(tmp_path_factory.mktemp("threads"), *options) as running:
        with running.client() as client:
            until_connected(client)
        yield running


@pytest.mark.parametrize(
    "code", ['(.start (Thread. (fn [] (println "from thread"))))', '(.println System/out "direct")']
)
def test_the_first_answer_explains_where_the_output_of_threads_is_printed(live, code):
    with live.client(name=f"client-of-{len(code)}") as client:
        assert "System/out" not in str(client.call("evaluate_code", code="(+ 1 2)"))
        assert any(note.startswith(GOES) for note in client.call("evaluate_code", code=code)["notes"])
        assert GOES not in str(client.call("evaluate_code", code=code))
