"""Verify recorded evaluations step by step in a fresh REPL to find those with reproducible results.

`verify_recorded` is a generator that requests runs of steps and receives the results. The caller owns the REPL.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Final, Literal

from codriver.core.images import find_images, replace_image_data
from codriver.features.export.documents.comparison import match_images, match_value, pattern_for_text
from codriver.features.export.documents.steps import Step, declared_namespace, split_cell, split_lisp, split_python

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from codriver.core.images import ImageFacts
    from codriver.features.export.documents.recordings import RecordedEvaluation


Verdict = Literal["ran", "same", "varies", "raises", "differs", "absent"]
"""The result of a step. `ran` means there is no value to compare. `differs` means that the step ran with a different
result. `absent` means that the step cannot run.
"""

Delivery = Literal["each", "last", "whole"]
"""Which values of a document are compared.

`each`: the value of each step. `last`: the value and images of the last step of a cell that was recorded in a kernel,
if the fresh REPL is not a kernel. `whole`: all outputs of a cell.
"""

HIDDEN_PART_MARK: Final = re.compile(r"<<redacted:[^>]*>>|\.\.\. [\d,]+ of [\d,]+ characters are left out here \.\.\.")
"""Matches the markers that the log stores in place of a secret or the middle of a long text."""
SECRET_MARK: Final = re.compile(r"<<redacted:[^>]*>>")
"""Matches the marker that the log stores in place of a secret.

A string that is compared with the marker may be the secret, so it must not be displayed.
"""

_TYPO_ERRORS: Final = frozenset(
    {"NameError", "SyntaxError", "IndentationError", "TabError", "ModuleNotFoundError", "CompilerException"}
)
"""Python exceptions that are usually caused by a typing mistake."""
_TYPO_PHASES: Final = frozenset(
    {*("read", "read-source", "compile", "compilation"), *("compile-syntax-check", "macro-syntax-check")}
)
"""Phases of Clojure errors for code that cannot be read or compiled."""
_TYPO_MESSAGES: Final = ("Unable to resolve symbol", "Could not resolve symbol", "No such var", "No such namespace")
"""Prefixes of error messages about names that do not exist."""
_EDIT_LOAD_ENTRY: Final = re.compile(r"edit_files loads ")
"""Matches the log entry for an edit that loaded definitions from a file. The definitions follow."""
_NO_NAMESPACE_MESSAGE: Final = re.compile(r"\A(?:no module '[^']*' is imported|there is no namespace )")
"""Matches messages in which a REPL reports that it evaluated nothing because the namespace does not exist."""
_IN_NS_FORM: Final = re.compile(r"\(in-ns '([^\s()]+)\)")
"""Matches a form that switches to an existing namespace."""
ENDLESS_ERROR: Final = "Endless"
"""Name of the error class recorded for code that was interrupted because it took too long."""
REPL_DIED_ERROR: Final = "ReplDied"
"""Name of the error class recorded for code during which the REPL died, for example because of a segfault."""
_NAMESPACE_SWITCH: Final = re.compile(r"\((?:ns\s+(?:\^\S+\s+)*|in-ns\s+')([^\s()]+)")
"""Matches a form that changes the current namespace."""
_MAX_NOTE_CHARACTERS: Final = 400
"""Maximum length of each text in a note about a difference."""
TRACEBACK_START: Final = "Traceback (most recent call last):"
"""First line of a kernel's report of an exception."""
INLINE_MAGIC: Final = "%matplotlib"
"""The magic that determines how figures are displayed.

It is skipped because Codriver's REPLs can display them in only one way.
"""
NOT_PYTHON_NOTE: Final = "only IPython can parse this code"
"""Note about a step that plain Python cannot parse."""
_OBJECT_WITH_ADDRESS: Final = re.compile(r"<([\w.]+) at 0x")
"""Matches the start of a printed object that contains its address."""
CLOSE_FIGURES_CODE: Final = (
    "import sys; 'matplotlib.pyplot' in sys.modules and sys.modules['matplotlib.pyplot'].close('all')"
)
"""Code that closes all figures at the end of a cell, as a kernel does. The next cell then starts without figures."""


@dataclass(frozen=True, slots=True)
class StepRequest:
    """A request to run code in the fresh REPL in the same way as when it was recorded."""

    code: str
    namespace: str | None = None
    file: str | None = None
    is_short: bool = False
    """Whether to wait only briefly, because the code did not end on its own when it was recorded."""
    prints_for_agents: bool = False
    """Whether to print the value as for agents, with `str` for objects without their own `repr`."""
    is_partial: bool = False
    """Whether more code from the same evaluation follows. Figures are displayed at the end of the evaluation."""


@dataclass(frozen=True, slots=True)
class RaisedError:
    """An exception that a step raised.

    `type` is its class, qualified unless it is a built-in. `phase` is set for errors that occur before code runs, for
    example while it is being read.
    """

    type: str
    message: str = ""
    phase: str = ""

    @property
    def name(self) -> str:
        """Return the name of the exception's class without its module or package."""
        return self.type.rpartition(".")[2]

    def __str__(self) -> str:
        """Return the error as a REPL prints it."""
        return f"{self.name}: {self.message}" if self.message else self.name


@dataclass(frozen=True, slots=True)
class StepResult:
    """The result of running a step in the fresh REPL."""

    value: str | None = None
    out: str = ""
    raised: RaisedError | None = None
    displays: tuple[str, ...] = ()
    cell: tuple[Mapping[str, object], ...] = ()
    """The outputs of a kernel's cell, in the notebook format."""
    err: str = ""
    line: int = 0
    """The line at which the code failed, starting at 1; 0 if unknown."""


@dataclass(frozen=True, slots=True)
class CheckedStep:
    """A step, and the extent to which its result was reproduced in the fresh REPL."""

    step: Step
    of: RecordedEvaluation
    verdict: Verdict
    value: str | None = None
    """The value in the fresh REPL."""
    pattern: str = ""
    """A regular expression that matches both the fresh and the recorded value, or an empty string."""
    raised: RaisedError | None = None
    out: str = ""
    """The printed output."""
    note: str = ""
    """One line about a difference."""
    recorded: str | None = None
    """The recorded value, if it differs from the fresh one."""
    images: tuple[str, ...] = ()
    """The images displayed in addition to the step's value, with their data."""
    drawn: str = ""
    """The value with the data of its images; empty if it has none."""
    cell: tuple[Mapping[str, object], ...] | None = None
    """For the last step that ran in a kernel's cell, the cell's outputs in the notebook format; otherwise None."""
    is_alike: bool = False
    """Whether one of the step's images is similar but not identical to the recorded one."""
    is_typo: bool = False
    is_hidden: bool = False
    """Whether the log contains only part of the evaluated code."""
    is_patch: bool = False
    """Whether the step redefines a name in another module or namespace, which a test file cannot do."""

    @property
    def reproduces(self) -> bool:
        """Return whether the result was reproduced. This includes the failure of a mistyped step."""
        return self.verdict not in {"differs", "absent"} or self.is_typo

    def without_assertion(self, why: str) -> CheckedStep:
        """Return a copy without the assertion, which fails outside the session. `why` is the copy's note."""
        return replace(self, verdict="differs", pattern="", out="", raised=None, note=why)


Verifying = Generator[StepRequest, StepResult, tuple[CheckedStep, ...]]
"""A check of a document's steps. It yields requests to run steps, and returns the checked steps."""

DEFAULT_NAMESPACES: Final = frozenset({"", "user", "cljs.user", "__main__"})
"""Namespaces in which REPLs start. The empty name is for logs without namespaces."""


def split_steps(code: str, dialect: str, delivery: Delivery = "each") -> tuple[Step, ...]:
    """Split code into steps. Code that cannot be parsed becomes one step. Code with only comments has no steps."""
    if delivery != "each":
        return split_cell(code) if dialect == "python" else (Step(code, "expression"),) * bool(code.strip())
    steps = split_python(code) if dialect == "python" else split_lisp(code) or None
    if steps is not None:
        return steps
    return (Step(code.strip(), "expression"),) if code.strip() else ()


def verify_recorded(evaluations: Iterable[RecordedEvaluation], dialect: str, delivery: Delivery = "each") -> Verifying:
    """Run recorded evaluations again, and compare the results.

    This generator yields requests to run code, is sent the results, and returns the checked steps. With the delivery
    `whole`, it requests runs of whole cells instead of single steps.
    """
    checked: list[CheckedStep] = []
    defined: set[tuple[str, str]] = set()
    for evaluation in evaluations:
        steps = split_steps(evaluation.code, dialect, delivery)
        if reason := _reason_not_to_run(evaluation):
            is_hidden = HIDDEN_PART_MARK.search(evaluation.code) is not None
            checked += [
                CheckedStep(step, evaluation, "absent", note=reason, is_hidden=is_hidden, is_typo=not is_hidden)
                for step in steps
            ]
        elif evaluation.file or (_EDIT_LOAD_ENTRY.match(evaluation.description) and evaluation.values):
            checked.append((yield from _verify_load(evaluation)))
        elif delivery == "each":
            checked += yield from _verify(evaluation, steps, dialect, defined)
        elif steps:
            verify = _verify_cell if delivery == "whole" else _verify_last_value
            checked += yield from verify(evaluation, steps, dialect)
    return tuple(checked)


def _reason_not_to_run(evaluation: RecordedEvaluation) -> str:
    """Return the reason why an evaluation cannot be run again, or an empty string."""
    if hidden := HIDDEN_PART_MARK.search(evaluation.code):
        return f"the log contains {hidden[0]} instead of part of the code, so the code cannot run again"
    if not evaluation.values and _NO_NAMESPACE_MESSAGE.search(evaluation.err):
        return f"the code was not evaluated: {_last_line(evaluation.err)}"
    return ""


def _verify(
    evaluation: RecordedEvaluation, steps: Sequence[Step], dialect: str, defined: set[tuple[str, str]]
) -> Generator[StepRequest, StepResult, list[CheckedStep]]:
    """Verify an evaluation step by step. Add the names that it defines to `defined`, each with its namespace."""
    is_at_home = evaluation.namespace in DEFAULT_NAMESPACES
    # Sessions may alternate in a recording, and each may have switched to another namespace.
    namespace = None if is_at_home and not (dialect == "clojure" and evaluation.namespace) else evaluation.namespace
    values, skipped_images = list(evaluation.values), list[str]()
    checked: list[CheckedStep] = []
    has_values = _has_values(evaluation, steps, dialect)
    for step in steps:
        if dialect != "python" and (entered := _IN_NS_FORM.match(step.text)):
            yield StepRequest(f"(require '{entered[1]})")  # the namespace may have been loaded before it was entered
        is_apart = evaluation.namespace not in DEFAULT_NAMESPACES
        is_patch = is_apart and (yield from _is_patch(step, namespace, dialect, defined))
        defined |= set() if is_patch else {(evaluation.namespace, name) for name in step.gives}
        is_short, is_partial = bool(evaluation.ending), step is not steps[-1]
        observed = yield StepRequest(step.text, namespace, is_short=is_short, is_partial=is_partial)
        if observed.raised is not None:
            remaining = [value for value in values if not _images_of(value)]
            images = tuple(filter(_images_of, (*observed.displays, observed.value or "")))
            checked.append(replace(_check_failed_step(step, evaluation, observed.raised, remaining), images=images))
            break
        observed = _move_value_to_displays(observed, step, dialect) if has_values else replace(observed, value=None)
        result = _check_value(step, evaluation, observed, values, skipped_images, dialect)
        if dialect == "python" and result.verdict == "differs" and result.value is not None:
            printed = yield StepRequest("_", namespace, prints_for_agents=True, is_partial=True)
            result = _check_as_printed(result, printed.value, evaluation)
        checked.append(replace(result, is_patch=is_patch, images=tuple(filter(_images_of, observed.displays))))
        if dialect != "python" and (moved := _NAMESPACE_SWITCH.match(step.text)):
            namespace = moved[1]
            evaluation = replace(evaluation, namespace=namespace)  # the log contains the rest of the code
    else:
        checked = _match_step_images(checked, [*skipped_images, *values])
    return _check_output(evaluation, checked, dialect)


def _verify_cell(
    evaluation: RecordedEvaluation, steps: Sequence[Step], dialect: str
) -> Generator[StepRequest, StepResult, list[CheckedStep]]:
    """Run a whole cell in a kernel, and compare all of its outputs.

    The kernel draws and closes figures at the end of a cell.
    """
    is_at_home = evaluation.namespace in DEFAULT_NAMESPACES
    namespace = None if is_at_home else evaluation.namespace
    observed = yield StepRequest(evaluation.code, namespace, is_short=bool(evaluation.ending))
    last = _step_index(steps, evaluation.code, observed.line) if observed.raised else len(steps) - 1
    displayed = [display for display in (*observed.displays, observed.value) if display is not None]
    results = [output["output_type"] == "execute_result" for output in observed.cell if "data" in output]
    result_index = results.index(True) if True in results and len(results) == len(displayed) else len(displayed)
    value = displayed[result_index] if result_index < len(displayed) else None
    note, patterns, is_alike = _compare_displays(evaluation, displayed, dialect)
    pattern = "".join(patterns[result_index : result_index + 1]).replace(
        r"\ at\ 0x", r"(?:\ object)?\ at\ 0x"
    )  # `repr` includes the word
    if observed.raised is not None:
        last_checked = _check_failed_step(steps[last], evaluation, observed.raised, ())
    elif TRACEBACK_START in evaluation.err and TRACEBACK_START not in observed.err:
        last_checked = _differing_step(steps[last], evaluation, _last_line(evaluation.err), "no failure", observed.out)
    else:
        verdict: Verdict = "varies" if pattern else "ran" if value is None else "same"
        text = value if value is None else replace_image_data(value)
        last_checked = CheckedStep(steps[last], evaluation, verdict, text, pattern, out=observed.out)
    images = tuple(check for index, check in enumerate(displayed) if _images_of(check) and index != result_index)
    drawn = value if value is not None and _images_of(value) else ""
    last_checked = replace(last_checked, cell=observed.cell, images=images, drawn=drawn, is_alike=is_alike)
    if note and last_checked.reproduces:
        is_absent = observed.raised is not None
        last_checked = (
            replace(last_checked, note=note)
            if is_alike
            else replace(last_checked.without_assertion(note), verdict="absent" if is_absent else "differs")
        )
    checked = [*(CheckedStep(step, evaluation, "ran") for step in steps[:last]), last_checked]
    checked = _check_output(evaluation, checked, dialect)
    return checked if last == 0 else [replace(check, out="") for check in checked]  # it is unknown whose output it is


def _step_index(steps: Sequence[Step], code: str, line: int) -> int:
    """Return the index of the step that contains a line of the code, or that of the last step if none does."""
    position = 0
    for index, step in enumerate(steps):
        position = code.find(step.text, position) + len(step.text)
        if 0 < line <= code.count("\n", 0, position) + 1:
            return index
    return len(steps) - 1


def _compare_displays(
    evaluation: RecordedEvaluation, displayed: Sequence[str], dialect: str
) -> tuple[str, list[str], bool]:
    """Compare the outputs of a cell with the recorded ones.

    Return a note on the differences, a pattern for each output (empty if it is unchanged), and whether only images
    differ.
    """
    notes, patterns, is_alike = list[str](), list[str](), True
    for recorded, fresh in zip_longest(map(replace_image_data, evaluation.values), map(replace_image_data, displayed)):
        is_comparable = recorded is not None and fresh is not None and not HIDDEN_PART_MARK.search(recorded)
        match = match_value(recorded, fresh, dialect, evaluation.time) if is_comparable else None
        is_alike &= match is not None
        notes.append(
            match.note if match else _describe_difference(recorded or "no such value", fresh or "no such value")
        )
        patterns.append(match.pattern if match else "")
    notes = list(filter(None, notes))
    return "; ".join(notes), patterns, is_alike and bool(notes)


def _verify_last_value(
    evaluation: RecordedEvaluation, steps: Sequence[Step], dialect: str
) -> Generator[StepRequest, StepResult, list[CheckedStep]]:
    """Run the code of a kernel's cell step by step in a different kind of REPL.

    Only the last value and the images of the cell are compared.
    """
    # As `repr` prints it, because IPython omits a word.
    recorded_values = [
        _OBJECT_WITH_ADDRESS.sub(r"<\1 object at 0x", value) for value in evaluation.values if not _images_of(value)
    ]
    checked, last_recorded = list[CheckedStep](), recorded_values[-1:]
    is_quiet = evaluation.code.rstrip().endswith(";")
    for step in steps:
        if step.role == "magic":
            is_unsupported = not step.text.startswith(INLINE_MAGIC)
            note = NOT_PYTHON_NOTE if is_unsupported else ""
            checked.append(CheckedStep(step, evaluation, "absent" if is_unsupported else "ran", note=note))
            continue
        is_short, is_partial = bool(evaluation.ending), step is not steps[-1]
        observed = yield StepRequest(step.text, is_short=is_short, is_partial=is_partial)
        if observed.raised is not None:
            checked.append(_check_failed_step(step, evaluation, observed.raised, ()))
            break
        observed = _move_value_to_displays(observed, step, dialect)
        images = tuple(filter(_images_of, (*observed.displays, observed.value or "")))
        has_value = step is steps[-1] and not is_quiet and observed.value not in {None, "None", *images}
        result = _check_value(
            step, evaluation, replace(observed, value=observed.value if has_value else None), last_recorded, [], dialect
        )
        checked.append(replace(result, images=images))
    else:
        checked = _match_step_images(checked, evaluation.values, is_again=True)
    yield StepRequest(CLOSE_FIGURES_CODE)
    return _check_output(evaluation, checked, dialect)


def _is_patch(
    step: Step, namespace: str | None, dialect: str, defined: set[tuple[str, str]]
) -> Generator[StepRequest, StepResult, bool]:
    """Return whether a step redefines a name that exists in a namespace and was not defined by the session."""
    for name in step.gives:
        if (namespace, name) in defined:
            continue
        exists = f"{name!r} in globals()" if dialect == "python" else f"(some? (resolve '{namespace}/{name}))"
        observed = yield StepRequest(exists, namespace, is_partial=True)
        if observed.value in {"True", "true"}:
            return True
    return False


def _verify_load(evaluation: RecordedEvaluation) -> Generator[StepRequest, StepResult, CheckedStep]:
    """Load a file again. If the file's text was not recorded, load its current text."""
    step = Step(_loading_code(evaluation), "import")
    observed = yield StepRequest(evaluation.code, file=evaluation.file) if evaluation.file else StepRequest(step.text)
    if observed.raised is None:
        return CheckedStep(step, evaluation, "ran")
    if str(observed.raised.message) in evaluation.err and evaluation.err:
        note = f"the file did not load: {_shorten(str(observed.raised))}"
        return CheckedStep(step, evaluation, "absent", is_typo=True, note=note)
    # The message may quote text that the log hides.
    why = observed.raised.name if SECRET_MARK.search(evaluation.err) else _shorten(str(observed.raised))
    return CheckedStep(step, evaluation, "absent", note=f"the file does not load: {why}")


def _loading_code(evaluation: RecordedEvaluation) -> str:
    """Return code that loads the same module, namespace or file."""
    if evaluation.values and (module := re.match(r"<module '([^']+)'", evaluation.values[-1])):
        return f"import {module[1]}"
    namespace = declared_namespace(evaluation.code) or ("" if evaluation.file else evaluation.namespace)
    return f"(require '{namespace})" if namespace else f'(load-file "{evaluation.file}")'


def _is_expression(step: Step, dialect: str) -> bool:
    """Return whether a step has a value. In a Lisp, every form has one."""
    return dialect != "python" or step.role == "expression"


def _has_values(evaluation: RecordedEvaluation, steps: Sequence[Step], dialect: str) -> bool:
    """Return whether the values of an evaluation were recorded.

    A Python REPL reports no values for code that ends in a statement.
    """
    has_outcome = bool(evaluation.values or evaluation.err or evaluation.ending)
    return has_outcome or all(_is_expression(step, dialect) for step in steps[-1:])


def _move_value_to_displays(observed: StepResult, step: Step, dialect: str) -> StepResult:
    """Move the value of a Python statement to `displays`, because only expressions have values."""
    if _is_expression(step, dialect) or observed.value is None:
        return observed
    return replace(observed, value=None, displays=(*observed.displays, observed.value))


def _check_value(
    step: Step, evaluation: RecordedEvaluation, observed: StepResult, values: list[str], aside: list[str], dialect: str
) -> CheckedStep:
    """Compare the value of a step that succeeded with the next recorded value.

    Remove that value from `values`, and move the images before it to `aside`.
    """
    if observed.value is None:
        return CheckedStep(step, evaluation, "ran", out=observed.out)
    fresh = replace_image_data(observed.value)
    _move_preceding_images(values, fresh, aside)
    if not values:
        failed = _last_line(evaluation.err) or "no value"
        return _differing_step(step, evaluation, failed, fresh, observed.out)
    recorded = replace_image_data(values.pop(0))
    match = None if HIDDEN_PART_MARK.search(recorded) else match_value(recorded, fresh, dialect, evaluation.time)
    if match is None:
        return _differing_step(step, evaluation, recorded, fresh, observed.out)
    note = (
        "the value was truncated when it was recorded, so the rest cannot be compared" if match.is_cut else match.note
    )
    verdict: Verdict = "varies" if match.pattern else "same"
    result = CheckedStep(step, evaluation, verdict, fresh, match.pattern, out=observed.out, note=note)
    return replace(result, is_alike=bool(match.note), drawn=observed.value if find_images(fresh) else "")


def _check_as_printed(result: CheckedStep, printed: str | None, evaluation: RecordedEvaluation) -> CheckedStep:
    """Compare a differing value again, this time as printed for agents.

    Objects without their own `repr` are recorded as `str` prints them. Their `repr` contains an address that differs
    from run to run.
    """
    if printed is None or result.recorded is None or not result.value:
        return result
    match = match_value(result.recorded, printed, "python", evaluation.time)
    if match is None:
        return result
    return replace(result, verdict="varies", pattern=pattern_for_text(result.value), note="")


def _move_preceding_images(values: list[str], fresh: str, aside: list[str]) -> None:
    """Move the recorded images that precede the next recorded value to `aside`.

    A figure is displayed as soon as it is drawn, so images may be recorded between statements' values.
    """
    count = next((index for index, value in enumerate(values) if not _images_of(value)), len(values))
    if images := find_images(fresh):
        count = next((index for index in range(count) if _images_of(values[index]) == images), 0)
    aside += values[:count]
    del values[:count]


def _images_of(value: str) -> tuple[ImageFacts, ...]:
    return find_images(replace_image_data(value))


def _match_step_images(
    checked: list[CheckedStep], recorded: Sequence[str], *, is_again: bool = False
) -> list[CheckedStep]:
    """Match the images that steps displayed with the recorded ones, and remove the others.

    When run one by one, steps may display a figure more often than the whole evaluation did. If an image differs, the
    last step gets a note. With `is_again`, an image may have been recorded twice.
    """
    displayed = [
        (step_index, image_index)
        for step_index, check in enumerate(checked)
        for image_index in range(len(check.images))
    ]
    recorded_images = [image for value in recorded for image in _images_of(value)]
    matches = match_images(
        recorded_images,
        [_images_of(checked[step_index].images[image_index]) for step_index, image_index in displayed],
        is_again=is_again,
    )
    matched = {displayed[found] for found, _ in matches if found is not None}
    notes = [note for _, note in matches if note]
    is_alike = all(found is not None for found, _ in matches)
    checked = [
        replace(
            check,
            images=tuple(text for image_index, text in enumerate(check.images) if (step_index, image_index) in matched),
        )
        for step_index, check in enumerate(checked)
    ]
    if not notes:
        return checked
    last = max((step_index for step_index, check in enumerate(checked) if check.images), default=len(checked) - 1)
    last_checked = replace(checked[last], note="; ".join(filter(None, (checked[last].note, *notes))), is_alike=is_alike)
    return [
        *checked[:last],
        last_checked if is_alike else last_checked.without_assertion(last_checked.note),
        *checked[last + 1 :],
    ]


def require_identical_images(check: CheckedStep) -> CheckedStep:
    """Treat a step as not reproduced if one of its images is only similar to the recorded one."""
    return check.without_assertion(check.note) if check.is_alike else check


def _check_failed_step(
    step: Step, evaluation: RecordedEvaluation, raised: RaisedError, values: Sequence[str]
) -> CheckedStep:
    """Check a step that raised an exception, which ended its evaluation."""
    if evaluation.ending and raised.type == ENDLESS_ERROR:
        return CheckedStep(step, evaluation, "absent", is_typo=True, note=_shorten(evaluation.ending))
    if raised.type == REPL_DIED_ERROR:
        return CheckedStep(
            step, evaluation, "absent", note=f"the code ended the REPL in both runs: {_shorten(raised.message)}"
        )
    is_known = re.search(pattern_for_text(raised.message or raised.name), evaluation.err) is not None
    if values or not is_known:
        recorded = values[0] if values else _last_line(evaluation.err) or "no error"
        note = _describe_difference(recorded, str(raised))
        return CheckedStep(step, evaluation, "absent", note=note)
    if is_typo(raised):
        note = f"the code failed in both runs: {_shorten(str(raised))}"
        return CheckedStep(step, evaluation, "absent", raised=raised, is_typo=True, note=note)
    return CheckedStep(step, evaluation, "raises", raised=raised)


def is_typo(raised: RaisedError) -> bool:
    """Return whether an error is probably a typing mistake, such as a name that does not exist."""
    return (
        raised.name in _TYPO_ERRORS or raised.phase in _TYPO_PHASES or raised.message.startswith(_TYPO_MESSAGES)
        or raised.type == "namespace-not-found"
    )  # fmt: skip


def _check_output(evaluation: RecordedEvaluation, checked: list[CheckedStep], dialect: str) -> list[CheckedStep]:
    """Compare the printed output of an evaluation with the recorded one. Add a note to a step if they differ."""
    printed = "".join(check.out for check in checked)
    is_secret = SECRET_MARK.search(evaluation.out) is not None
    if printed == evaluation.out and not is_secret:
        return checked
    is_comparable = printed and evaluation.out and not is_secret
    match = match_value(evaluation.out, printed, dialect, evaluation.time) if is_comparable else None
    difference = "" if match is not None else f"printed, {_describe_difference(evaluation.out, printed)}"
    plain = [replace(check, out="") for check in checked]
    for index, check in enumerate(checked):
        if difference and (check.out or index == len(checked) - 1) and check.verdict in {"ran", "same", "varies"}:
            plain[index] = replace(plain[index], verdict="differs", pattern="", note=difference)
            break
    return plain


def _differing_step(step: Step, evaluation: RecordedEvaluation, recorded: str, fresh: str, out: str) -> CheckedStep:
    note = _describe_difference(recorded, fresh)
    is_secret = SECRET_MARK.search(recorded) is not None
    displayable = None if is_secret else recorded
    return CheckedStep(
        step, evaluation, "differs", recorded if is_secret else fresh, out=out, note=note, recorded=displayable
    )


def _describe_difference(recorded: str, fresh: str) -> str:
    """Describe the difference between two texts.

    If a secret was redacted from the recorded text, the fresh text is omitted, because it may contain the secret.
    """
    if mark := SECRET_MARK.search(recorded):
        return f"the log contains {mark[0]} instead of a secret, which cannot be compared"
    return f"recorded: {_shorten(recorded)}; in a fresh REPL: {_shorten(fresh)}"


def _shorten(text: str) -> str:
    """Put a string on one line, and truncate it to `_MAX_NOTE_CHARACTERS` characters."""
    line = " ⏎ ".join(text.strip().splitlines()) or "nothing"
    return line if len(line) <= _MAX_NOTE_CHARACTERS else f"{line[:_MAX_NOTE_CHARACTERS]}… ({len(text)} characters)"


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else ""
