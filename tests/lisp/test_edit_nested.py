"""Forms directly in a `(do …)` or in a branch of a reader conditional are edited like top-level forms."""

import pytest
from alike import rounds

from codriver_lisp.edit import EditedText, Insert, Move, RefusedEdits, Replace, apply_edits
from codriver_lisp.edit_targets import SearchLimits, Target
from codriver_lisp.indentation import reindent
from codriver_lisp.source_text import Document
from codriver_lisp.splices import replace_unit
from lisp.test_edit import at, edited

CLOCK = """\
(ns clock)

#?(:clj
   (defn now []
     (System/currentTimeMillis))

   ;; in a browser
   :cljs
   ;; as a number
   (defn now []
     (js/Date.now)))

#?(:clj (do (defn nap [ms]
              (Thread/sleep ms))

            ;; for ever
            (defn hang []
              @(promise))))

(do
  (defn second-of [t]
    (quot t 1000))

  #?@(:clj [(defn a [] 1)
            (defn b [] 2)]
      :cljs [])
  ; last
  (def z 26))
"""


def refused(text, *edits):
    result = apply_edits(Document(text), dict(enumerate(edits)))
    assert isinstance(result, RefusedEdits), result
    return [problem.message for _, problem in result.errors]


def swap(text, old, new):
    assert text.count(old) == 1
    return text.replace(old, new)


REPLACED = {
    "the first branch": (
        4,
        "(defn now []",
        "(System/currentTimeMillis)",
        "(f\n       1)",
        "(defn now []\n  (f\n    1))",
    ),
    "another branch, behind its comment": (10, "(defn now []", "(js/Date.now)", "1", "(defn now []\n  1)"),
    "a form of a do in a branch": (13, "(defn nap [ms]", "(Thread/sleep ms)", "nil", "(defn nap [ms]\n  nil)"),
    "a form of a do": (22, "(defn second-of [t]", "(quot t 1000)", "t", "(defn second-of [t]\n  t)"),
    "a spliced form": (26, "(defn b [] 2)]", "[] 2", "[] 3", "(defn b [] 3)"),
    "a spliced form behind the bracket": (25, "(defn a [] 1)", "[] 1", "[] 3", "(defn a [] 3)"),
    "the vector of a splicing branch": (25, "[(defn a [] 1)", "[(defn a [] 1)\n            (defn b [] 2)]", "[]", "[]"),
}


@pytest.mark.parametrize("name", REPLACED)
def test_a_form_is_replaced_and_indented_for_its_position(name):
    line, target, old, put, new = REPLACED[name]
    assert edited(CLOCK, Replace(at(line, target), new)) == swap(CLOCK, old, put)


def test_the_outermost_of_two_forms_starting_on_a_line_takes_precedence():
    assert edited(CLOCK, Replace(at(13, "#?(:clj (do (defn nap [ms]"), "1")).count("nap") == 0
    assert edited("(do (a)\n  (b))\n", Replace(at(1, "(do (a)"), "(c)")) == "(c)\n"
    assert edited("(do (a)\n  (b))\n", Replace(at(1, "(a)"), "(c)")) == "(do (c)\n  (b))\n"


def test_the_exact_line_takes_precedence_over_the_nearest_and_a_tie_is_refused():
    text = "#?(:clj\n   (a)\n   :cljs\n   (a)\n   :lpy\n   (b))\n"
    for line in (4, 5):
        assert edited(text, Replace(at(line, "(a)"), "(x)")) == swap(text, ":cljs\n   (a)", ":cljs\n   (x)")
    message = "the text is at line 2 and at line 4, equally near line 3"
    assert refused(text, Replace(at(3, "(a)"), "(x)")) == [message]


def test_an_insert_edit_adds_text_before_the_comments_attached_to_the_target():
    assert edited(CLOCK, Insert(at(17, "(defn hang []"), "(defn rest [] nil)")) == swap(
        CLOCK, ";; for ever", "(defn rest [] nil)\n\n            ;; for ever"
    )
    assert edited(CLOCK, Insert(at(29, "(def z 26))"), "(def y 25)")) == swap(CLOCK, "; last", "(def y 25)\n  ; last")


DELETED = {
    "of a do": ("(do\n  (a)\n\n  ; b\n  (b)\n\n  (c))\n", 7, "(c))", "(do\n  (a)\n\n  ; b\n  (b))\n"),
    "of a do, first": ("(do\n  (a)\n\n  ; b\n  (b))\n", 2, "(a)", "(do\n  ; b\n  (b))\n"),
    "of a do, the only one": ("(do\n  (a))\n", 2, "(a))", "(do)\n"),
    "of a do in a branch": ("#?(:clj (do (a)\n            (b)))\n", 2, "(b)))", "#?(:clj (do (a)))\n"),
    "spliced": ("(do #?@(:clj [(a)\n              (b)]))\n", 2, "(b)]))", "(do #?@(:clj [(a)]))\n"),
    "spliced, the only one": ("(do #?@(:clj [(a)]))\n", 1, "(a)]))", "(do #?@(:clj []))\n"),
}


@pytest.mark.parametrize("name", DELETED)
def test_deletion_affects_no_neighbour_and_leaves_no_gap(name):
    text, line, target, expected = DELETED[name]
    assert edited(text, Replace(at(line, target), "")) == expected


def test_moving_a_form_into_or_out_of_another_includes_its_comments():
    text = "(do\n  (a)\n  ; b\n  (b))\n\n(c)\n"
    assert edited(text, Move(at(4, "(b))"), at(6, "(c)"), "before")) == "(do\n  (a))\n\n; b\n(b)\n\n(c)\n"
    assert edited(text, Move(at(6, "(c)"), at(2, "(a)"), "before")) == "(do\n  (c)\n  (a)\n  ; b\n  (b))\n"


def test_the_only_form_of_a_reader_conditional_branch_cannot_be_removed():
    target = at(4, "(defn now []")
    message = (
        "the form at line 4 cannot be removed, because it is the only form in a branch of a reader conditional. "
        "Replace it with another form, or replace the whole conditional"
    )
    assert refused(CLOCK, Replace(target, "")) == [message]
    assert refused(CLOCK, Replace(target, "#_(gone)")) == [message]
    assert refused(CLOCK, Replace(target, "; gone")) == [message]
    assert refused(CLOCK, Move(target, at(1, "(ns clock)"), "after")) == [message]


def test_a_reader_conditional_branch_cannot_get_a_second_form():
    target = at(4, "(defn now []")
    assert refused(CLOCK, Replace(target, "(a)\n(b)")) == [
        "a branch of a reader conditional has one form, but the new text has 2. Put the forms in a (do …)"
    ]
    message = (
        "nothing can be inserted next to the form at line 4, because a branch of a reader conditional has only one "
        "form. Replace that form with a (do …) that contains both"
    )
    assert refused(CLOCK, Insert(target, "(a)")) == [message]
    assert refused(CLOCK, Move(at(1, "(ns clock)"), target, "before")) == [message]


def test_comments_and_discarded_forms_can_be_added_to_a_reader_conditional_branch():
    text = "#?(:clj (a) :cljs (b))\n"
    assert edited(text, Replace(at(1, "(a) :cljs (b))"), "#_(x) (y)")) == "#?(:clj #_(x) (y) :cljs (b))\n"
    assert edited(text, Replace(at(1, "(b))"), "(y) ; why")) == "#?(:clj (a) :cljs (y) ; why\n                  )\n"
    text = "#?(:clj\n   (a))\n"
    assert edited(text, Insert(at(2, "(a))"), "; why")) == "#?(:clj\n   ; why\n   (a))\n"
    assert edited("#?(:clj #_(a) (b))\n", Replace(at(1, "(b))"), "(c)")) == "#?(:clj #_(a) (c))\n"


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (2, "#_(gone) (x)"),
        (3, ":cljs (x)"),
        (5, "(inner)))"),
        (7, "(quoted))"),
    ],
)
def test_feature_keywords_discarded_branches_and_deeper_forms_cannot_be_edited(line, text):
    whole = "#?(:clj\n   #_(gone) (x)\n   :cljs (x)\n   :lpy (let [a 1]\n     (inner)))\n'(do (x)\n  (quoted))\n"
    assert isinstance(
        apply_edits(Document(whole), {0: Replace(at(line, text), "1")}, SearchLimits(padding=0)), RefusedEdits
    )


def test_a_reader_conditional_branch_without_a_form_cannot_be_edited():
    assert len(Document("#?(:clj (a) :cljs)").units) == 2
    assert len(Document("#?(:clj (a) :cljs ^:x)").units) == 1
    assert len(Document("#?(:clj").units) == 1
    assert len(Document("#?[:clj 1]").units) == 1


def nested(text):
    """Return real code nested within other forms: in a branch, in a do in a branch, spliced, and in a comment."""
    inner = reindent(text, "  ", "\n")
    branch = reindent(f"(do\n  {inner}\n  )", "   ", "\n")
    spliced = reindent(text, "            ", "\n")
    return f"#?(:clj\n   {branch}\n   :cljs nil)\n\n(do\n  {inner}\n  #?@(:clj [{spliced}\n            ]))\n"


@pytest.mark.slow
def test_every_form_can_be_replaced_by_itself_byte_for_byte(some_sources):
    count = 0
    for name, text in some_sources.items():
        for whole in (text, nested(text)) if len(text) < 20_000 else (text,):
            document = Document(whole)
            for unit in document.units:
                cut_out = whole[unit.start : unit.end]
                assert replace_unit(document, unit, cut_out).new == cut_out, (name, unit)
                if document.begins_line(unit):
                    assert replace_unit(document, unit, document.indentation(unit) + cut_out).new == cut_out, (
                        name,
                        unit,
                    )
                count += unit.is_nested
    assert count > rounds(1500, 300)


@pytest.mark.slow
def test_every_nested_form_can_be_edited_and_stays_in_its_brackets(sources):
    for name in ("clojure/zip.clj", "clojure/walk.clj", "clojure/set.clj"):
        text = sources[name]
        whole = nested(text)
        document = Document(whole)
        tops = len(Document(text).reading.forms)
        assert sum(unit.is_nested for unit in document.units) >= 3 * tops
        for unit in document.units:
            rest = document.line_text(unit.line)[unit.start - document.positions.line_start(unit.line) :]
            edit = {0: Replace(Target(unit.line, rest), "(x\n  y)")}
            result = apply_edits(document, edit, SearchLimits(padding=0))
            assert isinstance(result, EditedText), (name, unit)
            base = document.indentation(unit)
            assert result.text == f"{whole[: unit.start]}(x\n{base}  y){whole[unit.end :]}", (name, unit)
