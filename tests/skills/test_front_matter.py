"""Front matter is parsed as YAML, as clients parse it, and refused where two parsers could disagree."""

import pytest

from codriver.files.codriver_paths import shipped_directory
from codriver.skills import FrontMatterError, read_front_matter
from codriver.skills.front_matter import MAX_FRONT_MATTER_BYTES

NAMED = {"name": "a-b", "description": "x"}


def of(yaml):
    return read_front_matter(f"---\nname: a-b\ndescription: x\n{yaml}\n---\n\ntext\n".encode("utf-8", "surrogatepass"))


@pytest.mark.parametrize(
    ("yaml", "fields"),
    [
        ("note: 'it''s: one'", {"note": "it's: one"}),
        ("note: >-\n  one\n  two", {"note": "one two"}),
        ("note: |\n  one\n  --- two", {"note": "one\n--- two"}),
        ("metadata: {version: '1.0', tags: [a, null, ~]}", {"metadata": {"version": "1.0", "tags": ["a", None, None]}}),
        ("metadata:\n  io.modelcontextprotocol/x: [1, -2]", {"metadata": {"io.modelcontextprotocol/x": [1, -2]}}),
        ("# a comment\nallowed-tools: Bash(git:*) Read", {"allowed-tools": "Bash(git:*) Read"}),
        ('note: "\\ud83d\\ude00"', {"note": "😀"}),
        ("<<: {a: 1}", {"<<": {"a": 1}}),
        ("nothing:", {"nothing": None}),
    ],
)
def test_every_field_of_the_author_is_passed_on(yaml, fields):
    assert of(yaml) == {**NAMED, **fields}


@pytest.mark.parametrize(
    ("plain", "value"),
    [
        ("yes", "yes"), ("on", "on"), ("2026-01-31", "2026-01-31"), ("1:30", "1:30"), ("1_000", "1_000"), ("010", 10),
        ("0o17", 15), ("0xfF", 255), ("1e3", 1000.0), (".5", 0.5), ("true", True), ("FALSE", False), ("Null", None),
        ("1.10", 1.1), ("=", "="),
    ],
)  # fmt: skip
def test_plain_scalars_follow_the_yaml_core_schema(plain, value):
    assert of(f"note: {plain}")["note"] == value
    assert type(of(f"note: {plain}")["note"]) is type(value)


@pytest.mark.parametrize(
    "yaml",
    [
        "note: one: two", "note: [", "note: 'one", "\tnote: x", "- one", "note: &a 1\nother: *a", "note: 1\nnote: 2",
        "1: x", "? [a]\n: b", "note: !!binary aGk=", "note: !!set {a}", "note: !!python/name:os.system", "note: .inf",
        "note: .nan", "note: !!int x", "note: 9007199254740993", 'note: "\\ud83d"', "note: \x07",
        "note: " + "[" * 500, "note: " + "9" * 5000, "note: " + "x" * MAX_FRONT_MATTER_BYTES,
    ],
)  # fmt: skip
def test_invalid_or_ambiguous_front_matter_is_refused(yaml):
    with pytest.raises(FrontMatterError):
        of(yaml)


def test_the_error_message_states_the_problem_and_the_line():
    with pytest.raises(FrontMatterError, match=r"the key 'note' is repeated in line 5"):
        of("note: 1\nnote: 2")


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("rest", ["", "\ntext", "\n---\nname: c\n---\n"])
def test_line_endings_and_a_byte_order_mark_make_no_difference(end, mark, rest):
    text = f"{mark}---\nname: a-b\ndescription: x\n---{rest}"
    assert read_front_matter(text.replace("\n", end).encode()) == NAMED


@pytest.mark.parametrize(
    "guide",
    [
        "", "text", "---\nname: a-b\ndescription: x\n", " ---\nname: a-b\ndescription: x\n---\n", "---\n---\n",
        "---\ndescription: x\n---\n", "---\nname: a-b\n---\n", "---\nname: a-b\ndescription: ' '\n---\n",
        "---\nname: 1\ndescription: x\n---\n", "---\nname: a-b\ndescription: [x]\n---\n",
    ],
)  # fmt: skip
def test_a_guide_without_name_and_description_is_refused(guide):
    with pytest.raises(FrontMatterError):
        read_front_matter(guide.encode())


@pytest.mark.parametrize("name", ["A", "-a", "a-", "a--b", "a_b", "a.b", "a b", "ä", "x" * 65, '"a\\n"'])
def test_a_name_that_breaks_the_agent_skills_rules_is_refused(name):
    with pytest.raises(FrontMatterError, match="needs a name"):
        read_front_matter(f"---\nname: {name}\ndescription: x\n---\n".encode())


def test_the_shipped_skills_are_valid():
    guides = sorted(shipped_directory("skills").glob("*/SKILL.md"))
    assert len(guides) == 3
    for guide in guides:
        assert read_front_matter(guide.read_bytes())["name"] == guide.parent.name
