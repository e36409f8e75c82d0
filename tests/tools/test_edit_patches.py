"""Patches: the files they produce and what they change in each."""

import pytest

from codriver.tools.note_edit import MAX_EVENT_FILES, PatchedFile, parse_patch

PATCH = """\
*** Begin Patch
*** Update File: a.clj
@@ (ns a)
 (defn f [x]
-  (inc x))
+  (dec x))
@@
-(def gone 1)
*** Delete File: b.clj
*** Add File: c d.clj
+(ns c)
+
+(def y 1)
*** Update File: old.clj
*** Move to: new.clj
@@
-(def a 1)
+(def a 2)
*** End Patch
"""


def test_a_patch_lists_the_files_it_adds_changes_and_moves():
    changed, added, moved = parse_patch(PATCH)
    inner = ("(defn f [x]\n  (inc x))", "(defn f [x]\n  (dec x))")
    assert changed == PatchedFile("a.clj", replaced=(inner, ("(def gone 1)", "")))
    assert added == PatchedFile("c d.clj", added="(ns c)\n\n(def y 1)\n")
    assert moved == PatchedFile("new.clj", replaced=(("(def a 1)", "(def a 2)"),))


@pytest.mark.parametrize(
    "patch", ["", "text", "*** Begin Patch\n*** End Patch", "*** Add File: ", "*** Delete File: a", "+a\n-b", "\0"]
)
def test_text_that_names_no_file_is_parsed_as_an_empty_patch(patch):
    assert parse_patch(patch) == ()


def test_only_the_first_files_of_a_huge_patch_are_read():
    assert len(parse_patch("".join(f"*** Add File: {n}.clj\n+(ns a)\n" for n in range(100)))) == MAX_EVENT_FILES
