"""Editing real files: which parts change, which do not, and that no file is ever partly written."""

import errno
import itertools
import os
import re
import subprocess
import sys
from typing import Any

import anyio
import posix_only
import pytest
from refusals import refused_as

from codriver.editing import (
    CreateFile,
    Editor,
    EditRequest,
    FilesChangedError,
    FilesUnwritableError,
    SearchLimits,
)
from codriver.editing.atomic_batch import commit_changes
from codriver.editing.file_changes import MISSING, Change, Snapshot, UnreadableError, read_snapshot
from codriver.files import whole_files
from codriver_lisp.edit import Append, Insert, Replace
from codriver_lisp.edit_targets import Target

pytestmark = pytest.mark.anyio

TEXT = "(ns a)\n\n(def b 1)\n"
NEW_B = Replace(Target(3, "(def b 1)"), "(def b 2)")


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture
def workspace(tmp_path):
    folder = tmp_path / "workspace"
    folder.mkdir()
    (folder / "a.clj").write_text(TEXT)
    return folder


@pytest.fixture
def editor(workspace):
    return Editor(workspace)


def written(path):
    """Return what writing a file changes, to the nanosecond; the time of the last read is excluded."""
    found = path.stat()
    return found.st_ino, found.st_mode, found.st_uid, found.st_gid, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _one_for_two(below):
    return lambda path, *rest: tuple("one" if part == "two" else part for part in below(path, *rest))


async def edit(editor, *expected, caller="me", **options):
    pairs = [EditRequest(str(file), what) for file, what in expected]
    options = {"limits": SearchLimits(), "allow_outside": False, **options}
    return (await editor.edit(caller, pairs, **options)).files


async def refusal(editor, *expected, **options):
    """Return the messages of a refused batch, by index; nothing in the directory may have changed."""
    before = everything(editor._workspace.parent)
    with refused_as("edits-refused") as caught:
        await edit(editor, *expected, **options)
    assert everything(editor._workspace.parent) == before
    problems: Any = caught.value.details["problems"]
    return [(row["index"], row["message"]) for row in problems]


def everything(folder):
    """Return every path below, with its bytes if it is a file."""
    return {path: path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


class TestWrites:
    async def test_an_edit_changes_only_the_requested_form(self, editor, workspace):
        [result] = await edit(editor, ("a.clj", NEW_B))
        assert (workspace / "a.clj").read_text() == TEXT.replace("1", "2")
        assert result.display_path == "a.clj"
        assert result.diff == "--- a/a.clj\n+++ b/a.clj\n@@ -1,3 +1,3 @@\n (ns a)\n \n-(def b 1)\n+(def b 2)\n"
        assert [path.name for path in workspace.iterdir()] == ["a.clj"]

    async def test_mode_byte_order_mark_and_line_endings_are_preserved(self, editor, workspace):
        file = workspace / "a.clj"
        file.write_bytes(b"\xef\xbb\xbf" + TEXT.replace("\n", "\r\n").rstrip().encode())
        file.chmod(0o751)
        await edit(editor, (file, NEW_B), (file, Insert(Target(3, "(def b 1)"), "(def c\n  1)")))
        text = "(ns a)\r\n\r\n(def c\r\n  1)\r\n\r\n(def b 2)"
        assert file.read_bytes() == b"\xef\xbb\xbf" + text.encode()
        assert file.stat().st_mode & 0o777 == 0o751

    async def test_a_dry_run_returns_a_diff_and_writes_nothing(self, editor, workspace):
        before = everything(workspace)
        stamp = (workspace / "a.clj").stat()
        results = await edit(editor, ("a.clj", NEW_B), ("new/b.clj", CreateFile("(ns b)\n")), dry_run=True)
        assert everything(workspace) == before
        assert (workspace / "a.clj").stat() == stamp
        assert "+(def b 2)" in results[0].diff
        assert results[1].diff == "--- /dev/null\n+++ b/new/b.clj\n@@ -0,0 +1 @@\n+(ns b)\n"
        with refused_as("nothing-to-undo"):
            await editor.undo("me")

    async def test_a_file_is_created_with_its_directories_and_the_usual_mode(self, editor, workspace):
        mask = os.umask(0o027)
        try:
            [result] = await edit(editor, ("src/x/y.cljc", CreateFile("(ns x.y)\n")))
        finally:
            os.umask(mask)
        file = workspace / "src" / "x" / "y.cljc"
        assert file.read_bytes() == b"(ns x.y)\n"
        assert file.stat().st_mode & 0o777 == 0o640
        assert result.is_new

    async def test_creating_an_existing_file_requires_overwrite(self, editor, workspace):
        assert await refusal(editor, ("a.clj", CreateFile("(x)"))) == [
            (0, "a.clj already exists. Edit the file, or pass overwrite: true to replace it")
        ]
        await edit(editor, ("a.clj", CreateFile("(x)", overwrite=True)))
        assert (workspace / "a.clj").read_text() == "(x)"

    async def test_edits_of_a_created_file_apply_to_its_content(self, editor, workspace):
        expected = [
            ("n.clj", Append("(z)")),
            ("n.clj", CreateFile("(a)\n")),
            ("n.clj", Replace(Target(1, "(a)"), "(b)")),
        ]
        [result] = await edit(editor, *expected)
        assert (workspace / "n.clj").read_text() == "(b)\n\n(z)\n"
        assert list(result.done) == [0, 1, 2]

    async def test_edits_of_one_file_under_several_names_are_combined(self, editor, workspace):
        (workspace / "link.clj").symlink_to("a.clj")
        results = await edit(
            editor, ("a.clj", NEW_B), ("link.clj", Append("(z)")), (workspace / "x" / ".." / "a.clj", Append("(y)"))
        )
        assert len(results) == 1
        assert (workspace / "a.clj").read_text() == "(ns a)\n\n(def b 2)\n\n(z)\n\n(y)\n"
        assert (workspace / "link.clj").is_symlink()

    async def test_an_edit_that_changes_nothing_writes_nothing(self, editor, workspace):
        stamp = written(workspace / "a.clj")
        [result] = await edit(editor, ("a.clj", Replace(Target(3, "(def b 1)"), "(def b 1)")))
        assert written(workspace / "a.clj") == stamp
        assert result.diff == ""

    @pytest.mark.parametrize("name", ["a.cljs", "a.lpy", "a.hy", "a.edn", "a.bb", "A.CLJ"])
    async def test_every_kind_of_lisp_file_can_be_edited(self, editor, workspace, name):
        (workspace / name).write_text(TEXT)
        await edit(editor, (name, NEW_B))
        assert "(def b 2)" in (workspace / name).read_text()

    async def test_a_script_without_an_extension_is_recognized_by_its_first_line(self, editor, workspace):
        (workspace / "run").write_text("#!/usr/bin/env bb\n" + TEXT)
        await edit(editor, ("run", Replace(Target(4, "(def b 1)"), "(def c 1)")))
        assert (workspace / "run").read_text() == "#!/usr/bin/env bb\n" + TEXT.replace("b 1", "c 1")

    async def test_a_script_without_an_extension_can_be_created(self, editor, workspace):
        await edit(editor, ("task", CreateFile("#!/usr/bin/env bb\n(a)\n")))
        assert (workspace / "task").exists()


class TestRefusals:
    async def test_every_problem_of_a_batch_is_reported_by_index(self, editor):
        reported = await refusal(
            editor,
            ("a.clj", NEW_B),
            ("nowhere.clj", Append("(z)")),
            ("a.clj", Append("(z")),
            ("../b.clj", CreateFile("(ns b)")),
            ("a.clj", Replace(Target(30, "(def b 1)"), "x")),
        )
        assert [index for index, _ in reported] == [1, 2, 3, 4]
        missing = "nowhere.clj does not exist. Check the path, or create the file with an edit of type create"
        assert reported[0][1] == missing

    async def test_a_refused_creation_does_not_hide_problems_of_other_edits(self, editor):
        reported = await refusal(
            editor,
            ("a.clj", Replace(Target(2, "b 1"), "x")),
            ("a.clj", Replace(Target(3, "(def b 1)"), "(bad")),
            ("a.clj", CreateFile("(ns a)")),
            ("a.clj", NEW_B),
        )
        assert [index for index, _ in reported] == [0, 1, 2]
        assert reported[1][1].startswith("the brackets in the new text do not balance")
        assert reported[2][1] == "a.clj already exists. Edit the file, or pass overwrite: true to replace it"

    async def test_appended_text_is_checked_even_if_the_created_file_has_unbalanced_brackets(self, editor):
        reported = await refusal(
            editor,
            ("n.clj", CreateFile("(ns n")),
            ("n.clj", Append("(bad")),
            ("n.clj", Append("(good)")),
        )
        assert [index for index, _ in reported] == [0, 1]

    async def test_edits_apply_to_the_first_of_two_creations_of_the_same_file(self, editor):
        reported = await refusal(
            editor,
            ("n.clj", CreateFile("(a)")),
            ("n.clj", CreateFile("(b)")),
            ("n.clj", Replace(Target(1, "(a)"), "(c)")),
            ("n.clj", Replace(Target(1, "(b)"), "(c)")),
        )
        assert [index for index, _ in reported] == [1, 3]

    async def test_conflicting_edits_are_reported_even_if_another_edit_is_invalid(self, editor):
        again = Replace(Target(3, "(def b 1)"), "(def b 3)")
        reported = await refusal(editor, ("a.clj", NEW_B), ("a.clj", again), ("a.clj", Append("(bad")))
        assert [index for index, _ in reported] == [0, 1, 2]

    @pytest.mark.slow
    async def test_a_refusal_message_has_a_maximum_size(self, editor, workspace):
        (workspace / "wide.clj").write_text("".join(f"(def v{n} [{'1 ' * 5000}])\n" for n in range(50)))
        wrong = ("wide.clj", Replace(Target(25, "(nowhere)"), "x"))
        with refused_as("edits-refused") as caught:
            await edit(editor, *[wrong] * 200)
        assert len(caught.value.details["problems"]) == 200
        assert len(repr(caught.value.details)) < 200_000
        assert len(caught.value.message) < 1000

    async def test_no_file_is_changed_when_an_edit_of_another_file_is_refused(self, editor):
        assert await refusal(editor, ("n.clj", CreateFile("(ns n)")), ("a.clj", NEW_B), ("x.clj", Append("(z)")))

    async def test_the_text_of_a_created_file_is_checked_like_any_other(self, editor):
        [(_, reported)] = await refusal(editor, ("n.clj", CreateFile("(ns n")))
        assert reported.startswith("the brackets in the new text do not balance")

    async def test_a_file_can_be_created_only_once_in_a_batch(self, editor):
        reported = await refusal(editor, ("n.clj", CreateFile("(a)")), ("n.clj", CreateFile("(b)")))
        assert reported == [(1, "edit 0 already creates n.clj")]

    async def test_files_of_other_languages_are_refused(self, editor, workspace):
        (workspace / "a.js").write_text("x = 1\n")
        (workspace / "Makefile").write_text("all:\n")
        for name in ("a.js", "Makefile", "new.txt"):
            [(_, reported)] = await refusal(editor, (name, CreateFile("(x)", overwrite=True)))
            assert reported.startswith(f"{name} is not a Python or Lisp file (.py, .clj, .cljs")
            assert reported.endswith("Edit it as text with your client's own editing tool")

    async def test_directories_pipes_and_other_non_text_files_are_refused(self, editor, workspace):
        (workspace / "folder.clj").mkdir()
        posix_only.make_pipe(workspace / "pipe.clj")
        (workspace / "latin.clj").write_bytes(b'(def a "\xe9")\n')
        (workspace / "huge.clj").write_bytes(b"; " + b"x" * 8 * 2**20)
        (workspace / "readonly.clj").write_text("(a)\n")
        (workspace / "readonly.clj").chmod(0o444)
        names = ("folder.clj", "pipe.clj", "latin.clj", "huge.clj", "readonly.clj", "a.clj/b.clj")
        reported = [(await refusal(editor, (name, Append("(z)"))))[0][1] for name in names]
        assert reported == [
            "folder.clj: the path is a folder, not a regular file",
            "pipe.clj: the path is a pipe, not a regular file",
            "latin.clj is not valid UTF-8: the byte at offset 8 is invalid",
            "huge.clj: the file has 8,388,610 bytes, but at most 8,388,608 bytes are read",
            "readonly.clj: the file is read-only",
            "a.clj/b.clj: Not a directory",
        ]

    @pytest.mark.parametrize(
        "name",
        [".git/hooks/a.clj", "sub/.git/a.clj", ".hg/a.clj", ".svn/a.clj", ".jj/a.clj", ".sl/a.clj", ".bzr/a.clj",
         ".pijul/a.clj", ".fossil/a.clj", ".GIT/a.clj", ".Hg/a.clj", "_FOSSIL_/a.clj",
         ".g\u200cit/a.clj", ".git /a.clj", ".git./a.clj", "GIT~1/a.clj", ".git::$INDEX_ALLOCATION/a.clj",
         "\uff0egit/a.clj", "link/a.clj", "_darcs/a.clj"],
    )  # fmt: skip
    async def test_version_control_files_cannot_be_edited(self, editor, workspace, name):
        (workspace / ".git").mkdir()
        (workspace / ".git" / "a.clj").write_text(TEXT)
        (workspace / "link").symlink_to(".git")
        (workspace / "_darcs").symlink_to("src")
        for expected in (Append("(z)"), CreateFile("(z)", overwrite=True)):
            [(_, reported)] = await refusal(editor, (name, expected))
            assert reported.startswith(f"{name} belongs to version control (")
        [(_, reported)] = await refusal(editor, (workspace / name, Append("(z)")), allow_outside=True)
        assert "belongs to version control" in reported

    @pytest.mark.parametrize("content", ["#!/usr/bin/env bb\n[core]\n", "gitdir: elsewhere\n"])
    async def test_git_files_cannot_be_created_as_scripts(self, editor, workspace, content):
        (workspace / ".git").write_text("gitdir: ../main/.git/worktrees/here\n")
        (workspace / "sub").mkdir()
        for name in (".git", "sub/.git", ".Git"):
            [(_, reported)] = await refusal(editor, (name, CreateFile(content, overwrite=True)))
            assert "belongs to version control" in reported

    async def test_names_similar_to_version_control_can_be_edited(self, editor, workspace):
        for name in (".github/a.clj", "git/a.clj", "svn/hg.clj", ".gitlab.clj"):
            await edit(editor, (name, CreateFile("(a)\n")))
            assert (workspace / name).exists()

    async def test_a_workspace_inside_a_git_directory_can_be_edited(self, tmp_path):
        workspace = tmp_path / ".git" / "worktree"
        workspace.mkdir(parents=True)
        await edit(Editor(workspace), (workspace / "a.clj", CreateFile("(a)\n")))
        assert (workspace / "a.clj").exists()

    async def test_an_unpaired_surrogate_is_refused(self, editor):
        [(_, reported)] = await refusal(editor, ("a.clj", Append('"\ud800"')))
        assert "surrogate" in reported


class TestWorkspaceBoundary:
    @pytest.fixture
    def outside(self, workspace):
        file = workspace.parent / "outside" / "o.clj"
        file.parent.mkdir()
        file.write_text(TEXT)
        return file

    async def test_files_outside_the_workspace_cannot_be_edited(self, editor, workspace, outside):
        (workspace / "file.clj").symlink_to(outside)
        (workspace / "folder").symlink_to(outside.parent)
        for given in ("../outside/o.clj", str(outside), "file.clj", "folder/o.clj", "x/../../outside/o.clj"):
            [(_, reported)] = await refusal(editor, (given, NEW_B))
            assert f"{given} is outside the workspace {workspace}" in reported
            assert "allowEditsOutsideWorkspace" in reported
        [(_, reported)] = await refusal(editor, ("folder/new.clj", CreateFile("(ns new)")))
        assert reported.startswith("folder/new.clj is outside the workspace")

    async def test_a_sibling_directory_with_the_same_prefix_is_outside_the_workspace(self, editor, workspace):
        sibling = workspace.with_name("workspace-two") / "a.clj"
        [(_, reported)] = await refusal(editor, (sibling, CreateFile("(a)")))
        assert "is outside the workspace" in reported

    async def test_a_setting_allows_edits_outside_the_workspace(self, editor, workspace, outside):
        (workspace / "file.clj").symlink_to(outside)
        [result] = await edit(editor, ("file.clj", NEW_B), allow_outside=True)
        assert outside.read_text() == TEXT.replace("1", "2")
        assert (workspace / "file.clj").is_symlink()
        assert result.display_path == str(outside)

    @pytest.mark.parametrize("given", ["", " ", "a\0.clj", "loop.clj", "x" * 300 + ".clj"])
    async def test_invalid_paths_are_refused(self, editor, workspace, given):
        (workspace / "loop.clj").symlink_to("loop.clj")
        assert len(await refusal(editor, (given, NEW_B))) == 1


class TestConcurrentChanges:
    async def test_a_file_that_changed_in_the_meantime_is_not_written(self, workspace):
        a, b = workspace / "a.clj", workspace / "b.clj"
        b.write_text("(b)")
        changes = [Change(a, read_snapshot(a, workspace), b"(x)"), Change(b, read_snapshot(b, workspace), b"(y)")]
        b.write_text("(somebody else)")
        with pytest.raises(FilesChangedError, match=r"b\.clj changed in the meantime, so nothing was written"):
            commit_changes(changes, workspace)
        assert a.read_text() == TEXT
        assert sorted(path.name for path in workspace.iterdir()) == ["a.clj", "b.clj"]

    async def test_a_file_that_appeared_in_the_meantime_is_not_replaced(self, workspace):
        new = workspace / "deep" / "n.clj"
        new.parent.mkdir()
        new.write_text("(somebody else)")
        with pytest.raises(FilesChangedError):
            commit_changes([Change(new, MISSING, b"(x)")], workspace)
        assert new.read_text() == "(somebody else)"

    async def test_a_directory_replaced_by_a_link_is_not_followed(self, workspace):
        folder, elsewhere = workspace / "src", workspace.parent / "elsewhere"
        folder.mkdir()
        elsewhere.mkdir()
        (folder / "x.clj").write_text("(x)")
        change = Change(folder / "x.clj", read_snapshot(folder / "x.clj", workspace), b"(y)")
        folder.rename(workspace / "old")
        (elsewhere / "x.clj").write_text("(x)")
        folder.symlink_to(elsewhere)
        with pytest.raises(FilesChangedError):
            commit_changes([change], workspace)
        assert (elsewhere / "x.clj").read_text() == "(x)"

    async def test_a_file_replaced_by_a_link_is_not_followed(self, workspace):
        (workspace.parent / "secret.clj").write_text("(secret)")
        file = workspace / "a.clj"
        file.unlink()
        file.symlink_to(workspace.parent / "secret.clj")
        with pytest.raises(UnreadableError):
            read_snapshot(file, workspace)

    async def test_files_are_edited_on_systems_without_directory_descriptors(self, editor, workspace, monkeypatch):
        monkeypatch.setattr(whole_files, "HAS_DESCRIPTORS", False)
        await edit(editor, ("a.clj", NEW_B), ("new/deep/n.clj", CreateFile("(n)\n")))
        assert "(def b 2)" in (workspace / "a.clj").read_text()
        assert (workspace / "new" / "deep" / "n.clj").read_text() == "(n)\n"
        await editor.undo("me")
        assert (workspace / "a.clj").read_text() == TEXT
        [(_, reported)] = await refusal(editor, ("a.clj/b.clj", CreateFile("(n)")))
        assert "Not a directory" in reported
        (workspace / "a.clj").unlink()
        (workspace / "a.clj").symlink_to("b.clj")
        with pytest.raises(UnreadableError, match="the path contains a link"):
            read_snapshot(workspace / "a.clj", workspace)

    async def test_edits_that_spell_the_path_of_one_file_differently_do_not_conflict(self, workspace, monkeypatch):
        """A directory with two names simulates a case-insensitive file system, where `A.clj` is `a.clj`."""
        (workspace / "one").mkdir()
        (workspace / "one" / "a.clj").write_text(TEXT)
        changes = [Change(workspace / name / "a.clj", Snapshot(TEXT.encode()), b"(x)") for name in ("one", "two")]
        monkeypatch.setattr(whole_files, "_relative_parts", _one_for_two(whole_files._relative_parts))
        with pytest.raises(FilesChangedError, match=r"two/a\.clj changed in the meantime"):
            commit_changes(changes, workspace)
        assert (workspace / "one" / "a.clj").read_text() == TEXT
        assert [path.name for path in (workspace / "one").iterdir()] == ["a.clj"]

    async def test_a_directory_that_was_moved_away_is_not_written_to(self, workspace, monkeypatch):
        (workspace / "src").mkdir()
        (workspace / "src" / "x.clj").write_text("(x)")
        change = Change(workspace / "src" / "x.clj", read_snapshot(workspace / "src" / "x.clj", workspace), b"(y)")
        real = os.fsync

        def fsync(descriptor):  # once the new content is in a temporary file next to the file
            real(descriptor)
            (workspace / "src").rename(workspace.parent / "moved")
            (workspace / "src").mkdir()
            (workspace / "src" / "x.clj").write_text("(x)")

        monkeypatch.setattr(os, "fsync", fsync)
        with pytest.raises(FilesChangedError):
            commit_changes([change], workspace)
        for folder in (workspace.parent / "moved", workspace / "src"):
            assert [(path.name, path.read_text()) for path in folder.iterdir()] == [("x.clj", "(x)")]

    async def test_a_deleted_workspace_is_not_recreated(self, editor, workspace):
        (workspace / "a.clj").unlink()
        workspace.rmdir()
        with pytest.raises(FilesUnwritableError, match="the workspace folder no longer exists"):
            await edit(editor, ("deep/n.clj", CreateFile("(n)")))
        assert not workspace.exists()

    async def test_concurrent_edits_of_the_same_files_are_serialized(self, editor, workspace):
        (workspace / "b.clj").write_text("(ns b)\n")
        names = [("a.clj", "b.clj"), ("b.clj", "a.clj")]
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                for n, (item, other) in enumerate(itertools.islice(itertools.cycle(names), 20)):
                    expected = (item, Append(f"(def v{n} {n})")), (other, Append(f"(def v{n} {n})"))
                    tasks.start_soon(edit, editor, *expected)
        for name in ("a.clj", "b.clj"):
            found = re.findall(r"\(def v(\d+)", (workspace / name).read_text())
            assert sorted(map(int, found)) == list(range(20))

    async def test_locks_are_released_after_the_edit(self, editor):
        await edit(editor, ("a.clj", NEW_B))
        assert len(editor._locks) == 0

    @pytest.mark.parametrize("failing", [1, 2, 3])
    async def test_a_disk_error_midway_leaves_every_file_unchanged(self, editor, workspace, monkeypatch, failing):
        for name in ("b.clj", "c.clj"):
            (workspace / name).write_text(TEXT)
        before = everything(workspace)
        real, calls = os.replace, itertools.count(1)

        def replace(*names, **folders):
            if next(calls) == failing:
                raise OSError(errno.ENOSPC, "No space left on device")
            return real(*names, **folders)

        monkeypatch.setattr(os, "replace", replace)
        with pytest.raises(FilesUnwritableError, match="No space left on device"):
            await edit(
                editor, *((name, NEW_B) for name in ("a.clj", "b.clj", "c.clj")), ("new/d.clj", CreateFile("(d)"))
            )
        assert everything(workspace) == before

    @pytest.mark.parametrize("is_new", [False, True], ids=["there", "created"])
    async def test_a_user_save_during_a_failing_batch_is_kept_and_reported(
        self, editor, workspace, monkeypatch, is_new
    ):
        if is_new:
            (workspace / "a.clj").unlink()
        for name in ("b.clj", "c.clj"):
            (workspace / name).write_text(TEXT)
        real, calls = os.link if is_new else os.replace, itertools.count()

        def put(*names, **folders):
            real(*names, **folders)
            if next(calls) == 0:  # the first file already has its new text
                (workspace / "a.clj").write_text("(saved by the user)")
                (workspace / "c.clj").write_text("(and this)")

        monkeypatch.setattr(os, "link" if is_new else "replace", put)
        first = CreateFile(TEXT) if is_new else NEW_B
        reverted = r"^c\.clj changed in the meantime, so the edits were reverted; "
        stays = r"a\.clj was changed by somebody else in the meantime and was left as it is$"
        with pytest.raises(FilesChangedError, match=reverted + stays):
            await edit(editor, ("a.clj", first), ("b.clj", NEW_B), ("c.clj", NEW_B))
        texts = {path.name: path.read_text() for path in workspace.iterdir()}
        assert texts == {"a.clj": "(saved by the user)", "b.clj": TEXT, "c.clj": "(and this)"}

    async def test_a_file_recreated_by_the_user_survives_the_undo(self, workspace, monkeypatch):
        changes = [
            Change(workspace / name, read_snapshot(workspace / name, workspace), None)
            for name in ("a.clj", "b.clj")
            if (workspace / name).write_text(TEXT)
        ]
        real = os.unlink

        def unlink(*names, **folders):
            real(*names, **folders)
            (workspace / "a.clj").write_text("(saved by the user)")
            (workspace / "b.clj").write_text("(and this)")

        monkeypatch.setattr(os, "unlink", unlink)
        with pytest.raises(FilesChangedError, match=r"reverted; a\.clj was changed by somebody else"):
            commit_changes(changes, workspace)
        monkeypatch.undo()
        assert everything(workspace) == {
            workspace / "a.clj": b"(saved by the user)",
            workspace / "b.clj": b"(and this)",
        }

    async def test_killing_the_writer_leaves_no_partly_written_file(self, workspace):
        code = (
            "import itertools, sys\n"
            "from pathlib import Path\n"
            "from codriver.editing.atomic_batch import commit_changes\n"
            "from codriver.editing.file_changes import Change, read_snapshot\n"
            "file = Path(sys.argv[1])\n"
            "folder = file.parent\n"
            "print('go', flush=True)\n"
            "for letter in itertools.cycle('abc'):\n"
            "    commit_changes([Change(file, read_snapshot(file, folder), letter.encode() * 300_000)], folder)\n"
        )
        file = workspace / "a.clj"
        file.write_text("a" * 300_000)
        for _ in range(4):
            # Nothing else runs on this loop, so blocking it is harmless.
            process = subprocess.Popen(  # noqa: ASYNC220
                [sys.executable, "-c", code, str(file)], stdout=subprocess.PIPE
            )
            process.stdout.readline()
            first = file.read_bytes()[:1]
            with anyio.fail_after(60):
                while file.read_bytes()[:1] == first:
                    await anyio.lowlevel.checkpoint()
            process.kill()
            process.wait(60)
            process.stdout.close()
            data = file.read_bytes()
            assert len(data) == 300_000
            assert len(set(data)) == 1


class TestUndo:
    async def test_undo_reverts_the_last_batch_and_then_the_previous_batch(self, editor, workspace):
        (workspace / "a.clj").chmod(0o700)
        await edit(editor, ("a.clj", NEW_B), ("n/m.clj", CreateFile("(m)\n")))
        await edit(editor, ("a.clj", Append("(z)")))
        outcome, left = await editor.undo("me")
        assert left == 1
        assert (workspace / "a.clj").read_text() == TEXT.replace("1", "2")
        assert outcome.files[0].diff.endswith("-\n-(z)\n")
        outcome, left = await editor.undo("me")
        assert left == 0
        assert (workspace / "a.clj").read_text() == TEXT
        assert (workspace / "a.clj").stat().st_mode & 0o777 == 0o700
        assert not (workspace / "n" / "m.clj").exists()
        assert outcome.files[1].diff == "--- a/n/m.clj\n+++ /dev/null\n@@ -1 +0,0 @@\n-(m)\n"
        with refused_as("nothing-to-undo"):
            await editor.undo("me")

    async def test_undoing_a_batch_without_changes_does_not_undo_the_previous_batch(self, editor, workspace):
        await edit(editor, ("a.clj", NEW_B))
        await edit(editor, ("a.clj", Replace(Target(3, "(def b 2)"), "(def b 2)")))
        for count, left, text in ((0, 1, TEXT.replace("1", "2")), (1, 0, TEXT)):
            outcome, remaining = await editor.undo("me")
            assert (len(outcome.files), remaining) == (count, left)
            assert (workspace / "a.clj").read_text() == text

    async def test_undo_is_refused_if_a_file_was_changed_since(self, editor, workspace):
        (workspace / "b.clj").write_text("(b)\n")
        await edit(editor, ("a.clj", NEW_B), ("b.clj", Append("(z)")))
        mine = (workspace / "b.clj").read_text()
        for theirs in ("(somebody else)\n", None):
            (workspace / "b.clj").unlink()
            if theirs:
                (workspace / "b.clj").write_text(theirs)
            with pytest.raises(FilesChangedError, match=r"^b\.clj changed in the meantime"):
                await editor.undo("me")
            assert "(def b 2)" in (workspace / "a.clj").read_text()
            (workspace / "b.clj").write_text(mine)
        await editor.undo("me")
        assert (workspace / "b.clj").read_text() == "(b)\n"

    async def test_each_caller_undoes_its_own_batches(self, editor, workspace):
        (workspace / "b.clj").write_text(TEXT)
        await edit(editor, ("a.clj", NEW_B), caller="one")
        await edit(editor, ("b.clj", NEW_B), caller="two")
        await editor.undo("one")
        assert (workspace / "a.clj").read_text() == TEXT
        assert (workspace / "b.clj").read_text() != TEXT
        with refused_as("nothing-to-undo"):
            await editor.undo("three")

    async def test_a_refused_batch_cannot_be_undone(self, editor):
        await refusal(editor, ("a.clj", Append("(")))
        with refused_as("nothing-to-undo"):
            await editor.undo("me")

    async def test_the_undo_history_contains_a_limited_number_of_batches(self, editor, workspace):
        for n in range(25):
            await edit(editor, ("a.clj", Append(f"(def v{n} {n})")))
        for _ in range(20):
            await editor.undo("me")
        assert "(def v4 4)" in (workspace / "a.clj").read_text()
        with refused_as("nothing-to-undo"):
            await editor.undo("me")

    @pytest.mark.slow
    async def test_large_batches_evict_older_ones_from_the_undo_history(self, editor, workspace):
        large = "; " + "x" * (7 * 2**20)
        for n in range(12):
            await edit(editor, ("big.clj", CreateFile(f"{large}{n}\n", overwrite=True)))
        assert editor._stored_bytes() <= 64 * 2**20
        _, left = await editor.undo("me")
        assert left == 3
        assert (workspace / "big.clj").read_bytes().endswith(b"x10\n")

    async def test_snapshots_are_compared_by_content_only(self, editor, workspace):
        await edit(editor, ("a.clj", NEW_B))
        os.utime(workspace / "a.clj")
        await editor.undo("me")
        assert read_snapshot(workspace / "a.clj", workspace) == Snapshot(
            TEXT.encode(), read_snapshot(workspace / "a.clj", workspace).mode, (posix_only.user(), posix_only.group())
        )
