"""`edit_files` by old and new text: small fixes in any text file, and files that no agent may change."""

import pytest
from live_server import serving, user_settings_file

pytestmark = pytest.mark.served("python")
LOW = "def price(x):\n    return x * 2\n\n\nclass Shop:\n    rate = 2\n"


@pytest.fixture
def low(live):
    file = live.workspace / "low.py"
    file.write_text(LOW)
    return file


@pytest.mark.parametrize("names", [("oldText", "newText"), ("old_string", "new_string"), ("oldString", "newString")])
def test_a_small_fix_accepts_the_argument_names_agents_know(client, low, names):
    edit = {"filePath": "low.py", names[0]: "x * 2", names[1]: "x * 3"}
    answer = client.call("edit_files", edits=[edit], load=True)
    assert answer["ok"], answer
    assert low.read_text() == LOW.replace("x * 2", "x * 3")
    assert client.call("evaluate_code", code="import low; low.price(2)")["result"] == "6"


def test_a_constant_is_fixed_loaded_and_tested_in_one_call(client, low, live):
    (live.workspace / "test_low.py").write_text("import low\n\n\ndef test_rate():\n    assert low.Shop.rate == 4\n")
    edit = {"filePath": "low.py", "oldText": "rate = 2", "newText": "rate = 4"}
    answer = client.call("edit_files", edits=[edit], load=True, test=["test_low.py"])
    assert answer["ok"], answer
    assert answer["tests"] == {"passed": 1, "failed": 0, "unfinished": 0}
    wrong = {**edit, "oldText": "rate = 4", "newText": "rate = 5"}
    answer = client.call("edit_files", edits=[wrong], load=True, test=["test_low.py"], onFailure="restore")
    assert not answer["ok"]
    assert "rate = 4" in low.read_text()


def test_an_ambiguous_old_text_is_refused_with_context_of_each_match(client, low):
    answer = client.call("edit_files", edits=[{"filePath": "low.py", "oldText": "2", "newText": "3"}])
    assert answer["reason"] == "edits-refused"
    assert "→ 2      return x * 2" in answer["problems"][0]["context"]
    assert low.read_text() == LOW


GRANTING = {
    "codriver.toml": "repl = ['python']\n",
    "pyproject.toml": "[tool.codriver]\nrepl = ['python']\n",
    ".mcp.json": '{"python": 1}',
    ".vscode/mcp.json": '{"python": 1}',
    ".github/hooks/edit.json": '{"python": 1}',
    "opencode.json": '{"python": 1}',
    ".git/config": "python",
}


@pytest.mark.parametrize("file", GRANTING)
def test_files_that_grant_permissions_cannot_be_edited(client, live, file):
    path = live.workspace / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(GRANTING[file])
    answer = client.call("edit_files", edits=[{"filePath": file, "oldText": "python", "newText": "sh -c true"}])
    assert answer["reason"] == "edits-refused", answer
    assert path.read_text() == GRANTING[file]
    path.unlink()


def test_other_parts_of_pyproject_can_be_edited(client, live):
    path = live.workspace / "pyproject.toml"
    path.write_text('[project]\nname = "shop"\n\n[tool.codriver]\nmaxDepth = 3\n')
    assert client.call("edit_files", edits=[{"filePath": path.name, "oldText": "shop", "newText": "store"}])["ok"]
    path.unlink()


def test_a_user_setting_allows_edits_of_client_files(tmp_path):
    user_settings_file(tmp_path).write_text("allowEditsOfClientFiles = true\n")
    with serving(tmp_path, "--repl", "python") as live, live.client() as client:
        (live.workspace / ".mcp.json").write_text('{"a": 1}')
        assert client.call("edit_files", edits=[{"filePath": ".mcp.json", "oldText": "1", "newText": "2"}])["ok"]


def test_with_evaluation_disabled_only_code_can_be_edited(tmp_path):
    user_settings_file(tmp_path).write_text("enableMcpReplEvaluation = false\n")
    with serving(tmp_path) as live, live.client() as client:
        for name in ("notes.md", "low.py"):
            (live.workspace / name).write_text("one = 1\n")
        edits = [{"filePath": "notes.md", "oldText": "1", "newText": "2"}]
        assert client.call("edit_files", edits=edits)["reason"] == "edits-refused"
        assert client.call("edit_files", edits=[{**edits[0], "filePath": "low.py"}])["ok"]
