"""Fuzzing targets for languages: EDN, Datalog, and Lisp with its corrections and edits."""

# ruff: noqa: PT017  # to be refused in good order is one of two good ends

import json
import math
import re
from collections import Counter
from typing import Any

from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from codriver.errors import RefusedError
from codriver.log.log_entries import UNASSIGNED_LINE, Entry
from codriver.log.output_log import OutputLog
from codriver_datalog import edn
from codriver_datalog.errors import QueryError
from codriver_lisp.edit import EditedText, apply_edits
from codriver_lisp.edit_targets import SearchLimits
from codriver_lisp.parinfer import balance_by_indentation, indent_mode
from codriver_lisp.reader import check_balance, read_forms, tokens, top_level_forms
from codriver_lisp.source_text import Document
from datalog import test_against_reference as against_reference
from fuzz.drawing import Chosen, text_of
from lisp.test_edit_laws import NEW, Batch, check_edited


def _written(form):
    """Return a form as EDN, spelled differently from the original."""
    value = form.value
    match form.tag:
        case "list" | "vector" | "set" | "map":
            opener = {"list": "(", "vector": "[", "set": "#{", "map": "{"}[form.tag]
            return opener + " ,\n".join(map(_written, value)) + edn.CLOSERS_BY_OPENER[opener]
        case "number" if isinstance(value, float) and not math.isfinite(value):
            return "##NaN" if math.isnan(value) else "##Inf" if value > 0 else "##-Inf"
        case "string":
            return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
        case "character":
            return f"\\u{ord(value):04x}" if ord(value) < 0x10000 else f"\\{value}"
        case "regex":
            return f'#"{value}"'
        case "nil" | "boolean":
            return {None: "nil", True: "true", False: "false"}[value]
    return str(value)


def _meaning(form):
    """Return a form without its position."""
    if form.tag in ("list", "vector", "set", "map"):
        return form.tag, tuple(map(_meaning, form.items))
    return form.tag, type(form.value), repr(form.value)  # by what is printed, because NaN is not equal to itself


def edn_reader(data):
    """Check that a form with a position keeps its meaning when it is written again, or is rejected with a position."""
    text = edn.Text(text_of(data))
    try:
        form = edn.read_form(text)
    except QueryError as error:
        count = text.text.count("\n") + 1
        assert 1 <= error.line <= count
        assert error.column >= 1
        assert str(error)
        return
    assert 0 <= form.start < form.end <= len(text.text)
    again = edn.Text(_written(form))
    if len(again.text) <= edn.MAX_TEXT_CHARACTERS:
        assert _meaning(edn.read_form(again)) == _meaning(form)
    assert _meaning(edn.read_form(edn.Text(text.text[form.start : form.end]))) == _meaning(form)
    pending = [form]
    while pending:
        whole = pending.pop()
        if whole.tag in ("list", "vector", "set", "map"):
            end = whole.start
            for part in whole.items:
                assert end < part.start + 1 <= part.end < whole.end
                end = part.end
            pending += whole.items


def _log():
    log = OutputLog()
    for number in range(1, 6):
        log.append(
            Entry(UNASSIGNED_LINE, "evaluatedCode", f"(+ {number} 1)", number, who="ann", evaluation=f"e{number}")
        )
        log.append(Entry(UNASSIGNED_LINE, "evaluationResults", str(number + 1), number))
    return log


LOG = _log()


def _turned(text):
    """Return the query with its clauses reversed, or None if it is invalid or may have several answers."""
    try:
        form = edn.read_form(edn.Text(text))
    except QueryError:
        return None
    places = [at for at, item in enumerate(form.items) if item.tag == "keyword"] if form.tag == "vector" else []
    names = [form.items[at].value for at in places]
    if names.count(":where") != 1 or any(item.is_symbol(".") for item in form.items):
        return None
    at = places[names.index(":where")]
    last = next((place for place in places if place > at), len(form.items))
    clauses = form.items[at + 1 : last]
    if not clauses:
        return None
    turned = " ".join(text[clause.start : clause.end] for clause in reversed(clauses))
    # A line end closes a comment between the clauses.
    return f"{text[: clauses[0].start]}{turned}\n{text[clauses[-1].end :]}"


def datalog(data):
    """Check that a query is answered as JSON within its limits, regardless of the order of its clauses, or rejected."""
    text = text_of(data)
    answers = []
    for query in (text, _turned(text)):
        if query is None:
            return
        try:
            answer = LOG.query(query, limit=50, time_limit_s=0.2)
        except RefusedError as error:
            assert str(error)
            assert error.hint
            return  # a clause can spare another what it would fail at
        assert answer.cut in (None, "rows", "time")
        if answer.cut is not None:
            return
        answers.append(answer.result)
    item, other = answers
    if isinstance(item, list):
        item, other = (sorted(map(json.dumps, rows)) for rows in answers)
    assert item == other, text


@hypothesis_settings(deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(
    against_reference.documents,
    against_reference.documents,
    against_reference.inputs,
    against_reference.wheres,
    st.data(),
)
def _compare(log, history, taken, where, data):
    compare: Any = against_reference.compare
    compare.hypothesis.inner_test(Counter(), log, history, taken, where, data)


def datalog_answers(data):
    """Check that a query returns the same rows as a slow and simple solver, for any log."""
    compare: Any = _compare
    compare.hypothesis.fuzz_one_input(data)


def lisp_reader(data):
    """Check that any text can be tokenized without loss, and that errors have positions.

    Forms are in order, and each reads the same on its own.
    """
    text = text_of(data)
    assert "".join(token[0] for token in tokens(text)) == text
    end = 0
    for span in top_level_forms(text):
        assert end <= span.start < span.end <= len(text)
        end = span.end
    found = check_balance(text)
    if found is not None:
        assert 1 <= found.line <= len(re.split(r"\r\n|\r|\n", text))
        assert found.column >= 1
        assert found.message
        return
    for form in read_forms(text).forms:
        alone = text[form.start : form.end]
        assert check_balance(alone) is None
        assert [(item.kind, item.start, item.end) for item in read_forms(alone).forms] == [(form.kind, 0, len(alone))]


BRACKETS = re.compile(r"[()\[\]{}\s,]")


def parinfer(data):
    """Check that correcting a text changes only brackets and spaces and is idempotent, or changes nothing."""
    text = text_of(data)
    found = indent_mode(text)
    if found.error is not None:
        assert found.text == text
    balanced = balance_by_indentation(text)
    assert balanced.changed == (balanced.text != text)
    if balanced.changed:
        assert check_balance(balanced.text) is None
        assert BRACKETS.sub("", balanced.text) == BRACKETS.sub("", text)
        assert balance_by_indentation(balanced.text).text == balanced.text


def edit(data):
    """Check that edits of a valid text change only the forms that they name, or are rejected with a message.

    The bytes are the text, a new form, and choices, separated by zero bytes.
    """
    # New text gets the file's line endings, even where a backslash makes one a character, which nobody writes.
    if re.search(rb"\r(?!\n)|\\[\r\n]", data):
        return
    text, _, rest = data.partition(b"\x00")
    new, _, choices = rest.partition(b"\x00")
    text, new = (
        found if check_balance(found) is None else balance_by_indentation(found).text
        for found in map(text_of, (text, new))
    )
    if check_balance(text) is not None:
        return
    document = Document(text)
    if not document.units:
        return
    given_new = [new] if new.strip(" \t\f\r\n,") and check_balance(new) is None else []
    batch = Batch(document, Chosen(choices), [*given_new, *NEW])
    result = apply_edits(document, batch.edits, SearchLimits(padding=0))
    if isinstance(result, EditedText):
        check_edited(batch, result)
    else:
        messages = {error.message for _, error in result.errors}
        assert messages == {"the new text would merge with the code next to it"}
        # Text between spaces cannot join with other text, unless it is a comment.
        beside = {text[at : at + 1] for unit in document.units for at in (max(0, unit.start - 1), unit.end)}
        comments = any(";" in item or "#!" in item for item in (text, *(new for *_, new in batch.spliced)))
        assert comments or any(item.strip(", \n") for item in beside), batch.edits
