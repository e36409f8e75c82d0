"""Our own JSON records; a record that cannot be read counts as missing."""

import pytest

from codriver import files

RULES = files.FileRules(files.Links.OF_USER, max_bytes=files.KIBIBYTE)


@pytest.mark.parametrize(("text", "found"), [('{"a": 1}', {"a": 1}), ("[1]", [1]), ("null", None)])
def test_a_record_of_any_json_type_is_read(tmp_path, text, found):
    (tmp_path / "record").write_text(text)
    assert files.read_json(tmp_path / "record", RULES) == found


@pytest.mark.parametrize("content", [b"{", b"\xff", b"[" * 1000, b" " * 1025])
def test_an_unreadable_record_counts_as_missing(tmp_path, content):
    (tmp_path / "record").write_bytes(content)
    assert files.read_json(tmp_path / "record", RULES) is None


def test_a_missing_record_is_read_as_none(tmp_path):
    assert files.read_json(tmp_path / "record", RULES) is None
