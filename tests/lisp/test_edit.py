from typing import Any

import pytest

from codriver_lisp.edit import Append, EditedText, EditEffect, Insert, Move, RefusedEdits, Replace, apply_edits
from codriver_lisp.edit_targets import SearchLimits, Target
from codriver_lisp.source_text import Document

GREET = """\
(ns greet)

;; What everybody hears.
(defn greeting [name]
  (str "Hello, " name)) ; at the door

(defn shout [text]
  (str text "!"))

(comment
  (greeting "Ada")
  ;; loud
  (shout "hey"))
"""


def at(line, text):
    return Target(line, text)


def edited(text, *edits):
    result = apply_edits(Document(text), dict(enumerate(edits)))
    assert isinstance(result, EditedText), result
    return result.text


def problems(text, *edits, limits=None):
    result = apply_edits(Document(text), dict(enumerate(edits)), limits)
    assert isinstance(result, RefusedEdits), result
    return [(number, problem.message) for number, problem in result.errors]


def swap(text, old, new):
    assert text.count(old) == 1
    return text.replace(old, new)


def test_a_replace_edit_substitutes_one_form_for_another():
    new = '(defn shout [text]\n  (str text "!!"))'
    assert edited(GREET, Replace(at(7, "(defn shout [text]"), new)) == swap(GREET, '"!"', '"!!"')


def test_new_text_is_indented_for_its_position_and_strings_stay_unchanged():
    new = '    (let [x 1]\n      (f x\n         "a\n  b"))\n'
    expected = '(let [x 1]\n    (f x\n       "a\n  b"))'
    assert edited(GREET, Replace(at(11, '(greeting "Ada")'), new)) == swap(GREET, '(greeting "Ada")', expected)


INDENTED = {
    "as at the margin": "(f a\n  b)",
    "as at its place": "  (f a\n    b)",
    "as at another place": "        (f a\n          b)",
    "the first line cut out": "(f a\n    b)",
}


@pytest.mark.parametrize("name", INDENTED)
def test_new_text_in_any_indentation_is_adapted(name):
    target = at(11, '(greeting "Ada")')
    assert edited(GREET, Replace(target, INDENTED[name])) == swap(GREET, '(greeting "Ada")', "(f a\n    b)")


UNMOVED = {
    "below an argument": "(f a\n   b)",
    "below an argument that has columns to spare": "(let [x 1\n      y 2]\n  x)",
    "by nobody's rule": "(f a\n       b)",
    "two forms": "(f)\n(g\n  x)",
    "with a string of lines": '(f "a\nb"\n   c)',
    "with a comment": "(f a\n   ; why\n   b)",
    "closers on lines of their own": "(f (a\n    )\n )",
}


@pytest.mark.parametrize("name", UNMOVED)
def test_text_at_the_margin_is_moved_unchanged(name):
    first, *others = UNMOVED[name].split("\n")
    moved = [line if line.startswith('b"') else "  " + line for line in others]
    expected = "\n".join([first, *moved])
    assert edited("(comment\n  (x))\n", Replace(at(2, "(x))"), UNMOVED[name])) == f"(comment\n  {expected})\n"


def test_a_first_line_without_its_indentation_does_not_shift_the_others():
    new = "(let [x 1\n        y 2]\n    (f x\n       y))"
    expected = "(let [x 1\n        y 2]\n    (f x\n       y))"
    assert edited("(comment\n  (x))\n", Replace(at(2, "(x))"), new)) == f"(comment\n  {expected})\n"


def test_one_form_can_be_replaced_by_several():
    assert edited("(a)\n\n(b)\n", Replace(at(1, "(a)"), "(x)\n\n(y)")) == "(x)\n\n(y)\n\n(b)\n"


DELETIONS = {
    "one of three": ("(a)\n\n(b)\n\n(c)\n", 3, "(b)", "(a)\n\n(c)\n"),
    "the first": ("(a)\n\n(b)\n", 1, "(a)", "(b)\n"),
    "the last": ("(a)\n\n(b)\n", 3, "(b)", "(a)\n"),
    "the last without a line end": ("(a)\n\n(b)", 3, "(b)", "(a)"),
    "the only one": ("(a)\n", 1, "(a)", ""),
    "close together": ("(a)\n(b)\n(c)\n", 2, "(b)", "(a)\n(c)\n"),
    "first on its line": ("(a) (b)\n", 1, "(a)", "(b)\n"),
    "second on its line": ("(a) (b)\n", 1, "(b)", "(a)\n"),
    "between two on its line": ("(a)(b)(c)\n", 1, "(b)(c)", "(a)(c)\n"),
    "with a comment behind it, which stays": ("(a) ; x\n(b)\n", 1, "(a)", "; x\n(b)\n"),
    "with a comment above it, which stays": ("; x\n(a)\n\n(b)\n", 2, "(a)", "; x\n\n(b)\n"),
    "the last of a comment": ("(comment\n  (a)\n  (b))\n", 3, "(b))", "(comment\n  (a))\n"),
    "the last of a comment, after a comment line": (
        "(comment\n  (a) ; x\n  (b))\n", 3, "(b))", "(comment\n  (a) ; x\n  )\n",
    ),
    "the only one of a comment": ("(comment\n  (a))\n", 2, "(a))", "(comment)\n"),
}  # fmt: skip


@pytest.mark.parametrize("name", DELETIONS)
def test_blank_text_deletes_only_the_form(name):
    text, line, target, expected = DELETIONS[name]
    assert edited(text, Replace(at(line, target), "")) == expected
    assert edited(text, Replace(at(line, target), " ,\n")) == expected


def test_neighbours_deleted_together_leave_no_gap():
    text = "(a)\n\n(b)\n\n(c)\n\n(d)\n"
    result = apply_edits(Document(text), {3: Replace(at(3, "(b)"), ""), 5: Replace(at(5, "(c)"), "")})
    assert result == EditedText("(a)\n\n(d)\n", {3: EditEffect(3, 3), 5: EditEffect(5, 3)})


def test_an_insert_edit_adds_text_before_the_target_and_its_comments():
    new = "(def door :open)"
    expected = swap(GREET, ";; What", "(def door :open)\n\n;; What")
    assert edited(GREET, Insert(at(4, "(defn greeting [name]"), new)) == expected


def test_text_inserted_in_a_comment_form_is_indented_like_its_surroundings():
    expected = swap(GREET, "  ;; loud", '  (shout\n    "hi")\n  ;; loud')
    assert edited(GREET, Insert(at(13, '(shout "hey"))'), '(shout\n  "hi")')) == expected


def test_a_comment_separated_by_a_blank_line_is_not_attached():
    assert edited("; licence\n\n(a)\n", Insert(at(3, "(a)"), "(b)")) == "; licence\n\n(b)\n\n(a)\n"


def test_a_shebang_line_stays_first():
    text = "#!/usr/bin/env bb\n(a)\n"
    assert edited(text, Insert(at(2, "(a)"), "(b)")) == "#!/usr/bin/env bb\n(b)\n\n(a)\n"


def test_two_insertions_at_one_position_keep_their_order():
    target = at(1, "(a)")
    assert edited("(a)\n", Insert(target, "(x)"), Insert(target, "(y)")) == "(x)\n\n(y)\n\n(a)\n"


APPENDED = {
    "(a)\n": "(a)\n\n(z)\n",
    "(a)": "(a)\n\n(z)",
    "(a)\n\n": "(a)\n\n(z)\n",
    "(a)\r\n": "(a)\r\n\r\n(z)\r\n",
    "": "(z)\n",
    "; only a comment": "; only a comment\n\n(z)",
}


@pytest.mark.parametrize("text", APPENDED)
def test_an_append_edit_adds_to_the_end_and_keeps_the_final_newline(text):
    assert edited(text, Append("\n(z)\n\n")) == APPENDED[text]


def test_line_numbers_of_all_edits_refer_to_the_original():
    result = apply_edits(
        Document("(a)\n\n(b)\n"),
        {
            0: Append("(z)"),
            1: Insert(at(1, "(a)"), "(x\n  1)"),
            2: Replace(at(3, "(b)"), "(c)"),
            3: Replace(at(1, "(a)"), "(d\n  2\n  3)"),
        },
    )
    assert result.text == "(x\n  1)\n\n(d\n  2\n  3)\n\n(c)\n\n(z)\n"
    assert result.done == {0: EditEffect(4, 10), 1: EditEffect(1, 1), 2: EditEffect(3, 8), 3: EditEffect(1, 4)}


@pytest.mark.parametrize("end", ["\r\n", "\r", "\n"])
def test_new_text_uses_the_line_ending_of_the_file(end):
    text = f"(a){end}{end}(b){end}"
    expected = f'(x{end} "1{end}2"){end}{end}(b){end}'
    assert edited(text, Replace(at(1, "(a)"), '(x\n "1\r\n2")')) == expected


def test_line_endings_that_differ_from_the_rest_of_the_file_are_preserved():
    text = "(a)\r\n(b)\n(c\r\n 1)\r\n"
    assert edited(text, Replace(at(3, "(c"), "(d)")) == "(a)\r\n(b)\n(d)\r\n"


MOVES = {
    "down": ("(a)\n\n; b\n(b) ; B\n\n(c)\n", (4, "(b) ; B"), (6, "(c)"), "after", "(a)\n\n(c)\n\n; b\n(b) ; B\n"),
    "up": ("(a)\n\n; b\n(b) ; B\n\n(c)\n", (4, "(b) ; B"), (1, "(a)"), "before", "; b\n(b) ; B\n\n(a)\n\n(c)\n"),
    "up behind": ("(a)\n\n(b)\n\n(c)\n", (5, "(c)"), (1, "(a)"), "after", "(a)\n\n(c)\n\n(b)\n"),
    "where it is": ("(a)\n\n(b)\n", (3, "(b)"), (1, "(a)"), "after", "(a)\n\n(b)\n"),
    "into a comment": (
        "(a\n 1)\n\n(comment\n  (b))\n", (1, "(a"), (5, "(b))"), "after", "(comment\n  (b)\n  (a\n   1))\n",
    ),
    "from behind another on its line": (
        "(comment (a) (b\n               c))\n\n(d)\n", (1, "(b"), (4, "(d)"), "before",
        "(comment (a))\n\n(b\n  c)\n\n(d)\n",
    ),
    "out of a comment": (
        "(comment\n  (a)\n  (b\n    1))\n\n(c)\n", (3, "(b"), (6, "(c)"), "before",
        "(comment\n  (a))\n\n(b\n  1)\n\n(c)\n",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MOVES)
def test_moving_a_form_includes_the_comments_attached_to_it(name):
    text, target, to, side, expected = MOVES[name]
    assert edited(text, Move(at(*target), at(*to), side)) == expected


def test_a_move_reports_the_new_line_of_the_form():
    document = Document("(a)\n\n(b)\n\n(c)\n")
    assert apply_edits(document, {0: Move(at(5, "(c)"), at(1, "(a)"), "before")}).done == {0: EditEffect(5, 1)}
    assert apply_edits(document, {0: Move(at(1, "(a)"), at(5, "(c)"), "after")}).done == {0: EditEffect(1, 5)}


def test_two_edits_of_the_same_form_are_refused():
    target = at(10, "(comment")
    edits = (Replace(target, "(x)"), Replace(target, "(y)"))
    message = "this edit and edit {} change the same code, at line {}"
    assert problems(GREET, *edits) == [(0, message.format(1, 10)), (1, message.format(0, 10))]
    edits = (Replace(at(11, '(greeting "Ada")'), "(x)"), Replace(target, ""))
    assert problems(GREET, *edits) == [(0, message.format(1, 11)), (1, message.format(0, 11))]


def test_a_form_cannot_be_moved_into_itself():
    refusals = problems(GREET, Move(at(10, "(comment"), at(11, '(greeting "Ada")'), "after"))
    assert refusals == [(0, "the form at line 10 cannot be moved next to itself or into itself")]


def test_every_error_is_reported_and_nothing_is_changed():
    refusals = problems(
        GREET, Replace(at(7, "(defn shout [text]"), "(a"), Append("(b]"), Insert(at(1, "(ns greet)"), " ")
    )
    assert [number for number, _ in refusals] == [0, 1, 2]
    assert (
        refusals[0][1]
        == "the brackets in the new text do not balance, counting lines within it: the `(` at line 1 is never closed"
    )
    assert refusals[2][1] == "the new text is blank, so there is nothing to insert"


def test_the_refusal_of_unbalanced_text_suggests_a_balanced_version():
    result = apply_edits(Document(GREET), {0: Append("(defn f [x]\n  (g x)\n")})
    assert result.errors[0][1].balanced_text == "(defn f [x]\n  (g x))\n"


def test_an_inserted_comment_does_not_swallow_code():
    assert edited("(a) b\n", Replace(at(1, "(a)"), "x ; c")) == "x ; c\n b\n"
    assert edited("(comment (a))\n", Replace(at(1, "(a))"), "x ; c")) == "(comment x ; c\n         )\n"
    assert edited("(a)\n(b)\n", Replace(at(1, "(a)"), "; gone")) == "; gone\n(b)\n"


TOUCHING: dict[str, Any] = {
    "a closer that moves up to a new comment": (
        "(comment\n  (a)\n  (b))\n", [Replace(at(2, "(a)"), "x ; c"), Replace(at(3, "(b))"), "")],
        "(comment\n  x ; c\n  )\n",
    ),
    "a comment before blank space": (":a \n", [Replace(at(1, ":a"), "x ; c")], "x ; c \n"),
    "neighbours that are both replaced": (
        "a\\((y)\n", [Replace(at(1, "(y)"), "x"), Replace(at(1, "\\((y)"), "z")], "a z x\n",
    ),
    "a form that goes, and another that comes to its place": (
        "a\\((y)b\n", [Replace(at(1, "\\((y)b"), ""), Move(at(1, "b"), at(1, "(y)b"), "before")], "a b\n   (y)\n",
    ),
    "a form that moves away, and another that comes in": (
        'b\\("s"a\n', [Move(at(1, '\\("s"a'), at(1, "a"), "after"), Insert(at(1, '"s"a'), "x")],
        'b x\n   "s"a\n      \\(\n',
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TOUCHING)
def test_inserted_text_is_separated_from_adjacent_code(name):
    text, edits, expected = TOUCHING[name]
    assert edited(text, *edits) == expected


def test_adjacent_tokens_are_separated():
    assert edited("[a](b)[c]\n", Replace(at(1, "(b)[c]"), "x")) == "[a]x[c]\n"
    assert edited("a(b)c\n", Replace(at(1, "(b)c"), "x")) == "a x c\n"
    assert edited("a(b)c\n", Replace(at(1, "(b)c"), "")) == "a c\n"


class TestTargeting:
    def test_the_target_line_may_differ_by_up_to_the_padding(self):
        for line in (5, 6, 7, 8, 9):
            assert '"!!"' in edited(GREET, Replace(at(line, "  (defn shout [text]  "), '(defn shout [t] "!!")'))

    def test_a_target_beyond_the_padding_is_refused_with_context(self):
        result = apply_edits(Document(GREET), {0: Replace(at(10, "(defn shout [text]"), "(x)")})
        [(_, problem)] = result.errors
        assert problem.message == (
            "the text '(defn shout [text]' was not found at line 10 or within 2 lines of it; "
            "a form with this text starts at line 7"
        )
        lines = problem.context.splitlines()
        assert lines[9] == "→ 10 (comment"
        assert (lines[0], lines[-1]) == ("   1 (ns greet)", '  13   (shout "hey"))')

    def test_a_refusal_has_21_lines_of_context(self):
        text = "".join(f"(def v{n} {n})\n" for n in range(100))
        [(_, problem)] = apply_edits(Document(text), {0: Replace(at(50, "(nowhere)"), "")}).errors
        lines = problem.context.splitlines()
        assert len(lines) == 21
        assert lines[10] == "→ 50 (def v49 49)"

    def test_long_lines_are_truncated_in_the_context(self):
        text = "[" + "1 " * 5000 + "]\n"
        [(_, problem)] = apply_edits(Document(text), {0: Replace(at(1, "x" * 5000), "")}).errors
        assert problem.context == "→ 1 [" + "1 " * 99 + "…"
        assert len(problem.message) < 300

    def test_a_refusal_lists_lines_on_which_the_target_text_occurs(self):
        text = "(a)\n" * 9
        [(_, refusal)] = problems(text, Replace(at(50, "(a)"), "(x)"))
        assert refusal.endswith("; a form with this text starts at line 1, 2, 3, 4, 5 and 4 others")

    def test_padding_and_context_are_configurable(self):
        limits = SearchLimits(padding=0, context=1)
        edit = Replace(at(6, "(defn shout [text]"), "(x)")
        [(_, problem)] = apply_edits(Document(GREET), {0: edit}, limits).errors
        assert problem.message.startswith("the text '(defn shout [text]' was not found at line 6; a form")
        assert len(problem.context.splitlines()) == 3

    def test_a_target_on_the_exact_line_takes_precedence(self):
        assert edited("(a)\n(a)\n(a)\n", Replace(at(2, "(a)"), "(b)")) == "(a)\n(b)\n(a)\n"

    def test_the_nearer_of_two_targets_takes_precedence(self):
        assert edited("(a)\n\n(x)\n(a)\n", Replace(at(3, "(a)"), "(b)")) == "(a)\n\n(x)\n(b)\n"

    def test_two_equally_near_targets_are_refused(self):
        refusals = problems("(a)\n(x)\n(a)\n", Replace(at(2, "(a)"), "(b)"))
        assert refusals == [(0, "the text is at line 1 and at line 3, equally near line 2")]

    @pytest.mark.parametrize(
        ("line", "text", "where"),
        [
            (3, ";; What everybody hears.", "the next form starts at line 4"),
            (8, '(str text "!"))', "it is inside the form that starts at line 7"),
            (12, ";; loud", "it is inside the form that starts at line 10"),
        ],
    )
    def test_a_line_where_no_form_starts_is_refused(self, line, text, where):
        [(_, refusal)] = problems(GREET, Replace(at(line, text), "(x)"))
        words = f"line {line} is not the first line of a top-level form, nor of one directly in a (comment …), a "
        words += "(do …) or a branch of a reader conditional"
        assert refusal == f"{words}: {where}"

    def test_forms_on_one_line_are_distinguished_by_their_text(self):
        assert edited("(a) (b) (c)\n", Replace(at(1, "(b)"), "(x)")) == "(a) (x) (c)\n"
        [(_, refusal)] = problems("(a) (b)\n", Replace(at(1, "(a) (b)"), "(x)"))
        assert refusal == "2 forms start on line 1. Pass the first line of the intended one as targetLineText"
        [(_, refusal)] = problems("(a) (a) (b)\n", Replace(at(1, "(a)"), "(x)"))
        assert refusal == "2 forms that start on line 1 have this text"

    def test_a_comment_form_and_its_first_child_can_share_a_line(self):
        text = "(comment (a)\n  (b))\n"
        assert edited(text, Replace(at(1, "(a)"), "(x)")) == "(comment (x)\n  (b))\n"
        assert edited(text, Replace(at(1, "(comment (a)"), "(x)")) == "(x)\n"

    def test_discarded_quoted_and_tagged_forms_can_be_targets(self):
        text = "#_(a)\n'(b)\n^:x (c)\n#?(:clj 1)\n#_(comment (d))\n"
        for line, form in enumerate(text.splitlines(), 1):
            assert edited(text, Replace(at(line, form), "(z)")).splitlines()[line - 1] == "(z)"

    @pytest.mark.parametrize("line", [0, -1])
    def test_line_numbers_below_one_are_refused(self, line):
        [(_, refusal)] = problems("(a)\n", Replace(at(line, "(a)"), "(x)"))
        assert refusal == f"there is no line {line}: the first line is 1"

    def test_the_context_for_a_line_far_beyond_the_end_is_the_end_of_the_file(self):
        [(_, problem)] = apply_edits(Document("(a)\n(b)\n"), {0: Replace(at(99, "(a)"), "(x)")}).errors
        assert problem.context == "  1 (a)\n  2 (b)"

    def test_blank_target_text_is_refused(self):
        [(_, refusal)] = problems("(a)\n", Replace(at(1, " "), "(x)"))
        assert refusal == "targetLineText is blank. Pass the text of the form's first line"


class TestBrokenFiles:
    TEXT = "(a)\n\n(defn b [\n  1)\n\n(c)\n"

    def test_forms_before_a_syntax_error_can_be_edited(self):
        assert edited(self.TEXT, Replace(at(1, "(a)"), "(x)")) == self.TEXT.replace("(a)", "(x)")

    @pytest.mark.parametrize(("line", "text"), [(3, "(defn b ["), (6, "(c)")])
    def test_forms_at_and_after_a_syntax_error_cannot_be_edited(self, line, text):
        [(_, refusal)] = problems(self.TEXT, Replace(at(line, text), "(x)"))
        assert "because the file's brackets do not balance: the `[` at line 3 needs `]`" in refusal

    def test_a_broken_file_cannot_be_appended_to(self):
        [(_, message)] = problems(self.TEXT, Append("(z)"))
        assert message.split(",")[0] == "the file cannot be appended to"

    def test_a_target_line_with_a_dangling_metadata_prefix_is_refused(self):
        [(_, refusal)] = problems("(comment (a)\n (b) ^:x)\n", Replace(at(2, "(b) ^:x)"), "(c)"))
        assert "is not the first line" in refusal


class TestTabs:
    @pytest.mark.parametrize("new", ["(f a\n\tb)", "\t(f a\n\t\tb)", "(f a\n\t\tb)"])
    def test_every_line_is_indented_with_tabs_at_a_position_indented_with_tabs(self, new):
        assert edited("(comment\n\t(x))\n", Replace(at(2, "(x))"), new)) == "(comment\n\t(f a\n\t\tb))\n"

    def test_extra_spaces_are_kept_after_tabs(self):
        assert edited("(comment\n\t(x))\n", Replace(at(2, "(x))"), "(f a\n  b)")) == "(comment\n\t(f a\n\t  b))\n"
        assert edited("(comment\n\t(x))\n", Replace(at(2, "(x))"), "  (f a\n    b)")) == "(comment\n\t(f a\n\t  b))\n"

    def test_a_tab_counts_as_two_columns_among_spaces(self):
        assert edited("(comment\n  (x))\n", Replace(at(2, "(x))"), "\t(f a\n    b)")) == "(comment\n  (f a\n    b))\n"
        assert edited("(a)\n", Replace(at(1, "(a)"), "  (f a\n\t\tb)")) == "(f a\n  b)\n"

    def test_a_form_after_code_and_tabs_is_indented_by_the_columns_that_parinfer_counts(self):
        text = "\t(comment\t(x)\n\t\t\t(y))\n"
        assert edited(text, Replace(at(1, "(x)"), "(f\n  1)")) == swap(text, "(x)", "(f\n\t" + " " * 12 + "1)")


def test_a_form_with_lines_to_the_left_of_its_start_can_be_replaced_by_itself():
    form = "(def symbols '#{*\n*'\n a\n   b})"
    text = f"(ns a)\n {form}\n"
    assert edited(text, Replace(at(2, "(def symbols '#{*"), form)) == text
    assert edited(text, Replace(at(2, "(def symbols '#{*"), form.replace("b", "c"))) == text.replace("b", "c")


HINTED = """\
(ns a)

;; What f is.
#_:clj-kondo/ignore
(defn f [] (inc))

#_{:clj-kondo/ignore [:unused-binding]} (defn g [x] 1)

(defn h [] 2)
"""


def test_a_linter_hint_stays_with_its_form_on_insertion():
    new = "(def n 1)"
    expected = swap(HINTED, ";; What f is.", "(def n 1)\n\n;; What f is.")
    assert edited(HINTED, Insert(at(5, "(defn f [] (inc))"), new)) == expected
    expected = swap(HINTED, "#_{", "(def n 1)\n\n#_{")
    assert edited(HINTED, Insert(at(7, "(defn g [x] 1)"), new)) == expected


def test_a_linter_hint_moves_with_its_form():
    moved = edited(HINTED, Move(at(5, "(defn f [] (inc))"), at(9, "(defn h [] 2)"), "after"))
    assert moved.endswith("(defn h [] 2)\n\n;; What f is.\n#_:clj-kondo/ignore\n(defn f [] (inc))\n")
    moved = edited(HINTED, Move(at(9, "(defn h [] 2)"), at(7, "(defn g [x] 1)"), "before"))
    assert "(defn h [] 2)\n\n#_{:clj-kondo/ignore [:unused-binding]} (defn g [x] 1)\n" in moved
    moved = edited(HINTED, Move(at(7, "(defn g [x] 1)"), at(9, "(defn h [] 2)"), "after"))
    assert moved.endswith("(defn h [] 2)\n\n#_{:clj-kondo/ignore [:unused-binding]} (defn g [x] 1)\n")


def test_a_linter_hint_is_deleted_with_its_form():
    gone = edited(HINTED, Replace(at(5, "(defn f [] (inc))"), ""), Replace(at(7, "(defn g [x] 1)"), ""))
    assert gone == "(ns a)\n\n;; What f is.\n\n(defn h [] 2)\n"
    replaced = edited(HINTED, Replace(at(7, "(defn g [x] 1)"), "(defn g [] 1)"))
    assert "#_{:clj-kondo/ignore [:unused-binding]} (defn g [] 1)" in replaced


def test_discarded_code_is_not_a_linter_hint():
    for discarded in ("#_(def old 1)", "#_old", "#_:old", '#_"a/b"', "#_:clj-kondo/ignore\n"):
        text = f"{discarded}\n(def f 1)\n"
        line = text.count("\n")
        assert edited(text, Insert(at(line, "(def f 1)"), "(def n 1)")).startswith(f"{discarded}\n(def n 1)")
