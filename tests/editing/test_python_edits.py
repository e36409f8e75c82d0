"""Editing Python by its definitions: what an edit names is changed, and every other byte is preserved."""

import colorsys
import inspect
import random
import textwrap

import anyio
import pytest
from refusals import refused_as

from codriver.editing import CreateFile, Editor, EditRequest, InsertDef, ReplaceDef, SearchLimits, python_edits
from codriver.editing.python_edits import apply_python_edits
from codriver.editing.python_source import PythonSource
from codriver_lisp.edit import Append, EditedText, Replace
from codriver_lisp.edit_targets import Target

SHOP = '''\
import os  # first


class Order:
    """An order."""

    rate = 2

    # About total.
    @property
    @cached(
        1,
    )
    def total(self):
        return 1  # one
        # behind

    async def send(self):
        def inner():
            return 1
        return inner

    class Line:
        def total(self): return 3


if os.name == "nt":
    def name(): return "nt"
else:
    def name(): return "posix"
'''


def edited(text, *edits):
    found = apply_python_edits(text, dict(enumerate(edits)))
    assert isinstance(found, EditedText), found
    return found.text


def refused(text, *edits):
    found = apply_python_edits(text, dict(enumerate(edits)))
    assert not isinstance(found, EditedText), found.text
    return {number: problem.message for number, problem in found.errors}


def test_a_definition_is_replaced_with_its_decorators_and_nothing_else():
    new = "@property\ndef total(self):\n    return 2"
    old = SHOP[SHOP.index("    @property") : SHOP.index("  # one") + len("  # one")]
    assert edited(SHOP, ReplaceDef("Order.total", new)) == SHOP.replace(old, textwrap.indent(new, "    "))


@pytest.mark.parametrize(
    ("name", "old", "new", "displayed"),
    [
        ("Order.Line.total", "self): return 3", "def total(self): return 4", "self): return 4"),
        ("Order.send.inner", "():\n            return 1", "  def inner():\n    return 2", "():\n            return 2"),
        (
            "Order.send",
            "send(self):\n",
            "async def send(self, to=1):\n  def inner():\n    return 1\n  return inner",
            "send(self, to=1):\n",
        ),
        ("Order.Line", "class Line:\n", "class Line(Base):\n\tdef total(self): return 3", "class Line(Base):\n"),
    ],
)  # fmt: skip
def test_nested_definitions_are_identified_by_their_path(name, old, new, displayed):
    assert edited(SHOP, ReplaceDef(name, new)) == SHOP.replace(old, displayed)


def test_an_ambiguous_definition_needs_a_line():
    assert "lines 28, 30" in refused(SHOP, ReplaceDef("name", "def name(): ..."))[0]
    assert edited(SHOP, ReplaceDef("name", "def name(): ...", line=30)) == SHOP.replace(
        'def name(): return "posix"', "def name(): ..."
    )
    assert "but at 28, 30" in refused(SHOP, ReplaceDef("name", "def name(): ...", line=3))[0]


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (ReplaceDef("total", "def total(): ..."), "there is Order.total, Order.Line.total"),
        (ReplaceDef("Order.totl", "def total(): ..."), "there is Order.total"),
        (ReplaceDef("Order.total", "def total(self:"), "the new text does not parse at line 1"),
        (ReplaceDef("Order.total", "return 3"), "with these edits the file does not parse"),
        (ReplaceDef("Order.Line.total", ""), "with these edits the file does not parse"),
        (ReplaceDef("Order.total", "def total(self):\n    return 1 \\"), "does not parse"),
        (InsertDef("Order", "  \n"), "the new text is blank. Pass the code to insert"),
        (InsertDef("Order.send", "x = 1", side="in"), "is a function"),
        (InsertDef("Order", "x = '''", side="in"), "the new text does not parse"),
        (ReplaceDef("Order", "x = 1\0"), "null"),
    ],
)  # fmt: skip
def test_an_impossible_edit_is_refused_with_the_valid_choices(edit, words):
    assert words in refused(SHOP, edit)[0]


VALUES = """\
RATE = 0.2  # the tax
LIMIT: int = 3
a, b = 1, 2
x = y = 3
p = 1; q = 2
SIZES = [
    1,
]  # all


class Order:
    count: int = 0
    name = "é"  # by default


if RATE:
    MODE = "slow"
else:
    MODE = "fast"
"""


@pytest.mark.parametrize(
    ("edit", "old", "new"),
    [
        (ReplaceDef("RATE", "RATE = 0.21"), "RATE = 0.2 ", "RATE = 0.21 "),
        (ReplaceDef("RATE", "RATE = 1  # none"), "RATE = 0.2  # the tax", "RATE = 1  # none"),
        (ReplaceDef("LIMIT", "LIMIT: int = 4"), "= 3\na", "= 4\na"),
        (ReplaceDef("SIZES", "SIZES = [2]"), "[\n    1,\n]  # all", "[2]  # all"),
        (ReplaceDef("Order.count", "count: int = 1"), "= 0\n", "= 1\n"),
        (ReplaceDef("Order.name", 'name = "e"'), '"é"', '"e"'),
        (ReplaceDef("MODE", 'MODE = "quick"', line=19), '"fast"', '"quick"'),
        (ReplaceDef("LIMIT", ""), "LIMIT: int = 3\n", ""),
        (InsertDef("LIMIT", "LEAST = 1"), "= 3\na", "= 3\nLEAST = 1\na"),
        (InsertDef("Order.name", "size = 1", side="before"), "    name", "    size = 1\n    name"),
    ],
)  # fmt: skip
def test_an_assignment_to_one_name_is_a_definition_and_keeps_its_comment(edit, old, new):
    assert VALUES.count(old) == 1
    assert edited(VALUES, edit) == VALUES.replace(old, new)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("a", "a is not a function, class or simple assignment. Replace its text"),
        ("x", "x is not a function, class or simple assignment"),
        ("p", "p shares line 5 with other code"),
        ("q", "q shares line 5 with other code"),
        ("MODE", "MODE is defined more than once, at lines 17, 19"),
        ("RATES", "there is no definition named RATES; there is RATE"),
    ],
)
def test_other_assignments_must_be_replaced_as_text(name, words):
    assert words in refused(VALUES, ReplaceDef(name, f"{name} = 9"))[0]


def test_an_insertion_next_to_a_missing_definition_is_refused_with_the_meaning_of_name():
    message = refused(VALUES, InsertDef("total", "def total(): ..."))[0]
    assert message.startswith("there is no definition named total")
    assert message.endswith(
        "For insert_def, name is an existing definition. Without name, code is added to the end of the file"
    )


def test_an_unparsable_file_must_be_corrected_as_text():
    assert "the file does not parse at line 1" in refused("def f(:\n", Append("x = 1"))[0]


def test_all_edits_are_refused_if_one_is_invalid_and_overlapping_edits_name_each_other():
    problems = refused(SHOP, ReplaceDef("Order", "class Order: ..."), ReplaceDef("Order.send", "def send(self): ..."))
    assert problems == {
        0: "this edit and edit 1 change the same code, at line 18",
        1: "this edit and edit 0 change the same code, at line 18",
    }
    assert set(refused(SHOP, Append("y = 1"), ReplaceDef("none", "x = 1"))) == {1}


def test_insertions_are_placed_in_order_with_the_usual_blank_lines():
    text = "import os\nclass A:\n    x = 1\n\n    # about f\n    def f(self): ...\n    # end\n\ndef g(): ...\n"
    assert edited(
        text,
        InsertDef("A.f", "def after(self): ..."),
        InsertDef("A.f", "def again(self): ..."),
        InsertDef("A.f", "def before(self): ...", side="before"),
        InsertDef("A", "def last(self): ...", side="in"),
        InsertDef("A", "class B: ...", side="before"),
        InsertDef(None, "def end(): ..."),
    ) == (
        "import os\n\n\nclass B: ...\n\n\nclass A:\n    x = 1\n\n    def before(self): ...\n\n    # about f\n"
        "    def f(self): ...\n\n    def after(self): ...\n\n    def again(self): ...\n\n    def last(self): ...\n\n"
        "    # end\n\ndef g(): ...\n\n\ndef end(): ...\n"
    )


def test_insertions_at_one_position_are_ordered_innermost_first():
    text = "class A:\n    def f(self): ...\n"
    both = InsertDef(None, "x = 1"), InsertDef("A", "def g(self): ...", side="in")
    assert edited(text, *both) == f"{text}\n    def g(self): ...\n\n\nx = 1\n"


def test_removing_a_definition_also_removes_its_blank_lines():
    text = "def a(): ...\n\n\ndef b(): ...\n\n\ndef c(): ...\n"
    assert edited(text, ReplaceDef("b", "")) == "def a(): ...\n\n\ndef c(): ...\n"
    assert edited(text, ReplaceDef("c", "")) == "def a(): ...\n\n\ndef b(): ...\n"
    assert edited(text, ReplaceDef("b", ""), ReplaceDef("c", ""), ReplaceDef("a", "")) == ""
    assert edited(text, ReplaceDef("a", ""), InsertDef("a", "x = 1")) == "x = 1\n\n\ndef b(): ...\n\n\ndef c(): ...\n"


def test_indentation_is_adapted_to_the_file_and_strings_keep_their_value():
    text = "class A:\n\tdef f(self):\n\t\treturn 1\n"
    new = '''\
    def f(self):
        """Words.

        More.
        """
        sql = """
    select *
  from x"""
        return (sql,
                f"""
{1}
  """)'''
    displayed = edited(text, ReplaceDef("A.f", new))
    assert displayed == (
        'class A:\n\tdef f(self):\n\t\t"""Words.\n\n\t\tMore.\n\t\t"""\n\t\tsql = """\n    select *\n  from x"""\n'
        '\t\treturn (sql,\n\t\t        f"""\n{1}\n  """)\n'
    )


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_new_text_gets_the_line_endings_of_the_file(ending):
    text = SHOP.replace("\n", ending)
    new = 'def send(self):\r\n    """a\n    b"""\n    return 1'
    displayed = edited(text, ReplaceDef("Order.send", new), Append("x = 1\n"))
    assert displayed.replace(ending, "\n") == edited(SHOP, ReplaceDef("Order.send", new), Append("x = 1"))
    assert displayed.count(ending) == len(displayed.splitlines())


def test_only_characters_that_python_treats_as_line_ends_separate_lines():
    text = "x = '\x0b\x0c\u2028'\n\x0c\ndef f(): ...\n# \x85\ndef g():\n    return 1"
    assert edited(text, ReplaceDef("g", "def g(): return 2\n")) == text.replace(
        "def g():\n    return 1", "def g(): return 2"
    )


def test_replacing_a_definition_by_itself_changes_nothing():
    random.seed(19)
    for module in (textwrap, colorsys, python_edits):
        text = inspect.getsource(module)
        source = PythonSource(text)
        places = {}
        for definition in source.definitions:
            places.setdefault(definition.name, []).append(definition)
        for own in random.sample([item for (item, *rest) in places.values() if not rest], 4):
            new = "".join(source.lines[own.first - 1 : own.last])
            assert edited(text, ReplaceDef(own.name, new)) == text
            assert edited(text, ReplaceDef(own.name, textwrap.dedent(new))) == text


def work(folder, *expected, dry_run=False):
    editor = Editor(folder.resolve())
    pairs = [EditRequest(file, edit) for file, edit in expected]

    async def run():
        return await editor.edit("me", pairs, limits=SearchLimits(), allow_outside=False, dry_run=dry_run)

    return anyio.run(run)


def problems_of(caught):
    return [row["message"] for row in caught.value.details["problems"]]


@pytest.mark.parametrize(
    ("head", "encoding"),
    [
        (b"", "utf-8"),
        (b"\xef\xbb\xbf", "utf-8"),
        (b"# -*- coding: latin-1 -*-\n", "latin-1"),
        (b"#!/x\n# coding: cp1252\n", "cp1252"),
    ],
)
def test_an_edited_file_stays_in_its_declared_encoding(tmp_path, head, encoding):
    file = tmp_path / "a.py"
    file.write_bytes(head + "x = 'é'\n\n\ndef f(): ...\n".encode(encoding))
    work(tmp_path, ("a.py", ReplaceDef("f", "def f(): return 'ü'")))
    assert file.read_bytes() == head + "x = 'é'\n\n\ndef f(): return 'ü'\n".encode(encoding)
    if encoding != "utf-8":
        with refused_as("edits-refused") as caught:
            work(tmp_path, ("a.py", ReplaceDef("f", "def f(): return '→'")))
        assert encoding in problems_of(caught)[0].replace("iso-8859-1", "latin-1")


@pytest.mark.parametrize(
    ("encoding", "line"),
    [
        ("iso2022_jp", b"x = '\x1b$B$\"\x1b(B\x1b$B$$\x1b(B'\n"),
        ("big5hkscs", b"x = '\xa2\xcc'\n"),
        ("utf-7", b"x = '+AGE-'\n"),
        ("raw_unicode_escape", b"x = '\\u00e9'\n"),
        ("unicode_escape", b"x = 1\n"),
        ("hex", b"x = 1\n"),
        ("rot13", b"x = 1\n"),
        ("undefined", b"x = 1\n"),
    ],
)
def test_a_file_whose_bytes_would_not_round_trip_is_refused_and_unchanged(tmp_path, encoding, line):
    file = tmp_path / "a.py"
    data = b"# coding: " + encoding.encode() + b"\n" + line + b"\n\ndef f(): ...\n"
    file.write_bytes(data)
    with refused_as("edits-refused") as caught:
        work(tmp_path, ("a.py", ReplaceDef("f", "def f(): return 1")))
    [refusals] = problems_of(caught)
    assert refusals.startswith(f"a.py declares {encoding}, ")
    assert "UTF-8" in refusals
    assert file.read_bytes() == data


def test_a_file_in_an_escape_encoding_that_round_trips_is_edited(tmp_path):
    text = "# coding: iso2022_jp\nx = 'あい'\n\n\ndef f(): ...\n"
    (tmp_path / "a.py").write_bytes(text.encode("iso2022_jp"))
    work(tmp_path, ("a.py", ReplaceDef("f", "def f(): return 'う'")))
    assert (tmp_path / "a.py").read_bytes() == text.replace("...", "return 'う'").encode("iso2022_jp")


@pytest.mark.parametrize("encoding", ["unicode_escape", "utf-16", "hex", "rot13", "undefined"])
def test_new_text_that_could_not_be_read_again_is_refused(tmp_path, encoding):
    with refused_as("edits-refused") as caught:
        work(tmp_path, ("a.py", CreateFile(f"# coding: {encoding}\nx = 1\n")))
    assert problems_of(caught)[0].startswith(("the new text", "the content does not parse"))
    assert list(tmp_path.iterdir()) == []


def test_a_batch_of_both_languages_is_applied_or_refused_as_a_whole(tmp_path):
    (tmp_path / "a.clj").write_text("(def a 1)\n")
    (tmp_path / "b.py").write_bytes(b"def b(): ...\n")
    form = Replace(Target(1, "(def a 1)"), "(def a 2)")
    with refused_as("edits-refused") as caught:
        work(tmp_path, ("a.clj", form), ("b.py", form), ("a.clj", ReplaceDef("a", "")), ("c.py", CreateFile("x = (")))
    refusals = problems_of(caught)
    assert "Use replace_def, insert_def or append" in refusals[0]
    assert "it is for Python" in refusals[1]
    assert "the content does not parse" in refusals[2]
    assert (tmp_path / "a.clj").read_text() == "(def a 1)\n"
    outcome = work(
        tmp_path, ("a.clj", form), ("b.py", ReplaceDef("b", "def b(): return 1")), ("c.py", CreateFile("x = 1\n"))
    )
    assert [file.is_new for file in outcome.files] == [False, False, True]
    assert (tmp_path / "b.py").read_text() == "def b(): return 1\n"
    assert "-def b(): ...\n+def b(): return 1\n" in outcome.files[1].diff
