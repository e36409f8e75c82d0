"""The tools in the session of a Python kernel: they answer like an embedded Python."""

import pytest
import real_kernels
from live_server import serving, until

from codriver.tools.answers.lean_answers import FRAMES_HINT, SECOND_FAILURE_PREFIX

pytestmark = pytest.mark.slow

MODULE = '"""Halves."""\n\n\ndef half(n):\n    """Half of n."""\n    return 10 / n\n'
TESTS = "import asyncio\n\nimport halves\n\n\ndef test_good():\n    assert halves.half(2) == 5\n\n\n"
TESTS += "def test_bad():\n    assert halves.half(5) == 3\n\n\ndef test_loop():\n    asyncio.run(asyncio.sleep(0))\n"


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    """Run a server with one kernel whose own directory is not the workspace."""
    kernel = real_kernels.kernel("ipykernel")
    options = ("--kernel", f"jup={kernel.file}", "--repl", "none")
    with serving(tmp_path_factory.mktemp("kernel-session"), *options, durations="stacks_s=60") as live:
        (live.workspace / "halves.py").write_text(MODULE)
        (live.workspace / "test_halves.py").write_text(TESTS)
        yield live


@pytest.fixture
def call(client):
    return client.call


def test_ipython_syntax_is_evaluated_and_invalid_syntax_is_refused(call):
    assert call("evaluate_code", code="%who_ls int")["ok"]
    assert call("evaluate_code", code="import asyncio\nawait asyncio.sleep(0, 7)")["result"] == "7"
    for _ in range(20):  # a kernel that is still busy runs the code without checking it first
        count = call("evaluate_code", code="get_ipython().execution_count")["result"]
        answer = call("evaluate_code", code="%time 1\nx = = 1")
        if answer["reason"] != "evaluation-failed":
            break
    assert (answer["ok"], answer["reason"]) == (False, "syntax-error")
    assert answer["error"] == {
        "class": "SyntaxError", "message": "invalid syntax", "phase": "read", "line": 2, "column": 5,
    }  # fmt: skip
    assert call("evaluate_code", code="get_ipython().execution_count")["result"] == str(int(count) + 1)


def test_a_kernel_supports_loading_lookup_completion_and_stack_traces(call, live):
    answer = call("load_file", filePath="halves.py")
    assert (answer["ok"], answer["result"]) == (True, f"<module '__main__' from '{live.workspace}/halves.py'>")
    assert call("symbol_info", symbol="half")["doc"] == "Half of n."
    symbol = call("symbol_info", symbol="half", source=True)
    assert (symbol["file"], symbol["line"], symbol["source"][:9]) == ("halves.py", 4, "def half(")
    assert call("complete_symbol", prefix="hal")["completions"] == [{"candidate": "half", "type": "function"}]
    error = call("evaluate_code", code="half(0)")["error"]
    assert (error["file"], error["line"]) == (f"{live.workspace}/halves.py", 6)
    trace = call("stacktrace", locals=True)
    assert (trace["class"], trace["frames"][0]["locals"]) == ("ZeroDivisionError", {"n": "0"})


def test_a_kernel_records_the_function_calls_made_by_code(call):
    answer = call("evaluate_code", code="def twice(n): return 2 * n\ntwice(4)", trace=True)
    assert answer["trace"].splitlines()[1:2] == ["#1 twice(4) -> 8"], answer
    assert "trace" not in call("evaluate_code", code="twice(4)")


def test_a_kernel_evaluates_code_in_a_frame_of_the_last_error(call):
    call("evaluate_code", code="def share(of, n):\n    parts = [of, n]\n    return of / n\nshare(3, 0)")
    number = next(item["frame"] for item in call("stacktrace")["frames"] if item["function"] == "share")
    assert call("evaluate_code", code="kept = 1\n[of + p for p in parts]", frame=number)["result"] == "[6, 3]"
    assert call("evaluate_code", code="parts[5]", frame=number)["error"]["class"] == "IndexError"
    assert call("evaluate_code", code="kept, of", frame=number)["result"] == "(1, 3)"
    refused = call("evaluate_code", code="kept = 2\nawait share", frame=number)["error"]
    assert (refused["class"], "await is not possible" in refused["message"]) == ("FrameError", True)


def test_tests_run_in_a_new_process_with_the_kernels_interpreter(call):
    answer = call("run_tests", namespace="test_halves.py", timeoutMs=60_000)
    assert (answer["collected"], answer["passed"], answer["failed"]) == (3, 2, 1), answer
    assert [(row["test"], row["line"]) for row in answer["results"]] == [("test_halves.py::test_bad", 11)]
    assert call("run_tests", failed=True, timeoutMs=60_000)["collected"] == 1


def test_an_edit_of_a_loaded_module_updates_imported_references_in_a_kernel(call, live):
    call(
        "evaluate_code",
        code=f"import sys; sys.path.insert(0, {str(live.workspace)!r})\nfrom halves import half as held",
    )
    (live.workspace / "halves.py").write_text(MODULE.replace("10 / n", "20 / n"))
    reported = call("evaluate_code", code="held(5)")
    assert "halves was edited since its load (half): load_file it" in reported["notes"]
    assert not any("halves" in note for note in call("evaluate_code", code="1 + 1").get("notes", []))
    assert call("what_changed")["differences"] == ["halves: edited in the file since the load: half"]
    call("load_file", filePath="halves.py")
    assert call("evaluate_code", code="held(5)")["result"] == "4.0"
    assert call("what_changed")["differences"] == []


def test_an_interrupted_kernel_reports_its_stack(call):
    loop = "while True: time.sleep(0.01)"
    began = call("evaluate_code", code=f"import time\nprint('loops')\n{loop}", timeoutMs=300)
    until(lambda: "loops" in call("get_evaluation", evaluationId=began["evaluationId"], part="stdout")["text"], "it")
    answer = call("interrupt_evaluation", evaluationId=began["evaluationId"])
    assert (answer["ok"], answer["status"]) == (True, "interrupted")
    assert loop in answer["stacks"]


def test_the_stacks_of_a_kernel_include_a_cell_that_awaits(call):
    assert call("status", about="variables")["ok"]
    began = call("evaluate_code", code="import asyncio\nawait asyncio.sleep(600)", timeoutMs=1000)
    assert "await asyncio.sleep(600)" in call("status", about="threads")["threads"]
    answer = call("interrupt_evaluation", evaluationId=began["evaluationId"])
    assert (answer["ok"], answer["status"]) == (True, "interrupted")
    assert "await asyncio.sleep(600)" in answer["stacks"]


def test_without_forking_a_repeated_failure_suggests_trace_and_comparison(call):
    code = "1 / (3 - 3)"
    hints = [call("evaluate_code", code=code, detail=False).get("hint") for _ in range(2)]
    assert hints[0] is None
    assert hints[1].startswith(SECOND_FAILURE_PREFIX + FRAMES_HINT)
