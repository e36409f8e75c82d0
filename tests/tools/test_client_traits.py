"""Answer sizes by client: short by default, longer on request, up to what the client passes on."""

import json
import re
from types import SimpleNamespace

import pytest
from reading_cost import PROFILES, compact, text_of
from tools_in_memory import serving

from codriver.repls.contract import test_run_values
from codriver.repls.contract.stack_trace_values import StackFrame, StackTrace
from codriver.repls.contract.test_reports import encode_report
from codriver.settings.model import Settings
from codriver.tools.calls.call import Call
from codriver.tools.execution.test_runs import run_fields
from codriver.tools.stacktrace import trace_fields

LIMITS = {
    "unknown": 20_000,
    "claude": 300_000,
    "copilot": 20_000,
    "codex": 12_000,
    "gemini": 40_000,
    "opencode": 48_000,
    "qwen": 20_000,
    "cline": 20_000,
}
"""Characters of an answer that reach the model whole; Claude Code's by what `_meta` of the tool says."""
BUDGET = 6200
PRINTED = '(print-lines 200000 " é\\t")'


pytestmark = pytest.mark.served("memory")


@pytest.mark.parametrize("profile", PROFILES)
def test_a_call_waits_as_long_as_its_client_tolerates(profile):
    def wait_ms(given=None, **settings):
        services = SimpleNamespace(live=SimpleNamespace(settings=Settings(**settings)))
        return Call(services, "c1", PROFILES[profile], None).wait_ms(given)

    is_patient = profile in ("claude", "copilot", "codex", "gemini", "opencode")
    assert wait_ms() == (50_000 if is_patient else 25_000)
    assert wait_ms(evaluate_timeout_ms=7000) == 7000, "the setting has priority"
    assert wait_ms(300, evaluate_timeout_ms=7000) == 300, "the argument has priority"


@pytest.fixture(scope="module")
def printed(live):
    """Return the id of an evaluation that printed 200,000 lines."""
    with live.client() as client:
        return client.call("evaluate_code", code=PRINTED, timeoutMs=60_000)["evaluationId"]


def call_tool(client, tool, **arguments):
    """Return the answer, and the length of the text that the model reads."""
    result = client.request("tools/call", {"name": tool, "arguments": arguments})["result"]
    text = text_of(result)
    return json.loads(text), len(text)


@pytest.mark.parametrize("profile", PROFILES)
def test_no_answer_exceeds_its_budget_unless_more_is_requested(live, printed, profile):
    with live.client(name=PROFILES[profile]) as client:
        answer, length = call_tool(client, "get_evaluation", evaluationId=printed)
        assert length <= BUDGET
        assert 2000 < len(answer["stdout"]) < BUDGET // 2  # as it is a flood
        assert call_tool(client, "get_evaluation", evaluationId=printed, part="stdout")[1] <= BUDGET


@pytest.mark.parametrize("profile", PROFILES)
def test_a_requested_length_is_limited_to_the_longest_answer_the_client_accepts(live, printed, profile):
    with live.client(name=PROFILES[profile]) as client:
        answer, length = call_tool(client, "get_evaluation", evaluationId=printed, part="stdout", length=10**7)
        assert 0.8 * LIMITS[profile] < length <= LIMITS[profile]
        whole = "".join(f"{n} é\t\n" for n in range(max(LIMITS.values())))
        assert whole.startswith(answer["text"])
        assert answer["next"] == len(answer["text"])
        answer, _ = call_tool(client, "get_evaluation", evaluationId=printed, part="stdout", length=7000)
        assert answer["text"] == whole[:7000]


def test_long_output_is_truncated_to_head_and_tail_with_a_call_that_returns_the_middle(live):
    with live.client() as client:
        answer = client.call("evaluate_code", code=r'(print-lines 700 " é\t\"\u0000")')
        whole = "".join(f'{n} é\t"\x00\n' for n in range(700))
        match = re.fullmatch(r"(.*)\n… (\d+) characters left out …\n(.*)", answer["stdout"], re.DOTALL)
        beginning, omitted, end = match[1], int(match[2]), match[3]
        assert whole.startswith(beginning + "\n")
        assert whole.endswith("\n" + end)
        [note] = [note for note in answer["notes"] if note.startswith("stdout")]
        part, place, length = re.search(r"get_evaluation with part (\w+), from (\d+), length (\d+);", note).groups()
        assert int(length) == omitted == len(whole) - len(beginning) - len(end)
        missing = client.call(
            "get_evaluation", evaluationId=answer["evaluationId"], part=part, length=int(length), **{"from": int(place)}
        )
        assert beginning + missing["text"] + end == whole


def test_a_long_value_is_truncated_to_its_head_with_a_call_that_returns_the_rest(live):
    with live.client() as client:
        answer = client.call("evaluate_code", code='(repeat "v" 15000)')
        [note] = [note for note in answer["notes"] if note.startswith("result")]
        place, length = map(int, re.search(r"part result, from (\d+), length (\d+);", note).groups())
        rest = client.call("get_evaluation", evaluationId=answer["evaluationId"], length=length, **{"from": place})
        assert answer["result"] + rest["text"] == json.dumps("v" * 15_000)


def test_a_failure_with_a_long_message_fits_the_budget(live):
    with live.client() as client:
        _, length = call_tool(client, "evaluate_code", code='(fail (repeat "x" 100000))')
        assert length <= BUDGET + 500


def test_an_interrupted_evaluation_does_not_repeat_all_its_output(live):
    with live.client() as client:
        code = f"{PRINTED} (wait)"
        began = client.call("evaluate_code", code=code, timeoutMs=1000)
        answer, length = call_tool(client, "interrupt_evaluation", evaluationId=began["evaluationId"])
        assert answer["status"] == "interrupted"
        assert length <= BUDGET + 500


def test_a_larger_limit_is_offered_only_to_a_client_that_supports_it(live):
    for profile, name in PROFILES.items():
        with live.client(name=name) as client:
            tools = client.request("tools/list")["result"]["tools"]
        lifted = {tool["name"] for tool in tools if "anthropic/maxResultSizeChars" in json.dumps(tool.get("_meta"))}
        assert lifted == ({"get_evaluation", "repl_output_log"} if profile == "claude" else set())


def test_a_user_setting_raises_the_limit_up_to_the_longest_answer_the_client_accepts(tmp_path):
    with serving(tmp_path, settings={"max_text_bytes": 100_000}) as live:
        for profile, limit in (LIMITS | {"claude": 50_000}).items():
            with live.client(name=PROFILES[profile]) as client:
                _, length = call_tool(client, "evaluate_code", code=f'(println (repeat "x" {3 * limit}))')
                assert 0.8 * limit < length <= limit


def test_the_log_returns_newest_rows_within_budget_and_more_with_a_limit(live):
    with live.client() as client:
        for number in range(60):
            client.call("evaluate_code", code=f'(str "row {number} " (repeat "x" 100))')
        answer, length = call_tool(client, "repl_output_log")
        assert length <= BUDGET
        assert answer["cut"] == "rows"
        assert answer["count"] == len(answer["result"]) > 10
        assert answer["result"][-1]["line"] == answer["lastLine"]
        assert any(note.startswith(f"{100 - answer['count']} earlier rows are omitted") for note in answer["notes"])
        more, length = call_tool(client, "repl_output_log", limit=100)
        assert BUDGET < length <= LIMITS["unknown"]
        assert more["count"] > answer["count"]


def test_an_explicit_row_limit_returns_that_many_rows_with_shortened_texts(live):
    with live.client() as client:
        for number in range(3):
            client.call("evaluate_code", code=f'(println (str (repeat "x" 9000) {number}))')
        answer, length = call_tool(client, "repl_output_log", limit=6, category=["evaluationOutput"])
        assert length <= BUDGET
        assert len([row for row in answer["result"] if row["text"].startswith("xxx")]) >= 3
        assert "pass a larger maxTextBytes" in answer["notes"][-1]
        assert call_tool(client, "repl_output_log", limit=6, maxTextBytes=20_000)[1] > BUDGET


def test_search_results_also_fit_the_answer_budget(live, printed):
    with live.client() as client:
        answer, length = call_tool(client, "get_evaluation", evaluationId=printed, grep="7")
        assert length <= BUDGET
        left_out = answer["count"] - len(answer["matches"])
        assert answer["notes"] == [f"{left_out} more lines are omitted: pass length to get more of them"]
        assert BUDGET < call_tool(client, "get_evaluation", evaluationId=printed, grep="7", length=10**6)[1] <= 20_000


def test_a_long_test_run_or_stack_trace_is_shortened_to_its_first_rows(tmp_path):
    failed = [
        test_run_values.TestResult(f"test_{n}", "shop", "fail", expected="e" * 5000, actual="\n" * 5000)
        for n in range(300)
    ]
    report = json.loads(encode_report(test_run_values.TestRun(300, 0, 300, 0, tuple(failed))))
    run = run_fields(report, "o" * 9000, tmp_path, passed=False, max_bytes=6000)
    assert len(compact(run)) <= BUDGET
    assert run["results"][0]["test"] == "test_0"
    assert run["count"] + run["omitted"] == 300
    frames = tuple(StackFrame(f"frame {n}", "shop.py", n, f"function_{n}") for n in range(1000))
    trace = trace_fields(StackTrace("Error", "m" * 9000, frames, "d" * 9000), whole=True, max_bytes=6000)
    assert len(compact(trace)) <= BUDGET
    assert trace["frames"][0]["function"] == "function_0"
    assert trace["count"] + trace["omitted"] == 1000


@pytest.mark.parametrize(
    ("name", "who"),
    [
        ("claude-code", "claude-code"),
        ("copilot-cli", "copilot-cli"),
        ("codex-mcp-client", "codex"),
        ("gemini-cli-mcp-client", "gemini"),
        ("opencode", "opencode"),
        ("qwen-cli-mcp-client-codriver", "qwen"),
        ("@cline/core", "cline"),
        ("factory-cli", "droid"),
        ("augment-mcp-client", "auggie"),
        ("Some Client 2", "some-client-2"),
    ],
)
def test_an_unnamed_caller_gets_a_short_name_from_its_client(live, name, who):
    with live.client(name=name) as client:
        assert client.call("evaluate_code", code="1")["who"] == who
