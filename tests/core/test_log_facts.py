"""The structured data of log entries: what is encoded is decoded, with bounds on its size and without secrets."""

from types import SimpleNamespace

import pytest

from codriver.core import log_facts
from codriver.core.log_facts import TestFacts, decode_facts, edit_facts, encode_facts


def decoded(data):
    return decode_facts(SimpleNamespace(data=data))


def unchanged(text):
    return text


@pytest.mark.parametrize("facts", [{}, {"repl": "py", "generation": 2}, {"file": "größe.py", "cause": None}])
def test_encoded_facts_round_trip(facts):
    assert decoded(encode_facts(**facts)) == facts


@pytest.mark.parametrize("data", [None, "", '{"file": "a.py', "[1, 2]", "null", "7"])
def test_damaged_or_missing_data_is_decoded_as_no_facts(data):
    assert decoded(data) == {}


def test_an_edit_names_each_file_with_its_diff_if_known():
    facts = decoded(edit_facts([("a.py", "+x = 1"), ("b.bin", "")], unchanged))
    assert facts == {"files": [{"file": "a.py", "diff": "+x = 1"}, {"file": "b.bin"}]}


def test_an_undone_edit_names_the_test_run_that_was_the_reason():
    assert decoded(edit_facts([("a.py", "-x")], unchanged, "t1"))["job"] == "t1"


def test_secrets_are_removed_from_a_diff_before_it_is_encoded():
    # JSON writes the quotation mark of the secret as two characters, so a search in the JSON would not find it.
    facts = decoded(edit_facts([("a.py", '+KEY = s3"cret')], lambda text: text.replace('s3"cret', "***")))
    assert facts["files"][0]["diff"] == "+KEY = ***"


def test_a_long_diff_is_shortened_and_the_diffs_of_one_entry_are_limited_in_total():
    long = "+" * (log_facts.MAX_FILE_DIFF_CHARACTERS + 1)
    files = decoded(edit_facts([("a.py", long), ("b.py", long), ("c.py", long)], unchanged))["files"]
    lengths = [len(file.get("diff", "")) for file in files]
    assert lengths[0] <= log_facts.MAX_FILE_DIFF_CHARACTERS
    assert 0 < lengths[1] < lengths[0]
    assert sum(lengths) <= log_facts.MAX_TOTAL_DIFF_CHARACTERS
    assert files[2] == {"file": "c.py"}


def test_the_facts_about_a_test_run_without_failures_are_only_its_counts():
    facts = TestFacts(job="t1", tests="all", counts={"passed": 3, "failed": 0, "skipped": 0})
    assert decoded(facts.to_data()) == {"job": "t1", "tests": "all", "passed": 3, "failed": 0}


def test_a_stopped_run_is_recorded_as_partial_with_its_test_and_purpose():
    facts = TestFacts(
        job="t2",
        tests="affected",
        counts={"passed": 0, "failed": 1, "skipped": 2},
        failures=["t.py::test_a"],
        passed_again=["t.py::test_b"],
        paths=["t.py"],
        is_partial=True,
        stopped="t.py::test_c",
        purpose="previous sources",
    )
    assert decoded(facts.to_data()) == {
        "job": "t2",
        "tests": "affected",
        "passed": 0,
        "failed": 1,
        "skipped": 2,
        "failures": ["t.py::test_a"],
        "passedAgain": ["t.py::test_b"],
        "paths": ["t.py"],
        "isPartial": True,
        "stopped": "t.py::test_c",
        "purpose": "previous sources",
    }


@pytest.mark.parametrize("field", ["failures", "paths"])
def test_a_run_that_does_not_list_all_test_names_is_partial(field):
    names = [f"t.py::test_{number}" for number in range(log_facts.MAX_LISTED_TESTS + 1)]
    facts = decoded(TestFacts(job="t", tests="all", counts={}, **{field: names}).to_data())
    assert facts[field] == names[:-1]
    assert facts["isPartial"]
    complete = decoded(TestFacts(job="t", tests="all", counts={}, **{field: names[:-1]}).to_data())
    assert "isPartial" not in complete


def test_a_run_stopped_outside_a_test_has_an_empty_test_name():
    assert decoded(TestFacts(job="t", tests="all", counts={}, stopped="").to_data())["stopped"] == ""
