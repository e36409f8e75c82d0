"""The editing tools as clients use them."""

import os
import time

import pytest
from tools_in_memory import serving

GREET = """\
(ns greet)

(defn greeting [name]
  (str "Hello, " name))

(comment
  (greeting "Ada"))
"""
SHOUT = {"type": "append", "filePath": "src/greet.clj", "code": '(defn shout [text]\n  (str text "!"))'}
GOOD_DAY = {
    "type": "replace", "filePath": "src/greet.clj", "line": 3, "targetLineText": "(defn greeting [name]",
    "newForm": '(defn greeting [name]\n  (str "Good day, " name))',
}  # fmt: skip


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("editing"), has_repl=False) as server:
        yield server


@pytest.fixture
def greet(live):
    file = live.workspace / "src" / "greet.clj"
    file.parent.mkdir(exist_ok=True)
    file.write_text(GREET)
    return file


def test_a_batch_of_edits_is_applied_reported_and_undone(client, greet):
    answer = client.call("edit_files", edits=[GOOD_DAY, SHOUT])
    assert answer["ok"]
    [row] = answer["files"]
    assert (answer["count"], row["filePath"], row["applied"]) == (1, "src/greet.clj", True)
    assert row["edits"] == [
        {"index": 0, "type": "replace", "line": 3, "newLine": 3},
        {"index": 1, "type": "append", "line": 8, "newLine": 9},
    ]
    assert '-  (str "Hello, " name))\n+  (str "Good day, " name))\n' in row["diff"]
    text = greet.read_text()
    assert text == GREET.replace("Hello", "Good day") + "\n" + SHOUT["code"] + "\n"
    answer = client.call("undo_edit")
    assert (answer["files"][0]["applied"], answer["left"]) == (True, 0)
    assert greet.read_text() == GREET
    assert client.call("undo_edit")["reason"] == "nothing-to-undo"


def test_a_dry_run_returns_a_diff_and_changes_nothing(client, greet):
    answer = client.call("edit_files", edits=[GOOD_DAY], dryRun=True)
    assert answer["dryRun"]
    assert answer["files"][0]["applied"] is False
    assert "Good day" in answer["files"][0]["diff"]
    assert greet.read_text() == GREET


def test_a_refusal_lists_every_problem_with_surrounding_lines(client, greet):
    wrong = {**GOOD_DAY, "line": 6}
    answer = client.call("edit_files", edits=[SHOUT, wrong, {**SHOUT, "code": "(a\n  (b\n"}])
    assert answer["reason"] == "edits-refused"
    assert [problem["index"] for problem in answer["problems"]] == [1, 2]
    assert "→ 6 (comment" in answer["problems"][0]["context"]
    assert answer["problems"][1]["balancedText"] == "(a\n  (b))\n"
    assert greet.read_text() == GREET


def test_no_diff_is_returned_for_a_created_file_that_is_identical_to_what_was_sent(live, client):
    sent = {"type": "create", "filePath": "sent.edn", "code": "{:a 1}\n"}
    row = {"filePath": "sent.edn", "applied": True, "created": True}
    assert client.call("edit_files", edits=[sent], detail=False)["files"] == [row]
    more = [{**sent, "filePath": "more.edn"}, {"type": "append", "filePath": "more.edn", "code": "{:b 2}"}]
    assert "diff" in client.call("edit_files", edits=more, detail=False)["files"][0]
    (live.workspace / "sent.edn").unlink()
    (live.workspace / "more.edn").unlink()


def test_every_edit_type_works(client, greet, live):
    call = {"filePath": "src/greet.clj", "line": 7, "targetLineText": '(greeting "Ada"))'}
    greeting = {"filePath": "src/greet.clj", "line": 3, "targetLineText": "(defn greeting [name]"}
    made = live.workspace / "made.edn"
    made.unlink(missing_ok=True)
    edits = [
        {"type": "insert", **call, "newForm": '(greeting "Grace")'},
        {"type": "move", **greeting, "toLine": 1, "toLineText": "(ns greet)", "side": "before"},
        {"type": "create", "filePath": "made.edn", "content": "{:a 1}\n"},
    ]
    answer = client.call("edit_files", edits=edits)
    assert answer["count"] == 2
    assert answer["files"][1]["created"]
    assert made.read_text() == "{:a 1}\n"
    assert greet.read_text() == (
        '(defn greeting [name]\n  (str "Hello, " name))\n\n(ns greet)\n\n'
        '(comment\n  (greeting "Grace")\n  (greeting "Ada"))\n'
    )
    gone = {"type": "delete", "filePath": "src/greet.clj", "line": 6, "targetLineText": "(comment"}
    client.call("edit_files", edits=[gone])
    assert greet.read_text().endswith("\n\n(ns greet)\n")


@pytest.mark.parametrize(
    ("edit", "problem"),
    [
        ({"type": "append"}, "append needs code"),
        ({"type": "replace", "newForm": "x"}, "replace needs line, targetLineText"),
        ({"type": "delete", "line": 3}, "delete needs targetLineText"),
        ({"type": "delete", "line": 1, "targetLineText": "x", "overwrite": True}, "delete does not accept overwrite"),
    ],
)
def test_an_edit_must_have_exactly_the_fields_of_its_type(client, greet, edit, problem):
    answer = client.call("edit_files", edits=[SHOUT, {"filePath": "src/greet.clj", **edit}])
    assert answer["reason"] == "bad-arguments"
    assert answer["message"] == f"edit_files cannot use these arguments: edits.1: {problem}"
    assert "problems" not in answer
    assert greet.read_text() == GREET


@pytest.mark.parametrize("edit", [{"filePath": "src/greet.clj"}, {"type": "delete", "targetLine": 1}])
def test_an_invalid_field_is_refused_with_the_fields_of_an_edit(client, edit):
    answer = client.call("edit_files", edits=[edit])
    assert answer["reason"] == "bad-arguments"
    assert answer["hint"].startswith("each of edits accepts filePath, type, oldText, newText, name, line, ")


@pytest.mark.parametrize("edits", [[], "[]"])
def test_an_empty_list_of_edits_is_refused_with_the_fields_of_an_edit(client, edits):
    answer = client.call("edit_files", edits=edits)
    assert answer["message"].endswith(": edits.0: the list is empty. Pass at least one item")
    assert answer["hint"].startswith("each of edits accepts filePath, type, oldText, newText, ")


def test_an_invalid_argument_is_refused_with_the_arguments_of_the_tool(client):
    assert client.call("edit_files", edit=[])["hint"] == (
        "the arguments of edit_files are: edits, dryRun, load, test, onFailure, limitMs, replSessionKey, who, detail"
    )


def test_a_long_diff_is_truncated_and_marked(client, live):
    (live.workspace / "long.clj").unlink(missing_ok=True)
    content = "".join(f"(def v{n} {n})\n" for n in range(2000))
    answer = client.call("edit_files", edits=[{"type": "create", "filePath": "long.clj", "content": content}])
    [row] = answer["files"]
    assert row["diffCut"]
    assert len(row["diff"]) < 12_100
    assert row["diff"].endswith(" more lines\n")
    assert (live.workspace / "long.clj").read_text() == content


def test_undo_only_reverts_batches_by_the_same_caller(live, client, greet):
    with live.client() as other:
        client.call("edit_files", edits=[SHOUT])
        assert other.call("undo_edit")["reason"] == "nothing-to-undo"
        client.call("undo_edit")
        client.call("edit_files", edits=[SHOUT], who="ada")
        assert client.call("undo_edit", who="grace")["reason"] == "nothing-to-undo"
        assert other.call("undo_edit", who="ada")["ok"]
        assert greet.read_text() == GREET
    assert client.call("edit_files", edits=[SHOUT], who="ui")["reason"] == "bad-who"


def test_a_file_changed_after_the_edit_is_not_undone(client, greet):
    client.call("edit_files", edits=[SHOUT])
    greet.write_text("(ns other)\n")
    answer = client.call("undo_edit")
    assert (answer["reason"], answer["filePaths"]) == ("file-changed", ["src/greet.clj"])
    assert greet.read_text() == "(ns other)\n"


def test_brackets_are_balanced_by_indentation(client):
    answer = client.call("balance_brackets", text="(a\n  [b\n  c")
    assert (answer["balancedText"], answer["changed"]) == ("(a\n  [b]\n  c)", True)
    answer = client.call("balance_brackets", text="(a)\n")
    assert (answer["balancedText"], answer["changed"]) == ("(a)\n", False)
    answer = client.call("balance_brackets", text='(a "b)')
    assert answer["reason"] == "unbalanced"
    assert answer["error"] == {"message": "the string that starts at line 1 is never closed", "line": 1, "column": 4}


class TestSettings:
    @pytest.fixture
    def served(self, tmp_path):
        """Run a server with additional settings."""

        def serve(**settings):
            workspace = tmp_path / "workspace"
            workspace.mkdir()
            (workspace / "a.clj").write_text("".join(f"(def v{n} {n})\n" for n in range(1, 40)))
            return serving(tmp_path, has_repl=False, settings=settings)

        return serve

    def test_settings_control_line_tolerance_and_context_size(self, served):
        edit = {"type": "delete", "filePath": "a.clj", "targetLineText": "(def v20 20)"}
        settings = {"fuzzy_line_targeting_padding": 1, "line_context_response_padding": 2}
        with served(**settings) as live, live.client() as client:
            answer = client.call("edit_files", edits=[{**edit, "line": 22}])
            [problem] = answer["problems"]
            assert problem["context"].splitlines() == [
                "  20 (def v20 20)", "  21 (def v21 21)", "→ 22 (def v22 22)", "  23 (def v23 23)", "  24 (def v24 24)",
            ]  # fmt: skip
            assert client.call("edit_files", edits=[{**edit, "line": 21}])["ok"]

    def test_edits_outside_the_workspace_are_refused_unless_allowed(self, served, tmp_path):
        edit = {"type": "create", "filePath": "../other/a.clj", "content": "(ns a)\n"}
        with served() as live, live.client() as client:
            answer = client.call("edit_files", edits=[edit])
            assert answer["reason"] == "edits-refused"
            assert "../other/a.clj is outside the workspace" in answer["message"]
            assert not (tmp_path / "other").exists()

    def test_edits_outside_the_workspace_can_be_allowed(self, served, tmp_path):
        edit = {"type": "create", "filePath": "../other/a.clj", "content": "(ns a)\n"}
        with served(allow_edits_outside_workspace=True) as live, live.client() as client:
            answer = client.call("edit_files", edits=[edit])
            assert answer["files"][0]["filePath"] == str(tmp_path / "other" / "a.clj")
            assert (tmp_path / "other" / "a.clj").read_text() == "(ns a)\n"


def test_an_edit_of_type_undo_reverts_the_last_batch(client, greet):
    assert client.call("edit_files", edits=[SHOUT])["ok"]
    answer = client.call("edit_files", edits=[{"type": "undo"}])
    assert ([row["filePath"] for row in answer["files"]], greet.read_text()) == (["src/greet.clj"], GREET)
    assert client.call("status", about="activity", kind="edits")["events"][0]["kind"] == "undo"


def test_the_edit_of_another_caller_is_reverted_only_by_name(client, greet):
    assert client.call("edit_files", edits=[SHOUT], who="ada")["ok"]
    undo = {"type": "undo", "filePath": "src/greet.clj"}
    refused = client.call("edit_files", edits=[undo], who="grace")
    assert (refused["reason"], refused["message"]) == (
        "nothing-to-undo", "the last edit of src/greet.clj was made by ada, not by you",
    )  # fmt: skip
    assert 'name: "ada"' in refused["hint"]
    assert client.call("edit_files", edits=[{**undo, "name": "bob"}], who="grace")["reason"] == "nothing-to-undo"
    assert "shout" in greet.read_text()
    answer = client.call("edit_files", edits=[{**undo, "name": "ada"}], who="grace")
    assert (answer["ok"], answer["editsBy"], greet.read_text()) == (True, "ada", GREET)
    assert "shout" in answer["files"][0]["diff"]
    event = client.call("status", about="activity", kind="edits")["events"][0]
    assert (event["kind"], event["who"]) == ("undo", "grace")


def test_the_edit_of_another_caller_is_not_reverted_after_a_change(client, greet):
    assert client.call("edit_files", edits=[SHOUT], who="ada")["ok"]
    greet.write_text("(ns other)\n")
    answer = client.call("edit_files", edits=[{"type": "undo", "name": "ada"}], who="grace")
    assert (answer["reason"], greet.read_text()) == ("file-changed", "(ns other)\n")
    os.utime(greet, (time.time() + 60, time.time() + 60))  # the file system may round times
    refused = client.call("edit_files", edits=[{"type": "undo", "filePath": "src/greet.clj"}], who="grace")
    assert "has changed since the last edit, which is ada's" in refused["message"]


def test_undo_must_name_a_file_of_the_last_batch_and_be_the_only_edit(client, greet):
    assert client.call("edit_files", edits=[SHOUT])["ok"]
    refused = client.call("edit_files", edits=[{"type": "undo", "filePath": "other.clj"}])
    assert refused["reason"] == "nothing-to-undo"
    assert "src/greet.clj" in refused["message"]
    nowhere = client.call("edit_files", edits=[{"oldText": "a", "newText": "b"}])
    assert "text needs filePath" in nowhere["message"]
    both = client.call("edit_files", edits=[{"type": "undo", "filePath": "src/greet.clj"}, SHOUT])
    assert both["reason"] == "bad-arguments"
    assert "shout" in greet.read_text()
