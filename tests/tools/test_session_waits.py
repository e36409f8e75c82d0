"""A call waits for the session that it names if a REPL may be found under this name."""

from live_server import serving
from real_repls import repl


def test_a_call_waits_for_a_session_whose_repl_is_discovered_during_the_call(tmp_path):
    with serving(tmp_path, "--repl", "none", durations="found_s=60") as live, live.client() as client:
        call = client.begin_call("evaluate_code", code="1 + 1", replSessionKey="py", timeoutMs=60_000)
        (live.workspace / ".nrepl-port").write_text(str(repl("python").endpoint).rpartition(":")[2])
        answer = client.answer(call)["result"]["structuredContent"]
        assert (answer["ok"], answer.get("result")) == (True, "2"), answer


def test_the_wait_for_an_unknown_session_ends_with_the_time_limit_of_the_call(tmp_path):
    with serving(tmp_path, "--repl", "python", durations="found_s=600") as live, live.client() as client:
        answer = client.call("evaluate_code", code="1", replSessionKey="nowhere", timeoutMs=200)
        assert (answer["reason"], answer["sessions"]) == ("unknown-session", ["py"])


def test_an_unknown_session_is_refused_after_the_time_for_discovery(tmp_path):
    with serving(tmp_path, "--repl", "python", durations="found_s=0.1") as live, live.client() as client:
        answer = client.call("evaluate_code", code="1", replSessionKey="nowhere", timeoutMs=600_000)
        assert answer["reason"] == "unknown-session"
