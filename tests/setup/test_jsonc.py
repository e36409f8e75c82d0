"""JSON with comments: parsed with positions, and changed in one place only."""

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codriver.setup.jsonc import FileFormatError, format_json, parse_jsonc, remove_member, set_member

PATH = ("mcpServers", "codriver")
ENTRY = {"command": "python", "args": ["a", "b"]}


def value(text):
    return parse_jsonc(text).value


COMMENTED = """\
// at the top
{
  "theme": "dark", // why not
  /* the servers
     of the house */
  "mcpServers": {
    // theirs
    "other": { "command": "x" } // the end
  }
}
// at the bottom
"""

ADDED = """\
// at the top
{
  "theme": "dark", // why not
  /* the servers
     of the house */
  "mcpServers": {
    // theirs
    "other": { "command": "x" }, // the end
    "codriver": {
      "command": "python",
      "args": ["a", "b"]
    }
  }
}
// at the bottom
"""


def test_a_member_is_added_and_every_comment_kept():
    assert set_member(COMMENTED, PATH, ENTRY) == ADDED


def test_removing_an_added_member_restores_the_original_text():
    assert remove_member(ADDED, PATH) == COMMENTED


def test_a_member_is_replaced_in_place():
    changed = set_member(ADDED, PATH, {"command": "other"})
    assert changed == ADDED.replace('"python",\n      "args": ["a", "b"]', '"other"')


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("{}", '{\n  "a": 1\n}'),
        ("{ }\n", '{\n  "a": 1\n}\n'),
        ("{\n}\n", '{\n  "a": 1\n}\n'),
        ("{ // empty\n}\n", '{ // empty\n  "a": 1\n}\n'),
        ('{"b": 2}', '{"b": 2, "a": 1}'),
        ('{"b": 2,}', '{"b": 2, "a": 1}'),
        ('{\n\t"b": 2\n}', '{\n\t"b": 2,\n\t"a": 1\n}'),
        ('{\n    "b": 2,\n}', '{\n    "b": 2,\n    "a": 1,\n}'),
        ('{\r\n  "b": 2\r\n}\r\n', '{\r\n  "b": 2,\r\n  "a": 1\r\n}\r\n'),
        ('{"b":\n 2}', '{"b":\n 2,\n"a": 1\n}'),
        ('\ufeff{"b": 2}', '\ufeff{"b": 2, "a": 1}'),
        ('{\n  "b": 2 /* x */ // y\n}', '{\n  "b": 2, /* x */ // y\n  "a": 1\n}'),
    ],
)
def test_a_member_is_added_in_the_style_of_the_file(before, after):
    assert set_member(before, ["a"], 1) == after
    assert value(after)["a"] == 1


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{"a": 1}', "{}"),
        ('{\n  "a": 1\n}\n', "{}\n"),
        ('{"a": 1, "b": 2}', '{"b": 2}'),
        ('{"b": 2, "a": 1}', '{"b": 2}'),
        ('{\n  "b": 2,\n  "a": {\n    "c": 3\n  }\n}', '{\n  "b": 2\n}'),
        ('{\n  "a": 1,\n  "b": 2\n}', '{\n  "b": 2\n}'),
        ('{\r\n  "a": 1,\r\n  "b": 2,\r\n}', '{\r\n  "b": 2,\r\n}'),
        ('{\n  // kept\n  "a": 1\n}', "{\n  // kept\n}"),
        ('{\n  "b": 2, // kept\n  "a": 1\n}', '{\n  "b": 2 // kept\n}'),
        ('{"b": 2}', '{"b": 2}'),
        ("// nothing\n", "// nothing\n"),
    ],
)
def test_a_member_is_removed_and_the_rest_stays_valid(before, after):
    assert remove_member(before, ["a"]) == after


def test_missing_objects_on_the_path_are_created():
    assert value(set_member("{}", ["a", "b", "c"], 1)) == {"a": {"b": {"c": 1}}}
    assert value(set_member('{"a": {"x": 0}}', ["a", "b", "c"], 1)) == {"a": {"x": 0, "b": {"c": 1}}}


@pytest.mark.parametrize("text", ['{"a": []}', '{\n "a": 3}', "[]"])
def test_a_path_through_a_value_that_is_not_an_object_is_refused(text):
    with pytest.raises(FileFormatError, match="expected an object here"):
        set_member(text, ["a", "b"], 1)


@pytest.mark.parametrize(
    ("text", "line", "column", "problem"),
    [
        ('{\n  "a": \n}', 3, 1, "expected a value"),
        ('{"a": 1 "b": 2}', 1, 9, "a comma or }"),
        ("{a: 1}", 1, 2, "a key in double quotes"),
        ('{"a" 1}', 1, 6, "a colon"),
        ('{"a": 1', 1, 8, "a comma or }"),
        ('{"a": ', 1, 7, "unexpected end of file"),
        ("[1, 2", 1, 6, "a comma or ]"),
        ('{"a": NaN}', 1, 7, "NaN is not JSON"),
        ('{"a": 01}', 1, 7, "01 is not JSON"),
        ('{"a": "x\ny"}', 1, 7, "expected a value"),
        ("{} {}", 1, 4, "unexpected text"),
        ("{} /* open", 1, 4, "unexpected text"),
        ("{,}", 1, 2, "a key in double quotes"),
        ('{"a": 1,, "b": 2}', 1, 9, "a key in double quotes"),
        ("[" * 300, 1, 202, "nested deeper"),
    ],
)
def test_an_error_message_includes_the_position(text, line, column, problem):
    with pytest.raises(FileFormatError, match="line") as caught:
        parse_jsonc(text)
    assert problem in str(caught.value)
    assert (caught.value.line, caught.value.column) == (line, column)


@pytest.mark.parametrize("text", ['{} // x"', "/* x */ {}", '{"a": /* x */ 1}'])
def test_comments_are_an_error_if_the_client_does_not_support_them(text):
    parse_jsonc(text)
    with pytest.raises(FileFormatError, match="a comment is not allowed"):
        parse_jsonc(text, comments=False)


@pytest.mark.parametrize("text", ['{"a": 1,}', "[1, ]", '{"a": [1,\n]}', "[1, // x\n]"])
def test_trailing_commas_are_an_error_if_the_client_does_not_support_them(text):
    parse_jsonc(text)
    with pytest.raises(FileFormatError, match="a comma before"):
        parse_jsonc(text, trailing_commas=False)


@pytest.mark.parametrize("text", ["", " \n", "// only this\n", "/* a */ /* b */", "\ufeff"])
def test_a_file_of_blanks_and_comments_is_read_as_empty(text):
    assert parse_jsonc(text) is None


def test_the_last_of_several_members_with_one_name_is_used():
    assert value('{"a": 1, "a": 2}') == {"a": 2}
    assert set_member('{"a": 1, "a": 2}', ["a"], 3) == '{"a": 1, "a": 3}'


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)
OBJECT = st.dictionaries(st.text(max_size=4), JSON, max_size=4)
LAYOUT = st.sampled_from([None, 1, 2, 4, "\t"])


@given(JSON, LAYOUT, st.booleans())
def test_output_of_the_standard_library_is_parsed_equally(data, indent, ascii_only):
    text = json.dumps(data, indent=indent, ensure_ascii=ascii_only)
    assert parse_jsonc(text, comments=False, trailing_commas=False).value == json.loads(text)


@given(OBJECT, LAYOUT, st.text(max_size=4), JSON)
def test_setting_and_removing_changes_only_one_member(data, indent, key, new):
    text = json.dumps(data, indent=indent)
    changed = set_member(text, [key], new)
    assert json.loads(changed) == {**data, key: new}
    removed = remove_member(changed, [key])
    assert json.loads(removed) == {name: item for name, item in data.items() if name != key}
    if key not in data and indent is not None and data:
        assert removed == text


@given(st.text(alphabet='{}[]",:/*\\ \n1atrue', max_size=40))
def test_any_text_is_parsed_or_refused(text):
    with contextlib.suppress(FileFormatError):
        assert remove_member(set_member(text, ["a"], 1), ["a"]) is not None


@given(JSON)
def test_dumped_data_round_trips(data):
    assert json.loads(format_json(data)) == data
