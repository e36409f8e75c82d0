"""Validation of new text before a place is made for it: balanced, not blank, one form in a branch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codriver.lisp.balance import balance
from codriver.lisp.reader import check, read
from codriver.lisp.splices import is_blank
from codriver.lisp.targeting import Problem, ProblemError

if TYPE_CHECKING:
    from codriver.lisp.editable_forms import Unit


def check_new(text: str) -> None:
    """Check text that is to come into a file as code that is to be evaluated is checked.

    Raises:
        ProblemError: it does not balance; the problem holds the balanced text, if indentation gives one.
    """
    unbalanced = check(text)
    if unbalanced is None:
        return
    proposal = balance(text)
    words = f"the new text does not balance, counting lines within it: {unbalanced.message}"
    raise ProblemError(Problem(words, balanced_text=proposal.text if proposal.changed else None))


def check_not_blank(text: str) -> None:
    """Check text that is to stand beside other forms.

    Raises:
        ProblemError: it does not balance, or there is nothing in it.
    """
    check_new(text)
    if is_blank(text):
        raise ProblemError(Problem("the new text is blank: there is nothing to put in"))


def check_stays(unit: Unit, new: str) -> None:
    """Check that `new`, in the place of a branch's form, leaves the branch with one form.

    Raises:
        ProblemError: it would not.
    """
    count = _count_forms(new)
    if not unit.is_branch or count == 1:
        return
    if count == 0:
        words = f"the form at line {unit.line} cannot go: it is the only one of its branch of a reader conditional; "
        words += "put another in its place, or replace the whole conditional"
    else:
        words = f"a branch of a reader conditional has one form, and the new text has {count}: put them in a (do …)"
    raise ProblemError(Problem(words))


def check_beside(unit: Unit, new: str) -> None:
    """Check that `new`, beside the unit, gives no branch a second form.

    Raises:
        ProblemError: it would.
    """
    if unit.is_branch and _count_forms(new):
        words = f"nothing can stand beside the form at line {unit.line}, as a branch of a reader conditional has one "
        words += "form: replace it by a (do …) that holds both"
        raise ProblemError(Problem(words))


def _count_forms(text: str) -> int:
    """How many forms of `text` a reader would give."""
    return sum(form.kind != "discard" for form in read(text).forms)
