"""A record of ours is read as JSON, and one that cannot be read counts as none."""

import pytest

from codriver import files

RULES = files.Rules(files.Links.OF_USER, most_bytes=files.KIBIBYTE)


@pytest.mark.parametrize(("text", "found"), [('{"a": 1}', {"a": 1}), ("[1]", [1]), ("null", None)])
def test_a_record_is_read_whatever_its_shape(tmp_path, text, found):
    (tmp_path / "record").write_text(text)
    assert files.read_json(tmp_path / "record", RULES) == found


@pytest.mark.parametrize("content", [b"{", b"\xff", b"[" * 1000, b" " * 1025])
def test_what_cannot_be_read_counts_as_no_record(tmp_path, content):
    (tmp_path / "record").write_bytes(content)
    assert files.read_json(tmp_path / "record", RULES) is None


def test_a_record_that_is_not_there_is_none(tmp_path):
    assert files.read_json(tmp_path / "record", RULES) is None
