"""What depends on an edit is evaluated again where that can be repeated, and is reported otherwise."""

import sys

import edits_of_dependents
import pytest
from edit_cases import judge, run

if sys.platform == "win32":
    pytest.skip("each edit runs in a fork", allow_module_level=True)


def test_dependents_of_an_edit_match_a_fresh_import_or_are_reported():
    edits = edits_of_dependents.ALL
    judged = [(edit, *judge(outcome)) for edit, outcome in zip(edits, run(edits), strict=True)]
    assert [(edit.name, found, why) for edit, found, why in judged if found != edit.expects] == []
