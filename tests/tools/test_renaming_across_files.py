"""A rename reports occurrences in other files. With `files: all` it changes those too, all or none."""

import posix_only
import pytest
from tools_in_memory import serving

MATHS = "(ns shop.maths)\n\n(defn total [xs]\n  (reduce + xs))\n"
ORDERS = (
    "(ns shop.orders\n  (:require [shop.maths :as m :refer [total]]))\n\n(defn sum [o]\n  (+ (total o) (m/total o)))\n"
)
BILLS = (
    "(ns shop.bills\n  (:require [shop.maths :as maths]))\n\n(defn bill [total]\n  (str total (maths/total [total])))\n"
)
OTHER = "(ns shop.other)\n\n(def total 1)\n"
RENAME = {"type": "rename", "filePath": "src/shop/maths.clj", "oldName": "total", "newName": "sum-of"}
ALL = {**RENAME, "files": "all"}


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("renaming"), has_repl=False) as server:
        yield server


@pytest.fixture
def shop(live):
    folder = live.workspace / "src" / "shop"
    folder.mkdir(parents=True, exist_ok=True)
    for file in folder.iterdir():
        file.unlink()
    for name, text in {"maths": MATHS, "orders": ORDERS, "bills": BILLS, "other": OTHER}.items():
        (folder / f"{name}.clj").write_text(text)
    return folder


def texts(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}


def test_occurrences_in_other_files_are_reported_and_unchanged(client, shop):
    before = texts(shop)
    [row] = client.call("edit_files", edits=[RENAME])["files"]
    [done] = row["edits"]
    places = ["src/shop/bills.clj:5", "src/shop/orders.clj:2", "src/shop/orders.clj:5"]
    assert done["elsewhere"] == places
    assert texts(shop) == {**before, "maths.clj": MATHS.replace("total", "sum-of").encode()}


def test_renaming_a_name_not_defined_in_the_file_adds_a_note(client, shop):
    file = shop / "uses.clj"
    file.write_text("(ns shop.uses)\n\n(defn sum [o]\n  (+ (price o) (price o)))\n")
    edit = {"type": "rename", "filePath": "src/shop/uses.clj", "oldName": "price", "newName": "cost"}
    [row] = client.call("edit_files", edits=[edit])["files"]
    [done] = row["edits"]
    assert done["note"] == "this file does not define that name, so only its uses in this file were renamed"
    assert file.read_text().count("cost") == 2
    [row] = client.call("edit_files", edits=[{**edit, "oldName": "sum", "newName": "total"}])["files"]
    assert "note" not in row["edits"][0]


def test_at_most_twenty_occurrences_are_listed_and_the_rest_counted(client, shop):
    calls = "\n".join(["(m/total [])"] * 30)
    (shop / "many.clj").write_text(f"(ns shop.many (:require [shop.maths :as m]))\n{calls}\n")
    [row] = client.call("edit_files", edits=[RENAME], dryRun=True)["files"]
    [done] = row["edits"]
    assert (len(done["elsewhere"]), done["elsewhereMore"]) == (20, 13)


def test_all_files_are_renamed_by_scope_and_undone_together(client, shop):
    before = texts(shop)
    answer = client.call("edit_files", edits=[ALL])
    assert [row["filePath"] for row in answer["files"]] == [f"src/shop/{n}.clj" for n in ("maths", "bills", "orders")]
    assert "elsewhere" not in answer["files"][0]["edits"][0]
    after = texts(shop)
    assert after["bills.clj"] == BILLS.replace("maths/total", "maths/sum-of").encode()
    assert after["orders.clj"] == ORDERS.replace("total", "sum-of").encode()
    assert after["other.clj"] == OTHER.encode()
    assert client.call("undo_edit")["count"] == 3
    assert texts(shop) == before


def test_other_edits_of_the_batch_are_applied_with_a_rename(client, shop):
    more = {"type": "append", "filePath": "src/shop/orders.clj", "code": "(def more 1)"}
    assert client.call("edit_files", edits=[ALL, more])["ok"]
    assert (shop / "orders.clj").read_text() == ORDERS.replace("total", "sum-of") + "\n(def more 1)\n"


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("broken", b"(ns broken (:require [shop.maths :as m]))\n(m/total\n", "its brackets do not balance"),
        ("latin", '(ns latin (:require [shop.maths :as m]))\n(m/total "é")\n'.encode("latin-1"), "it is not UTF-8"),
        ("used", b"(ns used (:require [shop.maths :refer [total]]))\n(def sum-of 1)\n(total)\n", "'sum-of' is in use"),
    ],
)
def test_a_file_that_cannot_be_renamed_in_is_named_and_nothing_is_written(client, shop, name, data, words):
    (shop / f"{name}.clj").write_bytes(data)
    before = texts(shop)
    answer = client.call("edit_files", edits=[ALL])
    assert answer["reason"] == "edits-refused"
    [problem] = answer["problems"]
    assert problem["filePath"] == f"src/shop/{name}.clj"
    assert words in problem["message"]
    assert texts(shop) == before
    [row] = client.call("edit_files", edits=[RENAME])["files"]
    assert any(
        f"{name}.clj" in place for key in ("elsewhere", "elsewhereUnread") for place in row["edits"][0].get(key, ())
    )


def test_a_link_out_of_the_workspace_is_refused_without_reading_it(client, live, shop, tmp_path):
    outside = tmp_path / "outside.clj"
    outside.write_text("(ns outside (:require [shop.maths :as m]))\n(m/total [])\n")
    (shop / "link.clj").symlink_to(outside)
    before = texts(shop)
    answer = client.call("edit_files", edits=[ALL])
    assert [problem["filePath"] for problem in answer["problems"]] == ["src/shop/link.clj"]
    assert (texts(shop), outside.read_text().count("total")) == (before, 1)


def test_pipes_and_link_loops_do_not_block_a_rename(client, shop):
    posix_only.make_pipe(shop / "pipe.clj")
    (shop / "loop.clj").symlink_to(shop / "loop.clj")
    answer = client.call("edit_files", edits=[ALL])
    assert {problem["filePath"] for problem in answer["problems"]} == {"src/shop/pipe.clj", "src/shop/loop.clj"}


def test_a_keyword_is_renamed_everywhere_and_a_local_name_in_one_file(client, shop):
    (shop / "keys.clj").write_text("(ns keys)\n(def m {:shop/total 1})\n")
    (shop / "maths.clj").write_text(MATHS + "(:shop/total m)\n")
    keyword = {**ALL, "oldName": ":shop/total", "newName": ":shop/sum"}
    assert client.call("edit_files", edits=[keyword])["count"] == 2
    assert ":shop/sum 1" in (shop / "keys.clj").read_text()
    local = {**ALL, "oldName": "xs", "newName": "ys", "line": 3, "targetLineText": "(defn total [xs]"}
    refused = client.call("edit_files", edits=[local])
    assert "files: all is for a name of the file's own namespace" in refused["message"]


@pytest.mark.parametrize("files", ["some", "", "*"])
def test_files_must_be_all_or_is_refused(client, shop, files):
    assert client.call("edit_files", edits=[{**RENAME, "files": files}])["reason"] == "bad-arguments"
