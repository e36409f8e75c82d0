"""Verification and documents, with given answers instead of a fresh REPL."""

import ast
import json
from base64 import b64encode
from dataclasses import replace

import pytest

from codriver.core.images import replace_image_data
from codriver.features.export.documents import lisp_documents, python_documents
from codriver.features.export.documents.document_weakening import (
    DocumentFailsError,
    FailedTest,
    FormatUnknownError,
    check_document,
)
from codriver.features.export.documents.layout import Origin, arrange_steps
from codriver.features.export.documents.notebook_documents import render_notebook
from codriver.features.export.documents.recordings import RecordedEvaluation
from codriver.features.export.documents.step_verification import (
    RaisedError,
    StepResult,
    require_identical_images,
    verify_recorded,
)
from codriver.features.export.documents.steps import split_cell, split_python
from codriver_lisp import reader

ORIGIN = Origin("py", "python", "2026-01-02")


def verified(evaluations, answers, dialect="python", delivery="each"):
    """Verify evaluations with the answer of each step given in `answers` by its code; other code has no value."""
    asking, requested = verify_recorded(evaluations, dialect, delivery), []
    try:
        question = next(asking)
        while True:
            requested.append(question)
            question = asking.send(answers.get(question.code, StepResult()))
    except StopIteration as stop:
        return stop.value, requested


def notes(checked):
    return [(item.verdict, item.note) for item in checked]


def write_document(checked, answer, form="test", dialect="python"):
    asking, pages = check_document(checked, dialect, form, ORIGIN), []
    try:
        page = next(asking)
        while True:
            pages.append(page)
            page = asking.send(answer(page))
    except StopIteration as stop:
        return stop.value, pages


def line_of(page, text):
    return next(number for number, line in enumerate(page.lines, 1) if text in line)


def test_each_step_runs_once_in_its_original_namespace():
    _, requested = verified(
        [RecordedEvaluation("e-1", "x = 1\nx", namespace="shop", values=("1",))], {"x": StepResult("1")}
    )
    assert [item.namespace for item in requested] == ["shop"] * 3
    assert [item.code for item in requested] == ["'x' in globals()", "x = 1", "x"]


def test_definitions_loaded_by_an_edit_become_an_import():
    loaded = RecordedEvaluation(
        "e-1", "def price(n): ...", values=("<module 'shop' from '/w/shop.py'>",),
        description="edit_files loads shop.py, line 1",
    )  # fmt: skip
    checked, requested = verified([loaded], {})
    assert [item.code for item in requested] == ["import shop"]
    assert [(item.verdict, item.step.role) for item in checked] == [("ran", "import")]


def test_forms_loaded_by_an_edit_become_a_require():
    loaded = RecordedEvaluation(
        "e-1", "(defn price [n] n)", namespace="shop.core", values=("#'shop.core/price",),
        description="edit_files loads core.clj, line 4",
    )  # fmt: skip
    _, requested = verified([loaded], {}, "clojure")
    assert [item.code for item in requested] == ["(require 'shop.core)"]


def test_code_from_two_sessions_runs_in_the_namespace_of_its_own_session():
    moved = RecordedEvaluation("e-1", "(ns shop.high)\n(def x 1)", namespace="user", values=("nil", "#'shop.high/x"))
    other = RecordedEvaluation("e-2", "(+ 1 2)", namespace="user", values=("3",))
    checked, requested = verified([moved, other], {"(+ 1 2)": StepResult("3")}, "clojure")
    run = [(item.code, item.namespace) for item in requested if not item.code.startswith("(some?")]
    assert run == [("(ns shop.high)", "user"), ("(def x 1)", "shop.high"), ("(+ 1 2)", "user")]
    assert [item.of.namespace for item in checked] == ["user", "shop.high", "user"]


def test_an_equal_value_passes_and_a_different_one_is_noted_with_both():
    checked, _ = verified(
        [RecordedEvaluation("e-1", "a()\nb()", values=("1", "2"))], {"a()": StepResult("1"), "b()": StepResult("3")}
    )
    assert notes(checked) == [("same", ""), ("differs", "recorded: 2; in a fresh REPL: 3")]


def test_code_ending_in_a_statement_has_no_value_to_compare():
    checked, _ = verified([RecordedEvaluation("e-1", "a()\nx = 1")], {"a()": StepResult("1")})
    assert notes(checked) == [("ran", ""), ("ran", "")]
    checked, _ = verified([RecordedEvaluation("e-1", "x = 1\na()")], {"a()": StepResult("1")})
    assert notes(checked) == [("ran", ""), ("differs", "recorded: no value; in a fresh REPL: 1")]


def test_code_with_a_redacted_secret_is_marked_and_not_run():
    checked, requested = verified([RecordedEvaluation("e-1", "login('<<redacted:API_KEY>>')", values=("True",))], {})
    assert not requested
    assert checked[0].verdict == "absent"
    assert "<<redacted:API_KEY>>" in checked[0].note


def test_a_value_with_a_redacted_secret_is_not_asserted():
    checked, _ = verified(
        [RecordedEvaluation("e-1", "f()", values=("'<<redacted:API_KEY>>'",))], {"f()": StepResult("'abc'")}
    )
    assert checked[0].verdict == "differs"


@pytest.mark.parametrize(
    ("recorded", "came"),
    [
        ({"values": ("'<<redacted:shop token>>'",)}, StepResult("'hunter2'")),
        ({"values": ("None",), "out": "<<redacted:shop token>>\n"}, StepResult("None", out="hunter2\n")),
        ({"err": "ValueError: <<redacted:shop token>>\n"}, StepResult(raised=RaisedError("ValueError", "hunter2"))),
        ({"err": "ValueError: <<redacted:shop token>>\n"}, StepResult("'hunter2'")),
        ({"values": ("'<<redacted:shop token>>'",)}, StepResult(raised=RaisedError("KeyError", "hunter2"))),
    ],
)
def test_a_fresh_value_is_never_included_if_the_recorded_value_has_a_redacted_secret(recorded, came):
    checked, _ = verified([RecordedEvaluation("e-1", "f()", **recorded)], {"f()": came})
    assert "hunter2" not in repr([replace(item, of=None) for item in checked])
    assert "<<redacted:shop token>>" in checked[0].note


def test_a_reproduced_error_is_expected_but_a_typo_is_omitted():
    evaluations = [RecordedEvaluation("e-1", "1/0\nx = 1", err="ZeroDivisionError: division by zero\n"),
                   RecordedEvaluation("e-2", "nope", err="NameError: name 'nope' is not defined\n")]  # fmt: skip
    answers = {
        "1/0": StepResult(raised=RaisedError("ZeroDivisionError", "division by zero")),
        "nope": StepResult(raised=RaisedError("NameError", "name 'nope' is not defined")),
    }
    checked, requested = verified(evaluations, answers)
    assert [item.verdict for item in checked] == ["raises", "absent"]
    assert checked[1].is_typo
    assert "x = 1" not in [item.code for item in requested], "what stood behind the failure did not run then either"


def test_redefinitions_of_another_module_are_left_out_of_a_test_file():
    evaluation = RecordedEvaluation(
        "e-1", "def price(n):\n    return 4\nprice(1)\nother(2)", namespace="shop", values=("4", "2")
    )
    answers = {"'price' in globals()": StepResult("True"), "price(1)": StepResult("4"), "other(2)": StepResult("2")}
    checked, _ = verified([evaluation], answers)
    assert [item.is_patch for item in checked] == [True, False, False]
    document, _ = write_document(checked, lambda _page: ())
    tests, _, left_out = document.text.partition("# Left out:")
    assert "from shop import other, price" in tests
    assert "def price" not in tests
    assert "the code redefines names in shop" in left_out


def test_a_session_may_redefine_its_own_names():
    evaluations = [
        RecordedEvaluation(f"e-{number}", "(defn f [])", namespace="mine", values=("#'mine/f",)) for number in (1, 2)
    ]
    checked, requested = verified(evaluations, {"(defn f [])": StepResult("#'mine/f")}, "clojure")
    assert [item.is_patch for item in checked] == [False, False]
    assert [item.code for item in requested] == ["(some? (resolve 'mine/f))", "(defn f [])", "(defn f [])"]


def test_an_interrupted_evaluation_is_run_briefly_and_omitted():
    evaluation = RecordedEvaluation("e-1", "n = 1\nspin()", ending="evaluation e-1 of me: the code was interrupted")
    checked, requested = verified(
        [evaluation], {"spin()": StepResult(raised=RaisedError("Endless", "the code had not finished"))}
    )
    assert all(item.is_short for item in requested)
    assert [(item.verdict, item.is_typo) for item in checked] == [("ran", False), ("absent", True)]


@pytest.mark.parametrize(
    ("err", "values", "answer"),
    [
        ("", ("1",), StepResult(raised=RaisedError("ValueError", "no"))),
        ("ValueError: no\n", (), StepResult("1")),
        ("ValueError: no\n", (), StepResult(raised=RaisedError("ValueError", "something else"))),
    ],
)
def test_a_step_whose_failure_is_missing_or_different_is_marked(err, values, answer):
    checked, _ = verified([RecordedEvaluation("e-1", "f()", values=values, err=err)], {"f()": answer})
    assert not checked[0].reproduces
    assert "recorded:" in checked[0].note


def test_a_step_with_different_output_does_not_count_as_reproduced():
    evaluation = RecordedEvaluation("e-1", "f()", values=("1",), out="hello\n")
    checked, _ = verified([evaluation], {"f()": StepResult("1", "hello\n")})
    assert (checked[0].verdict, checked[0].out) == ("same", "hello\n")
    checked, _ = verified([evaluation], {"f()": StepResult("1", "goodbye\n")})
    assert notes(checked) == [("differs", "printed, recorded: hello; in a fresh REPL: goodbye")]


def test_steps_that_share_state_become_one_test_and_others_separate_tests():
    codes = ["import random", "def f(x):\n    return x", "xs = []", "f(1)", "xs.append(2)", "random.seed(1)", "xs",
             "random.random()", "f(2)"]  # fmt: skip
    given = {"f(1)": "1", "xs.append(2)": "None", "random.seed(1)": "None", "xs": "[2]", "random.random()": "0.1", "f(2)": "2"}  # fmt: skip  # noqa: E501
    evaluations = [RecordedEvaluation(f"e-{number}", code, values=(given[code],) if code in given else ())
                   for number, code in enumerate(codes)]  # fmt: skip
    checked, _ = verified(evaluations, {code: StepResult(value) for code, value in given.items()})
    layout = arrange_steps(checked, "python")
    assert [item.step.text for item in layout.above] == codes[:2]
    assert [[item.step.text for item in test] for test in layout.tests] == [
        ["xs = []", "xs.append(2)", "xs"], ["f(1)"], ["random.seed(1)", "random.random()"], ["f(2)"],
    ]  # fmt: skip


def test_a_multi_line_string_keeps_its_lines_when_indented():
    code, value = "s = ['''a\n  b\n''']", "['a\\n  b\\n']"
    checked, _ = verified([RecordedEvaluation("e-1", f"{code}\ns", values=(value,))], {"s": StepResult(value)})
    document, _ = write_document(checked, lambda _page: ())
    assert "    s = ['''a\n  b\n''']\n    assert s == ['a\\n  b\\n']\n" in document.text


def test_tests_that_fail_separately_are_merged_into_one_test():
    evaluations = [RecordedEvaluation("e-1", "a()", values=("1",)), RecordedEvaluation("e-2", "b()", values=("2",))]
    checked, _ = verified(evaluations, {"a()": StepResult("1"), "b()": StepResult("2")})

    def answer(page):
        return (
            (FailedTest("test_2", (line_of(page, "b()"),), "AssertionError"),)
            if page.text.count("def test_") > 1
            else ()
        )

    document, pages = write_document(checked, answer)
    assert len(pages) == 2
    assert document.text.count("def test_") == 1
    assert all(item.reproduces for item in document.checked)


def test_an_assertion_that_fails_in_the_exported_file_is_dropped_with_a_note():
    checked, _ = verified(
        [RecordedEvaluation("e-1", "a()\nb()", values=("1", "2"))], {"a()": StepResult("1"), "b()": StepResult("2")}
    )

    def answer(page):
        failing = [number for number, line in enumerate(page.lines, 1) if "assert b()" in line]
        return tuple(FailedTest("test_1", (number,), "AssertionError: 3") for number in failing)

    document, _ = write_document(checked, answer)
    assert "assert a() == 1" in document.text
    assert "assert b()" not in document.text
    assert "fails when it runs in a separate file: AssertionError: 3" in document.text


def test_a_document_that_never_passes_is_not_written():
    checked, _ = verified([RecordedEvaluation("e-1", "a()", values=("1",))], {"a()": StepResult("1")})
    with pytest.raises(DocumentFailsError):
        write_document(checked, lambda _page: (FailedTest("", (), "SyntaxError"),))


def test_an_export_format_that_a_dialect_does_not_support_is_refused_with_advice():
    for form, dialect in (("notebook", "clojure"), ("test", "hy")):
        with pytest.raises(FormatUnknownError, match=r"choose --format recording$"):
            write_document((), lambda _page: (), form, dialect)
    for form in ("test", "notebook"):
        with pytest.raises(FormatUnknownError, match=r"choose --format recording$"):
            write_document((), lambda _page: (), form, "unknown")


def test_a_notebook_follows_its_declared_format():
    evaluations = [RecordedEvaluation("e-1", "print(1)\n2", values=("None", "2"), out="1\n", description="two steps"),
                   RecordedEvaluation("e-2", "1/0", err="ZeroDivisionError: division by zero")]  # fmt: skip
    answers = {
        "print(1)": StepResult("None", "1\n"),
        "2": StepResult("2"),
        "1/0": StepResult(raised=RaisedError("ZeroDivisionError", "division by zero")),
    }
    checked, _ = verified(evaluations, answers)
    book = json.loads(render_notebook(checked, ORIGIN))
    assert (book["nbformat"], book["nbformat_minor"]) == (4, 5)
    assert [cell["cell_type"] for cell in book["cells"]] == ["markdown", "markdown", "code", "code"]
    assert len({cell["id"] for cell in book["cells"]}) == 4
    code = book["cells"][2]
    assert "".join(code["source"]) == "print(1)\n2"
    assert [output["output_type"] for output in code["outputs"]] == ["stream", "execute_result"]
    assert book["cells"][3]["outputs"][0]["ename"] == "ZeroDivisionError"


@pytest.mark.parametrize("separator", ["\n", "\r", "\x0c", "\u2028"])
@pytest.mark.parametrize("dialect", ["python", "clojure"])
def test_values_and_errors_add_no_code_to_a_document(dialect, separator):
    words = f"no{separator}(harm){separator}"
    evaluations = [
        RecordedEvaluation("e-1", "(f)", err=f"Error: {words}"),
        RecordedEvaluation("e-2", "(g)", values=(words,)),
        RecordedEvaluation("e-3", "(h)", values=("1",)),
    ]
    raised = StepResult(raised=RaisedError("Error", words))
    checked, _ = verified(evaluations, {"(f)": raised, "(g)": StepResult(words), "(h)": raised}, dialect)
    layout = arrange_steps(checked, dialect)
    if dialect == "python":
        text = python_documents.render_pytest_file(layout, checked, ORIGIN).text
        names = {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}
    else:
        text = lisp_documents.render_test_file(layout, checked, ORIGIN, dialect).text
        names, forms = set(), list(reader.read_forms(text).forms)
        while forms:
            form = forms.pop()
            forms += form.children
            names.add(text[form.start : form.end])
    assert text.count("harm") >= 2
    assert {"f", "g"} <= names
    assert not names & {"harm", "(harm)"}


def test_comments_are_not_steps_and_line_endings_are_those_of_python():
    assert verified([RecordedEvaluation("e-1", "# nothing\n")], {}) == ((), [])
    steps = split_python("'a\u2028b\x0cc'\r\n'''a\rb'''\rx")
    assert [step.text for step in steps] == ["'a\u2028b\x0cc'", "'''a\nb'''", "x"]


def test_a_lisp_namespace_has_all_its_requires_in_one_clause():
    evaluations = [RecordedEvaluation("e-1", "(ns shop (:require [clojure.set :as set]) (:import [java.util Date]))"),
                   RecordedEvaluation("e-2", "(set/union #{1} #{2})", namespace="shop", values=("#{1 2}",)),
                   RecordedEvaluation("e-3", "(price 1)", namespace="other.core", values=("3",))]  # fmt: skip
    answers = {"(set/union #{1} #{2})": StepResult("#{2 1}"), "(price 1)": StepResult("3")}
    checked, _ = verified(evaluations, answers, "clojure")
    text = lisp_documents.render_test_file(arrange_steps(checked, "clojure"), checked, ORIGIN, "clojure").text
    assert text.count(":require ") == 1
    for part in (
        "[clojure.test :refer [deftest is]]",
        "[clojure.set :as set]",
        "[other.core :refer :all]",
        "(:import ",
    ):
        assert part in text
    assert "(is (= '#{2 1} (set/union #{1} #{2})))" in text


def test_names_used_and_defined_by_python_steps_are_found():
    (step,) = split_python("def f(a, b=DEFAULT):\n    c = a\n    return [g(x) for x in c]")
    assert step.gives == {"f"}
    assert step.uses == {"DEFAULT", "g"}
    assert step.needs == {"DEFAULT"}


def png(*, width=640, height=480, more=b""):
    """Return the data of an image, of which only the header matters."""
    size = width.to_bytes(4, "big") + height.to_bytes(4, "big")
    return b64encode(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + size + more).decode()


def figure(**picture):
    return f"<Figure> data:image/png;base64,{png(**picture)}"


@pytest.mark.parametrize(
    ("fresh", "verdict", "note", "strict"),
    [
        (figure(), "same", "", "same"),
        (figure(more=b"x"), "same", "the image differs (image/png 640x480, 1 KB; in a fresh REPL", "differs"),
        (figure(width=320), "differs", "recorded: <Figure> <<image/png 640x480", "differs"),
        ("<Figure>", "differs", "in a fresh REPL: <Figure>", "differs"),
        (f"<Table> data:image/png;base64,{png()}", "differs", "recorded: <Figure>", "differs"),
    ],
)
def test_images_are_equal_by_digest_or_similar_by_type_and_size(fresh, verdict, note, strict):
    for recorded in (figure(), replace_image_data(figure())):
        checked, _ = verified([RecordedEvaluation("e-1", "plot()", values=(recorded,))], {"plot()": StepResult(fresh)})
        assert checked[0].verdict == verdict
        assert checked[0].note.startswith(note) if verdict == "same" else note in checked[0].note
        assert "base64" not in checked[0].note
        assert require_identical_images(checked[0]).verdict == strict


def test_an_image_without_a_text_value_is_compared_as_an_image_only():
    recorded = f"data:image/png;base64,{png()}"
    checked, _ = verified([RecordedEvaluation("e-1", "plot()", values=(recorded,))], {"plot()": StepResult(figure())})
    assert notes(checked) == [("same", "")]


def test_images_displayed_between_values_are_matched_across_steps():
    code = "draw()\ntitle()\nx = 1\nshow()\nlen('')"
    recorded = ("'drawn'", "'title'", figure(more=b"2"), "None", "0")
    answers = {
        "draw()": StepResult("'drawn'", displays=(figure(more=b"1"),)),
        "title()": StepResult("'title'", displays=(figure(more=b"2"),)),
        "x = 1": StepResult(figure(more=b"3")),
        "show()": StepResult("None"),
        "len('')": StepResult("0"),
    }
    checked, _ = verified([RecordedEvaluation("e-1", code, values=recorded)], answers)
    assert notes(checked) == [("same", ""), ("same", ""), ("ran", ""), ("same", ""), ("same", "")]
    assert [item.images for item in checked] == [(), (figure(more=b"2"),), (), (), ()], "the others came on the way"


def test_a_figure_returned_as_a_value_is_distinguished_from_figures_displayed_earlier():
    recorded = (figure(more=b"shown"), figure(more=b"value"))
    answers = {"draw()\nf": StepResult(), "draw()": StepResult("1", displays=(figure(more=b"shown"),))}
    answers["f"] = StepResult(figure(more=b"value"))
    checked, _ = verified(
        [RecordedEvaluation("e-1", "x = draw()\nf", values=recorded)], {**answers, "x = draw()": answers["draw()"]}
    )
    assert notes(checked) == [("ran", ""), ("same", "")]
    assert checked[1].drawn == figure(more=b"value")


@pytest.mark.parametrize(
    ("displays", "verdict", "note"),
    [
        ((figure(more=b"x"),), "ran", "the image differs"),
        ((figure(height=1),), "differs", "recorded: image/png 640x480, 1 KB; in a fresh REPL: no such image"),
        ((), "differs", "no such image"),
    ],
)
def test_a_different_image_is_noted_at_the_step_that_displayed_it(displays, verdict, note):
    evaluation = RecordedEvaluation("e-1", "x = draw()", values=(figure(),))
    checked, _ = verified([evaluation], {"x = draw()": StepResult(displays=displays)})
    assert checked[0].verdict == verdict
    assert note in checked[0].note
    assert require_identical_images(checked[0]).verdict == "differs"


def test_images_displayed_before_a_repeated_failure_are_matched_to_the_preceding_step():
    evaluation = RecordedEvaluation(
        "e-1", "draw(); 1/0", values=("1", figure()), err="ZeroDivisionError: division by zero"
    )
    answers = {"draw()": StepResult("1", displays=(figure(),))}
    answers["1/0"] = StepResult(raised=RaisedError("ZeroDivisionError", "division by zero"))
    checked, _ = verified([evaluation], answers)
    assert notes(checked) == [("same", ""), ("raises", "")]


def test_a_notebook_contains_images_and_a_test_describes_them():
    evaluations = [RecordedEvaluation("e-1", "draw()", values=(figure(more=b"1"), "'drawn'")),
                   RecordedEvaluation("e-2", "plot()", values=(figure(),))]  # fmt: skip
    answers = {"draw()": StepResult("'drawn'", displays=(figure(more=b"1"),)), "plot()": StepResult(figure())}
    checked, _ = verified(evaluations, answers)
    first, second = [cell["outputs"] for cell in json.loads(render_notebook(checked, ORIGIN))["cells"][1:]]
    assert [item["output_type"] for item in first] == ["display_data", "execute_result"]
    assert first[0]["data"] == {"image/png": png(more=b"1"), "text/plain": ["<Figure>"]}
    assert second[0]["data"] == {"image/png": png(), "text/plain": ["<Figure>"]}
    document, _ = write_document(checked, lambda _page: ())
    assert "base64" not in document.text
    assert (
        "    assert draw() == 'drawn'\n    # displays an image, which is left out: image/png 640x480, 1 KB\n"
        in document.text
    )
    assert "    plot()\n    # displays an image, which is left out: image/png 640x480, 1 KB\n" in document.text


@pytest.mark.parametrize("fresh", ["123", "456", "111"])
def test_a_notebook_keeps_every_matching_or_duplicate_image(fresh):
    evaluation = RecordedEvaluation("e-1", "x = draw()", values=tuple(figure(more=item.encode()) for item in "123"))
    displays = tuple(figure(more=item.encode()) for item in fresh)
    checked, _ = verified([evaluation], {"x = draw()": StepResult(displays=displays)})
    assert checked[0].images == displays
    assert checked[0].note.count("the image differs") == {"123": 0, "456": 3, "111": 2}[fresh]
    (cell,) = json.loads(render_notebook(checked, ORIGIN))["cells"][-1:]
    assert [item["data"]["image/png"] for item in cell["outputs"]] == [png(more=item.encode()) for item in fresh]


def test_a_notebook_keeps_all_images_of_a_value_and_of_a_failed_step():
    pair = f"{figure()} {figure(more=b'2')}"
    evaluations = [RecordedEvaluation("e-1", "pair()", values=(pair,)),
                   RecordedEvaluation("e-2", "show()", values=(figure(),), err="ValueError: no")]  # fmt: skip
    answers = {"pair()": StepResult(pair), "show()": StepResult(figure(), raised=RaisedError("ValueError", "no"))}
    cells = json.loads(render_notebook(verified(evaluations, answers)[0], ORIGIN))["cells"][1:]
    kinds = [[(item["output_type"], "image/png" in item.get("data", ())) for item in cell["outputs"]] for cell in cells]
    assert kinds == [[("display_data", True), ("execute_result", True)], [("display_data", True), ("error", False)]]


def result(text):
    return {"output_type": "execute_result", "data": {"text/plain": text}, "metadata": {}, "execution_count": 1}


MARK = "<<image/png 640x480, 1 KB, sha256:0123456789abcdef>>"
CELL = RecordedEvaluation("e-1", "%matplotlib inline\nx = 2\nprint(x)\nx", values=(MARK, "2"), out="2\n")
FAILED = replace(CELL, values=(), out="", err="Traceback (most recent call last):\nValueError: no")


@pytest.mark.parametrize(
    ("evaluation", "answer", "verdicts", "note"),
    [
        (CELL,
         StepResult("2", "2\n", displays=(figure(),), cell=({"output_type": "display_data", "data": {}}, result("2"))),
         ["ran", "ran", "ran", "same"], "the image differs"),
        (CELL, StepResult("2", "2\n", displays=(figure(),)), ["ran", "ran", "ran", "ran"], "the image differs"),
        (CELL, StepResult("2", "2\n"), ["ran", "ran", "ran", "differs"], "recorded: 2; in a fresh REPL: no such value"),
        (CELL, StepResult("3", "2\n", displays=(figure(),)), ["ran"] * 3 + ["differs"],
         "recorded: 2; in a fresh REPL: 3"),
        (FAILED, StepResult(raised=RaisedError("ValueError", "no"), line=2), ["ran", "raises"], ""),
        (FAILED, StepResult(), ["ran", "ran", "ran", "differs"],
         "recorded: ValueError: no; in a fresh REPL: no failure"),
        (FAILED, StepResult(err=FAILED.err), ["ran", "ran", "ran", "ran"], ""),
    ],
)  # fmt: skip
def test_a_kernel_cell_is_compared_by_everything_it_displayed(evaluation, answer, verdicts, note):
    checked, requested = verified([evaluation], {evaluation.code: answer}, delivery="whole")
    assert [item.code for item in requested] == [evaluation.code]
    assert [item.verdict for item in checked] == verdicts
    assert note in checked[-1].note
    assert note or not checked[-1].note


@pytest.mark.parametrize(
    ("code", "steps"),
    [
        ("x = 1\n!ls -l\n# of y\ny = 2", ["x = 1", "!ls -l", "# of y\ny = 2"]),
        ("%%bash\necho $x", ["%%bash\necho $x"]),
        ("x = !ls\nx", ["x = !ls\nx"]),
        ('text = """\n%no magic\n"""', ['text = """\n%no magic\n"""']),
        ("# nothing", []),
    ],
)
def test_magic_lines_are_steps_that_are_written_only_to_a_notebook(code, steps):
    found = split_cell(code)
    assert [item.text for item in found] == steps
    checked, _ = verified([RecordedEvaluation("e-1", code)], {}, delivery="whole")
    magic = {line for item in found if item.role == "magic" for line in item.text.splitlines()}
    assert all(json.dumps(line)[1:-1] in render_notebook(checked, ORIGIN) for line in magic)
    document, _ = write_document(checked, lambda _page: ())
    assert not set(document.text.splitlines()) & magic


@pytest.mark.parametrize(
    ("recorded_str", "verdict"), [("[Line2D(_child1)]", "varies"), ("[Line2D(_child9)]", "differs"), (None, "differs")]
)
def test_a_value_recorded_by_its_str_is_also_compared_by_its_str(recorded_str, verdict):
    evaluation = RecordedEvaluation("e-1", "plot()", values=("[Line2D(_child1)]",))
    answers = {"plot()": StepResult("[<lines.Line2D object at 0x7fbe91bebb90>]"), "_": StepResult(recorded_str)}
    (checked,), requested = verified([evaluation], answers)
    assert checked.verdict == verdict
    assert [request.prints_for_agents for request in requested] == [False, True]
