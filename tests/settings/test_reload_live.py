"""Settings and skills that change under a running server, as its clients notice."""

import pytest
from live_server import serving, until, until_connected, user_settings_file

pytestmark = pytest.mark.served(durations="skills_s=0.3")

GUIDE = "---\nname: ours\ndescription: How we do it here.\n---\n\nLike this.\n"


@pytest.fixture(scope="module")
def live(live):
    with live.client() as bare:
        until_connected(bare)
    return live


@pytest.fixture
def client(live):
    with live.client() as client:
        yield client
    (live.workspace / "codriver.toml").write_text("")


def configure(live, text):
    (live.workspace / "codriver.toml").write_text(text)


def log(client):
    return [entry["text"] for entry in client.call("repl_output_log", limit=1000)["result"]]


def test_evaluation_can_be_disabled_and_enabled_while_the_server_runs(live, client):
    assert "evaluate_code" in client.tools()
    configure(live, "enableMcpReplEvaluation = false\n")
    client.await_notification("notifications/tools/list_changed")
    assert "evaluate_code" not in client.tools()
    refused = client.call("evaluate_code", code="1")
    assert refused["reason"] == "switched-off"
    assert "enableMcpReplEvaluation" in refused["message"]
    assert "enableMcpReplEvaluation" in refused["hint"]
    configure(live, "enableMcpReplEvaluation = true\n")
    client.await_notification("notifications/tools/list_changed")
    assert client.call("evaluate_code", code="1 + 1")["result"] == "2"


def test_running_code_can_be_read_and_interrupted_after_evaluation_is_disabled(live, client):
    code = "print('begun')\nimport time\nwhile True: time.sleep(0.01)"
    running = client.call("evaluate_code", code=code, timeoutMs=100)
    assert running["status"] == "running"
    configure(live, "enableMcpReplEvaluation = false\n")
    client.await_notification("notifications/tools/list_changed")
    assert {"get_evaluation", "interrupt_evaluation"} <= set(client.tools())
    assert client.call("get_evaluation", evaluationId=running["evaluationId"])["status"] == "running"
    ended = client.call("interrupt_evaluation", evaluationId=running["evaluationId"])
    assert (ended["ok"], ended["status"]) == (True, "interrupted")
    read = client.call("get_evaluation", evaluationId=running["evaluationId"], part="stdout")
    assert "begun" in read["text"]
    assert client.call("restart_repl")["phase"] == "connected"
    for tool, arguments in (("evaluate_code", {"code": "1"}), ("load_file", {"filePath": "app.py"}), ("run_tests", {})):
        assert client.call(tool, **arguments)["reason"] == "switched-off"


def test_a_changed_limit_applies_to_the_next_evaluation(live, client):
    configure(live, "maxLength = 3\n")
    until(lambda: any("maxLength = 3" in text for text in log(client)), "the new limit")
    assert "..." in client.call("evaluate_code", code="list(range(10))")["result"]


def test_the_image_limit_also_applies_to_what_a_caller_requests(live, client):
    def images():
        code = "'data:image/png;base64,' + 'A' * 40"
        answer = client.answer(client.begin_call("evaluate_code", code=code, maxImages=5))
        return [part for part in answer["result"]["content"] if part["type"] == "image"]

    assert len(images()) == 1
    configure(live, "maxImages = 0\n")
    until(lambda: any("maxImages = 0" in text for text in log(client)), "the new limit")
    assert images() == []


def test_a_setting_that_needs_a_restart_is_reported_in_the_log(live, client):
    configure(live, 'portFiles = ["x"]\n')
    until(lambda: any('portFiles = ["x"]' in text and "restart" in text for text in log(client)), "the line")


def test_an_added_repl_is_started_and_the_others_keep_running(tmp_path):
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace" / "codriver.toml").write_text('repl = ["python"]\n')
    with serving(tmp_path) as live, live.client() as client:
        assert client.call("evaluate_code", code="kept = 1", timeoutMs=60_000)["ok"]
        configure(live, 'repl = ["python", "lisp"]\n')
        until(lambda: "lpy" in [row["key"] for row in client.call("list_sessions")["sessions"]], "the Lisp")
        assert client.call("evaluate_code", code="(+ 1 2)", replSessionKey="lpy", timeoutMs=60_000)["result"] == "3"
        assert client.call("evaluate_code", code="kept", replSessionKey="py")["result"] == "1"


def test_an_invalid_file_is_reported_in_the_log_and_changes_nothing(live, client):
    configure(live, "maxDepth = 0\n")
    until(lambda: any("were not reloaded" in text and "maxDepth = 0" in text for text in log(client)), "the line")
    [error] = client.call("server_health")["errors"]
    assert error["code"] == "settings-refused"
    assert "maxDepth = 0" in error["message"]
    configure(live, "maxDeepness = 4\n")
    until(lambda: any("maxDeepness" in text for text in log(client)), "the warning")
    assert client.call("server_health")["errors"] == [error]


def test_server_health_keeps_reporting_a_repl_that_cannot_start(tmp_path):
    with serving(tmp_path, "--repl", "no-such-program --at-all") as live, live.client() as client:
        [error] = until(lambda: client.call("server_health")["errors"], "the error")
        assert error["code"] == "repl-given-up:repl"
        assert "no-such-program" in error["message"]
        assert error["count"] == 1


def test_a_workspace_skill_appears_when_allowed_and_follows_its_file(live, client):
    def addresses():
        return [resource["uri"] for resource in client.request("resources/list")["result"]["resources"]]

    def read(uri):
        answer = client.request("resources/read", {"uri": uri})
        return answer["result"]["contents"][0]["text"] if "result" in answer else None

    file = live.workspace / ".codriver" / "skills" / "ours" / "SKILL.md"
    file.parent.mkdir(parents=True)
    file.write_text(GUIDE)
    assert "skill://ours/SKILL.md" not in addresses()
    assert read("skill://ours/SKILL.md") is None
    user_settings_file(live.folder).write_text('skillSources = ["workspace"]\n')
    until(lambda: "skill://ours/SKILL.md" in addresses(), "the skill")
    client.await_notification("notifications/resources/list_changed")
    file.write_text(GUIDE + "And like that.\n")
    client.await_notification("notifications/resources/list_changed")
    assert read("skill://ours/SKILL.md").endswith("like that.\n")
    assert client.request("resources/subscribe", {"uri": "skill://ours/SKILL.md"})["result"] == {}
    file.write_text(GUIDE + "Or otherwise.\n")
    client.await_notification("notifications/resources/list_changed")
    notification = client.await_notification("notifications/resources/updated")
    assert notification["params"] == {"uri": "skill://ours/SKILL.md"}
    file.unlink()
    client.await_notification("notifications/resources/list_changed")
    assert "skill://ours/SKILL.md" not in addresses()
