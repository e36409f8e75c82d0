"""`note_edit` in a live server: what it reports to hooks about edits, writes, turns and starts."""

import contextlib
import json

import pytest
from live_server import serving, until, until_connected, user_settings_file

BROKEN = "(ns shop.core)\n\n(defn total [xs]\n  (reduce + xs)\n\n(defn twice [x]\n  (* 2 x))\n"
LISP_TEST = """\
(ns total-test
  (:require [basilisp.test :refer [deftest is]] [total :as t]))

(deftest total-test
  (is (= 3 (t/total [1 2]))))
"""
SOUND = "(ns shop.core)\n\n(defn total [xs]\n  (reduce + xs))\n"


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hooks")
    user_settings_file(folder).write_text("hookGate = true\n")
    (folder / "workspace" / "src").mkdir(parents=True)
    with serving(folder, "--repl", "python", "--repl", "lisp") as running:
        with running.client() as client:
            until_connected(client, 2)
        yield running


def write(live, name, text):
    file = live.workspace / "src" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def note(client, **arguments):
    """Return the fields besides `ok`."""
    answer = client.call("note_edit", **{"waitMs": 20_000, **arguments})
    assert answer.pop("ok"), answer
    return answer


def rendered(client, **arguments):
    """Return the answer in a client's own format, without Codriver's fields."""
    return json.loads(client.answer(client.begin_call("note_edit", **arguments))["result"]["content"][0]["text"])


def edits(client, who):
    query = "[:find [?text ...] :in $ ?who :where [?e :output/who ?who] [?e :output/text ?text]]"
    rows = client.call("repl_output_log", query=query, inputs=[who])["result"]
    return [text for text in rows if " edited " in text]


def test_an_edit_that_parses_is_logged_without_a_message(live, client):
    file = write(live, "quiet.lpy", "(ns quiet)\n")
    assert note(client, filePath=str(file), who="logger") == {}
    assert edits(client, "logger") == ["logger edited src/quiet.lpy"]


def test_an_edit_that_does_not_parse_is_reported_with_position_and_suggestion(live, client):
    file = write(live, "core.clj", BROKEN)
    reported = note(client, filePath="src/core.clj", who="breaker")
    assert reported["context"].startswith("src/core.clj:3:1 cannot be read: ")
    assert "4:   (reduce + xs))" in reported["context"]
    assert len(reported["context"]) <= 600
    assert file.read_text() == BROKEN
    assert edits(client, "breaker") == ["breaker edited src/core.clj"]


def test_the_report_on_a_long_unparsable_file_has_a_maximum_length(live, client):
    write(live, "long.clj", "".join(f"(defn f{n} [x]\n  (inc x)\n\n" for n in range(500)))
    assert 0 < len(note(client, filePath="src/long.clj")["context"]) <= 600


def test_a_bitbake_recipe_is_not_parsed_as_lisp(live, client):
    write(live, "image.bb", 'SUMMARY = "an image ("\ninherit core\n')
    assert note(client, filePath="src/image.bb") == {}


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "../outside.clj", "src/link.clj", ".git/config.clj", "", "a\0b", "x" * 4000]
)
def test_a_path_outside_the_workspace_is_neither_read_nor_logged(live, client, path):
    outside = live.folder / "outside.clj"
    outside.write_text(BROKEN)
    link = live.workspace / "src" / "link.clj"
    if not link.is_symlink():
        link.symlink_to(outside)
    assert note(client, filePath=path, who="stranger") == {}
    assert edits(client, "stranger") == []


def test_a_write_that_does_not_parse_is_refused_with_position_and_suggestion(live, client):
    reported = note(client, event="writing", filePath="src/new.clj", content=BROKEN)
    assert reported["block"].startswith("src/new.clj:3:1 cannot be read: ")
    assert "4:   (reduce + xs))" in reported["block"]
    assert not (live.workspace / "src" / "new.clj").exists()
    patch = "*** Begin Patch\n*** Add File: src/new.clj\n+(def a 1\n*** End Patch"
    assert note(client, event="writing", patch=patch)["block"].startswith("src/new.clj:1:1 cannot be read: ")


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("src/new.clj", SOUND),
        ("src/new.txt", "((("),
        ("/tmp/new.clj", BROKEN),
        ("src/new.clj", "${tool_input.content}"),
    ],
)
def test_writes_that_parse_or_cannot_be_checked_are_ignored(client, path, content):
    assert note(client, event="writing", filePath=path, content=content) == {}


def test_the_answer_has_the_format_of_the_requested_client(live, client):
    write(live, "core.clj", BROKEN)
    reported = rendered(client, filePath="src/core.clj", renderFor="claude-code")
    assert reported["hookSpecificOutput"]["hookEventName"] == "PostToolUse"
    assert "cannot be read" in reported["hookSpecificOutput"]["additionalContext"]
    reported = rendered(client, event="writing", filePath="src/a.clj", content="(", renderFor="codex")[
        "hookSpecificOutput"
    ]
    assert (reported["permissionDecision"], reported["hookEventName"]) == ("deny", "PreToolUse")
    assert rendered(client, filePath="src/none.clj", renderFor="codex") == {}


def test_a_turn_with_failing_tests_is_blocked_once(live, client):
    note(client, event="stopping")
    write(live, "sums.py", "def total(xs):\n    return sum(xs) + 1\n")
    write(live, "test_sums.py", "def test_total():\n    assert 1 + 1 == 3\n")
    assert note(client, filePath="src/sums.py") == {}
    reported = note(client, event="stopping")["block"]
    assert "src/test_sums.py::test_total (src/test_sums.py:2): " in reported
    assert len(reported) <= 1500
    assert note(client, event="stopping") == {}


def test_the_tests_of_a_turn_run_on_the_files_and_not_on_loaded_code(live, client):
    write(live, "prices.py", "def price():\n    return 1\n")
    write(live, "test_prices.py", "import prices\n\ndef test_price():\n    assert prices.price() == 2\n")
    assert client.call("load_file", filePath="src/prices.py", replSessionKey="py")["ok"]
    note(client, filePath="src/prices.py")
    assert "test_price" in note(client, event="stopping")["block"]
    write(live, "prices.py", "def price():\n    return 2\n")
    note(client, filePath="src/prices.py")
    assert note(client, event="stopping") == {}
    write(live, "prices.py", "price = 1 / 0\n")
    note(client, filePath="src/prices.py")
    assert "src/test_prices.py (src/test_prices.py:1): ZeroDivisionError" in note(client, event="stopping")["block"]


def test_tests_that_take_too_long_are_stopped_and_do_not_block_the_turn(live, client):
    write(live, "test_endless.py", "import time\n\ndef test_endless():\n    time.sleep(600)\n")
    note(client, filePath="src/test_endless.py")
    assert note(client, event="stopping", waitMs=1500) == {}
    assert client.call("evaluate_code", code="6 * 7", replSessionKey="py")["result"] == "42"
    running = client.call("server_health")["evaluations"]
    assert (running["queued"], running["running"]) == (0, 0)


def test_lisp_tests_run_in_the_namespace_and_its_test_namespace(live, client):
    write(live, "total.lpy", "(ns total)\n\n(defn total [xs]\n  (inc (reduce + xs)))\n")
    write(live, "total_test.lpy", LISP_TEST)
    for name in ("total.lpy", "total_test.lpy"):
        assert client.call("load_file", filePath=f"src/{name}", replSessionKey="lpy")["ok"]
    note(client, filePath="src/total.lpy")
    reported = note(client, event="stopping")["block"]
    assert reported.startswith("tests of the changed files fail:\ntotal-test/")
    assert "src/total_test.lpy" in reported


def test_failing_tests_also_block_a_turn_that_used_edit_files(live, client):
    write(live, "test_mixed.py", "def test_mixed():\n    assert False\n")
    note(client, filePath="src/test_mixed.py")
    create = {"type": "create", "filePath": "src/lone.lpy", "content": "(ns lone)\n"}
    assert client.call("edit_files", edits=[create])["ok"]
    assert "test_mixed" in note(client, event="stopping")["block"]


def test_a_turn_that_continued_after_it_was_blocked_is_not_blocked_again(live, client):
    write(live, "test_again.py", "def test_again():\n    assert False\n")
    note(client, filePath="src/test_again.py")
    assert note(client, event="stopping", isAgain="true") == {}
    assert "test_again" in note(client, event="stopping", isAgain="${stop_hook_active}")["block"]


def test_edits_by_other_clients_do_not_block_a_turn(live, client):
    write(live, "test_others.py", "def test_others():\n    assert False\n")
    note(client, filePath="src/test_others.py", who="somebody")
    assert note(client, event="stopping", who="else") == {}
    assert "test_others" in note(client, event="stopping", who="somebody")["block"]


def test_a_turn_with_passing_tests_or_without_tests_ends(live, client):
    write(live, "test_fine.py", "def test_fine():\n    assert True\n")
    write(live, "untested.lpy", "(ns untested)\n")
    write(live, "unserved.clj", "(ns unserved)\n")
    for name in ("test_fine.py", "untested.lpy", "unserved.clj"):
        note(client, filePath=f"src/{name}")
    assert note(client, event="stopping") == {}


def test_the_digest_lists_repls_definitions_failures_and_other_clients(live, client, other):
    write(live, "kept.lpy", "(ns kept)\n(defn on-disk [] 1)\n")
    for code in ("(defn on-disk [] 2)", "(defn only-here [] 3)"):
        assert client.call("evaluate_code", code=code, replSessionKey="lpy")["ok"]
    assert client.call("evaluate_code", code="def lost():\n    return 1", replSessionKey="py")["ok"]
    assert not client.call("evaluate_code", code="1 / 0", replSessionKey="py")["ok"]
    reported = note(client, event="started")["context"]
    assert "lpy (basilisp, connected, generation 1)" in reported
    line = next(line for line in reported.splitlines() if line.startswith("Defined but not in any file: "))
    assert "only-here" in line
    assert "lost" in line
    assert "on-disk" not in line
    assert "division by zero" in reported
    assert "Other clients: other" in reported
    assert len(reported) <= 1500


@pytest.mark.parametrize("name", ["bare", "claude-code", "codex-mcp-client", "codriver-cli"])
def test_note_edit_is_never_listed(live, name):
    with live.client(name=name) as connected_client:
        assert "note_edit" not in connected_client.tools()


def test_arguments_of_the_wrong_type_are_refused_and_nothing_is_logged(client):
    for arguments in ({"filePath": 1.5}, {"event": "other"}, {"replaced": [["one"]]}, {"filePaths": ["a"] * 21}):
        answer = client.call("note_edit", who="clumsy", **arguments)
        assert (answer["ok"], answer["reason"]) == (False, "bad-arguments")
    assert edits(client, "clumsy") == []


def test_a_checkout_cannot_make_hooks_run_code(tmp_path):
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "codriver.toml").write_text("hookGate = true\n")
    with contextlib.ExitStack() as stack:
        live = stack.enter_context(serving(tmp_path, "--repl", "python", "--repl", "lisp"))
        until(live.port_file.exists, "the server, which first says what does not count")
        client = stack.enter_context(live.client())
        until_connected(client, 2)
        mark = live.folder / "ran"
        write(live, "evil.lpy", f'(ns evil)\n(spit "{mark}" "loaded")\n')
        write(live, "test_evil.py", f'def test_evil():\n    open("{mark}", "w").close()\n    assert False\n')
        for name in ("evil.lpy", "test_evil.py"):
            answer = client.call("note_edit", filePath=f"src/{name}", waitMs=20_000)
            assert answer["ok"]
            assert "context" not in answer
        assert "block" not in client.call("note_edit", event="stopping")
        assert not mark.exists()
        assert client.call("server_health")["evaluations"]["accepted"] == 0
