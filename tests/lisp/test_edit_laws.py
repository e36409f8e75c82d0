"""Laws of every edit of any text: all forms outside of it are read as before, and everything else is as requested."""

import random

import pytest
from alike import rounds
from hypothesis import given, settings
from hypothesis import strategies as st

from codriver_lisp.edit import Append, EditedText, Insert, Move, RefusedEdits, Replace, apply_edits
from codriver_lisp.edit_targets import SearchLimits, Target, find_target
from codriver_lisp.reader import check_balance, read_forms, tokens, top_level_forms
from codriver_lisp.source_text import Document

NEW = [
    "(new [x]\n  (f x))",
    "x",
    '"a\n b"',
    "; c",
    "(a) ; c",
    "#_(b)",
    "^:k [1]",
    "'q\n\n(r)",
    "",
    "\\x",
    "#(%)",
    "{:a 1}",
]


def trees(text, forms, replaced=None, before=None, after=None, names=None):
    """Return the forms as nested tuples, with those at the given spans replaced, or with others before and after
    them.
    """
    found = []
    for form in forms:
        span = form.start, form.end
        found += (before or {}).get(span, [])
        if replaced and span in replaced:
            found += replaced[span]
        elif form.kind in ("atom", "string", "character"):
            word = text[form.start : form.end]
            found.append((form.kind, (names or {}).get(word, word).replace("\r\n", "\n")))
        else:
            head = next(tokens(text, form.start))[0]
            children = trees(text, form.children, replaced, before, after, names)
            found.append((form.kind, head, tuple(children)))
        found += (after or {}).get(span, [])
    return found


def tree_of(text):
    return trees(text, read_forms(text).forms)


def token_texts(text):
    found = [token for token in tokens(text) if token.lastgroup != "space"]
    return [(token[0].rstrip() if token.lastgroup == "comment" else token[0]).replace("\r\n", "\n") for token in found]


def target_of(document, unit):
    """Return a target that names the unit, or None if its line contains another like it."""
    rest = document.line_text(unit.line)[unit.start - document.positions.line_start(unit.line) :]
    target = Target(unit.line, rest)
    result = apply_edits(document, {0: Replace(target, "x")}, SearchLimits(padding=0))
    return None if isinstance(result, RefusedEdits) else target


def disjoint(units, unit):
    return all(unit.end <= other.start or other.end <= unit.start for other in units)


def subtree(document, unit):
    """Return the tree of one unit."""
    pending = list(document.reading.forms)
    while pending:
        form = pending.pop()
        if (form.start, form.end) == (unit.start, unit.end):
            return trees(document.text, [form])
        if form.start <= unit.start and unit.end <= form.end:
            pending += form.children
    raise AssertionError("there is no such form")


class Batch:
    """A random batch of edits of units that do not overlap, and its expected result."""

    def __init__(self, document, seeded, new=NEW):
        self.document = document
        self.seeded = seeded
        self.new = new
        self.edits = {}
        self.trees = {"replaced": {}, "before": {}, "after": {}}
        self.spliced = []  # where each new text goes, from the end of the text before it to the beginning behind
        self.appended = []
        self.has_moves = False
        units = []
        for unit in seeded.sample(document.units, min(len(document.units), seeded.randint(1, 5))):
            target = target_of(document, unit)
            if target is not None and disjoint([other for other, _ in units], unit):
                units.append((unit, target))
        while units:
            self.add(*units.pop(), units)
        if seeded.random() < 0.2:
            self.appended.append(seeded.choice([new for new in NEW if new]))
            self.edits[len(self.edits)] = Append(self.appended[0])

    def add(self, unit, target, units):
        span = unit.start, unit.end
        role = self.seeded.choice(["replace", "replace", "insert", "move"])
        new = self.seeded.choice(self.new)
        if unit.is_branch:  # which keeps one form
            role = "replace"
            new = self.seeded.choice([new for new in self.new if len(top_level_forms(new)) == 1])
        others = [number for number, (other, _) in enumerate(units) if not other.is_branch]
        if role == "move" and others:
            to, beside = units.pop(others[-1])
            side = self.seeded.choice(["before", "after"])
            self.put(Move(target, beside, side))
            self.trees["replaced"][span] = []
            self.trees[side].setdefault((to.start, to.end), []).extend(subtree(self.document, unit))
            self.has_moves = True
        elif role == "insert" and new:
            self.put(Insert(target, new))
            self.trees["before"].setdefault(span, []).extend(tree_of(new))
            at = self.document.start_with_comments(unit)
            self.spliced.append((at, at, new))
        else:
            self.put(Replace(target, new))
            self.trees["replaced"][span] = tree_of(new)
            self.spliced.append((*span, new))

    def put(self, edit):
        self.edits[len(self.edits)] = edit

    def expected_trees(self):
        expected = trees(self.document.text, self.document.reading.forms, **self.trees)
        return expected + [tree for new in self.appended for tree in tree_of(new)]

    def expected_tokens(self):
        text = self.document.text
        expected, at = [], 0
        for start, end, new in sorted(self.spliced):
            expected += token_texts(text[at:start]) + token_texts(new)
            at = end
        return expected + token_texts(text[at:]) + [word for new in self.appended for word in token_texts(new)]


def check_batch(document, seeded):
    """Apply one random batch to the document, check the result, and return the number of edits."""
    batch = Batch(document, seeded)
    result = apply_edits(document, batch.edits, SearchLimits(padding=0))
    assert isinstance(result, EditedText), (document.text, batch.edits, result)
    check_edited(batch, result)
    return len(batch.edits)


def check_edited(batch, result):
    """Compare the result of a batch with the expected one."""
    where = batch.document.text, batch.edits
    assert check_balance(result.text) is None, where
    assert tree_of(result.text) == batch.expected_trees(), where
    if batch.has_moves:
        assert sorted(token_texts(result.text)) == sorted(batch.expected_tokens()), where
    else:
        assert token_texts(result.text) == batch.expected_tokens(), where


@pytest.mark.slow
def test_thousands_of_random_edits_change_only_the_edited_forms_of_real_code(some_sources):
    seeded = random.Random(55)
    count = 0
    for text in some_sources.values():
        document = Document(text)
        # Each batch reads the whole text some ten times.
        for _ in range(max(2, min(28, 85_000 // len(text)))):
            count += check_batch(document, seeded)
    assert count > rounds(2000, 400)


def test_an_edit_changes_only_its_own_lines(sources):
    seeded = random.Random(56)
    for text in sources.values():
        document = Document(text)
        for unit in seeded.sample(document.units, min(3, len(document.units))):
            target = target_of(document, unit)
            if target is None:
                continue
            result = apply_edits(document, {0: Replace(target, "(x\n  y)")}, SearchLimits(padding=0))
            assert result.text.startswith(text[: unit.start])
            assert result.text.endswith(text[unit.end :])


@pytest.mark.slow
def test_moves_in_real_code_change_only_the_position_of_the_moved_forms(some_sources):
    seeded = random.Random(57)
    moves = 0
    for text in some_sources.values():
        document = Document(text)
        top = [unit for unit in document.units if not unit.is_nested]
        for _ in range(2):
            unit, to = seeded.choice(top), seeded.choice(top)
            target, beside = target_of(document, unit), target_of(document, to)
            if target is None or beside is None or unit is to:
                continue
            side = seeded.choice(["before", "after"])
            result = apply_edits(document, {0: Move(target, beside, side)}, SearchLimits(padding=0))
            [moved] = trees(text, [form for form in read_forms(text).forms if form.start == unit.start])
            put = {(to.start, to.end): [moved]}
            beside_it = {"before": put} if side == "before" else {"after": put}
            assert tree_of(result.text) == trees(
                text, document.reading.forms, replaced={(unit.start, unit.end): []}, **beside_it
            )
            assert sorted(token_texts(result.text)) == sorted(token_texts(text))
            moves += 1
    assert moves > rounds(100, 20)


PIECES = st.sampled_from(
    ["(", ")", "[", "]", "(comment ", "(do ", "#?(", "#?@(", ":clj ", "\n", "\n\n", "\r\n", "  ", " ", ",", "a", "b",
     ":k", '"s"', "; c\n", "#_", "'", "^", "\\(", "#[[", "]]"]
)  # fmt: skip


@pytest.mark.slow
@settings(max_examples=rounds(1500, 700))
@given(st.lists(PIECES, max_size=25).map("".join), st.integers(0, 2**32))
def test_any_batch_of_edits_changes_only_the_edited_forms_of_balanced_text(text, seed):
    if check_balance(text) is None:
        document = Document(text)
        if document.units:
            check_batch(document, random.Random(seed))


@settings(max_examples=rounds(500, 200))
@given(st.lists(PIECES, max_size=25).map("".join), st.integers(0, 2**32))
def test_unbalanced_text_can_be_edited_before_the_position_of_its_error_only(text, seed):
    document = Document(text)
    if document.reading.imbalance is None or not document.units:
        return
    unit = random.Random(seed).choice(document.units)
    target = target_of(document, unit)
    if target is not None:
        found = find_target(document, target, SearchLimits())
        result = apply_edits(document, {0: Replace(target, "(x)")})
        assert isinstance(result, EditedText)
        # A closer too many may have ended the form before it too early: another one begins before the fault.
        fault = document.reading.imbalance.at
        assert any(found.end <= form.start <= fault for form in document.reading.forms)
        assert token_texts(result.text) == [
            *token_texts(text[: found.start]),
            *token_texts("(x)"),
            *token_texts(text[found.end :]),
        ]
