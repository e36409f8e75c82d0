"""With `watch = true`, saved files are loaded where they belong, and errors are reported."""

import os
from pathlib import Path

import pytest
from live_server import serving, until, until_connected, user_settings_file

from codriver.app.hot_reload import source_file_stamps
from codriver.core.profiles import Profile
from codriver.core.state import Origin, Repl
from codriver.repls.kinds import dialects_by_suffix
from codriver.tools.calls.session_choice import find_serving_repl

W = Path("/w")
ELSEWHERE = Origin("address", "x")


def repl(key, dialect, *, root=None, phase="connected", origin=ELSEWHERE):
    profile = Profile(dialect=dialect, project_root=root)
    return Repl(key, key, origin, phase=phase, profile=profile)


@pytest.mark.parametrize(
    ("file", "repls", "key"),
    [
        ("a.clj", [repl("clj", "clojure"), repl("py", "python")], "clj"),
        ("a.clj", [repl("bb", "babashka"), repl("clj", "clojure")], "clj"),
        ("a.clj", [repl("bb", "babashka")], "bb"),
        ("a.clj", [repl("clj", "clojure", phase="waiting"), repl("bb", "babashka")], "bb"),
        ("a.cljc", [repl("lpy", "basilisp"), repl("nbb", "nbb")], "nbb"),
        ("a.cljs", [repl("clj", "clojure")], None),
        ("a.lpy", [repl("lpy", "basilisp"), repl("py", "python")], "lpy"),
        ("a.py", [repl("lpy", "basilisp"), repl("py", "python")], "py"),
        ("a.hy", [], None),
        ("b/x.clj", [repl("a", "clojure", root="/w/a"), repl("b", "clojure", root="/w/b")], "b"),
        ("b/c/x.clj", [repl("b", "clojure", root="/w/b"), repl("c", "clojure", root="/w/b/c")], "c"),
        (
            "b/x.clj",
            [
                repl("a", "clojure", origin=Origin("port-file", "/w/.nrepl-port")),
                repl("b", "clojure", origin=Origin("port-file", "/w/b/.nrepl-port")),
            ],
            "b",
        ),
        (
            "b/x.cljs",
            [
                repl("a", "clojurescript", origin=Origin("port-file", "/w/.nrepl-port")),
                repl("b", "clojurescript", origin=Origin("port-file", "/w/b/.shadow-cljs/nrepl.port")),
            ],
            "b",
        ),
    ],
)
def test_a_file_is_served_by_the_nearest_session_of_its_language(file, repls, key):
    found = find_serving_repl(W / file, repls, W)
    assert (found and found.key) == key


def test_no_session_is_chosen_if_two_are_equally_near():
    found = find_serving_repl(W / "a.clj", [repl("x", "clojure"), repl("y", "clojure")], W)
    assert found == "x and y could all serve this file. Select one with replSessionKey"


def test_only_source_files_in_the_workspace_are_watched(tmp_path):
    for name in ("a.clj", "src/b.py", ".hidden/c.clj", "node_modules/d.cljs", "venv/e.py", "f.txt", "g.clj/h.lpy"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    assert {file.relative_to(tmp_path).as_posix() for file in source_file_stamps(tmp_path)} == {
        "a.clj",
        "src/b.py",
        "g.clj/h.lpy",
    }


def test_a_replaced_file_with_the_same_time_and_size_is_detected(tmp_path):
    file = tmp_path / "a.py"
    file.write_text("x = 1")
    before = source_file_stamps(tmp_path)
    other = tmp_path / "other"
    other.write_text("x = 2")
    status = file.stat()
    os.utime(other, ns=(status.st_atime_ns, status.st_mtime_ns))
    other.replace(file)
    assert source_file_stamps(tmp_path) != before


def test_an_unreadable_directory_is_skipped(tmp_path):
    assert source_file_stamps(tmp_path / "none") == {}
    (tmp_path / "broken.py").symlink_to(tmp_path / "nowhere")
    assert source_file_stamps(tmp_path) == {}


def test_every_source_suffix_has_a_dialect():
    assert all(dialects_by_suffix().values())


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    folder = tmp_path_factory.mktemp("watching")
    (folder / "workspace" / "src").mkdir(parents=True)
    user_settings_file(folder).write_text("watch = true\n")
    (folder / "workspace" / "src" / "early.py").write_text("raise RuntimeError('early')\n")
    with serving(folder, "--repl", "python", "--repl", "lisp") as live:
        with live.client(name="codriver-tests") as bare:
            until_connected(bare, 2)
            until_watched(live, bare)
        yield live


@pytest.fixture
def client(live):
    """Return a client that receives each log row completely, including the texts of loaded files."""
    with live.client(name="codriver-tests") as client:
        yield client


def log(client, **arguments):
    return client.call("repl_output_log", limit=1000, **arguments)["result"]


def until_watched(live, client):
    """Save a file repeatedly until it is loaded: from then on no save is missed."""
    probe = live.workspace / "probe.py"
    count, already = 0, len(log(client, by="codriver-watch"))

    def seen():
        nonlocal count
        if not count % 250:  # seldom: a file that is another one at each look counts as still being written
            probe.write_text(f"probe = {count}\n")
        count += 1
        return len(log(client, by="codriver-watch")) > already

    until(seen, "the watcher")


def errors(client):
    return [entry["text"] for entry in log(client) if entry["category"] == "otherErrorOutput"]


def test_a_saved_file_is_loaded_into_the_session_that_serves_it(live, client):
    (live.workspace / "src" / "shop.lpy").write_text("(ns shop)\n\n(defn total [xs] (reduce + xs))\n")
    until(lambda: any("(reduce + xs))" in entry["text"] for entry in log(client, by="codriver-watch")), "the load")
    answer = client.call("evaluate_code", code="(shop/total [1 2 3])", replSessionKey="lpy")
    assert answer["result"] == "6"
    (live.workspace / "src" / "shop.lpy").write_text("(ns shop)\n\n(defn total [xs] (* 10 (reduce + xs)))\n")
    until(lambda: any("(* 10" in entry["text"] for entry in log(client, by="codriver-watch")), "the second load")
    answer = client.call("evaluate_code", code="(shop/total [1 2 3])", replSessionKey="lpy")
    assert answer["result"] == "60"


@pytest.mark.parametrize(
    ("key", "file", "text", "code"),
    [
        ("py", "marked.py", "amount = 7\n", "import marked\nmarked.amount"),
        ("lpy", "marked_lisp.lpy", "(ns marked-lisp)\n(def amount 7)\n", "marked-lisp/amount"),
    ],
)
def test_a_byte_order_mark_is_not_part_of_the_code(live, client, key, file, text, code):
    (live.workspace / "src" / file).write_text("\ufeff" + text, encoding="utf-8")
    answer = client.call("load_file", filePath=f"src/{file}", replSessionKey=key)
    assert answer["ok"], answer
    assert client.call("evaluate_code", code=code, replSessionKey=key)["result"] == "7"


def test_an_unbalanced_file_is_reported_and_not_loaded(live, client):
    (live.workspace / "src" / "broken.lpy").write_text("(ns broken)\n(defn f [x] (inc x)\n")
    until(
        lambda: any(
            "src/broken.lpy was saved, and loading it into lpy failed: the `(` at line 2 is never closed" in text
            for text in errors(client)
        ),
        "it",
    )
    assert not any("broken" in entry["text"] for entry in log(client, by="codriver-watch"))


def test_a_file_that_fails_to_load_is_reported_with_the_line_of_the_error(live, client):
    (live.workspace / "src" / "failing.py").write_text("x = 1\nraise ValueError('no such shop')\n")
    until(lambda: any("src/failing.py" in text and "no such shop" in text for text in errors(client)), "the failure")
    assert any("line 2" in text for text in errors(client) if "no such shop" in text)


def test_saved_files_in_an_unsupported_language_are_reported_once(live, client):
    for name in ("a.hy", "b.hy"):
        (live.workspace / name).write_text("(print 1)\n")
    (live.workspace / "src" / "after.py").write_text("after = 1\n")
    until(lambda: any("after = 1" in entry["text"] for entry in log(client, by="codriver-watch")), "a later file")
    texts = [entry["text"] for entry in log(client) if ".hy was saved" in entry["text"]]
    assert texts == ["a.hy was saved but not loaded: no connected REPL supports its language"]


def test_files_saved_before_the_start_are_not_loaded(client):
    assert not any("early" in entry["text"] for entry in log(client))


def test_files_changed_by_a_git_checkout_are_reported_but_not_loaded(live, client, tmp_path):
    (tmp_path / "many").mkdir()
    for number in range(60):
        (tmp_path / "many" / f"many{number}.py").write_text("many = 1\n")
    (tmp_path / "many").rename(live.workspace / "many")
    until(lambda: any("60 files changed at once" in entry["text"] for entry in log(client)), "the line")
    assert not any("many = 1" in entry["text"] for entry in log(client, by="codriver-watch"))


def test_watching_can_be_disabled_while_the_server_runs(live, client):
    def configure(text):
        user_settings_file(live.folder).write_text(text)
        until(lambda: any(text.split("\n")[-2] in entry["text"] for entry in log(client)), "the setting")

    configure("watch = false\n")
    (live.workspace / "quiet.py").write_text("quiet = 1\n")
    # Looking for changed settings takes longer than looking for saved files: by now it would be loaded.
    configure("watch = false\nmaxDepth = 3\n")
    configure("watch = false\nmaxDepth = 4\n")
    assert not any("quiet" in entry["text"] for entry in log(client, by="codriver-watch"))
    configure("watch = true\n")
    until_watched(live, client)
