"""Render the handoff: a summary of the work for an agent that takes over or has lost its context.

The summary is created from a `Story` and has at most 4,000 bytes, about 1,000 tokens. Facts that are not in the log are
passed as a `LiveState`. The most urgent items come first. If not everything fits, each section keeps its newest items.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from codriver.errors import truncate
from codriver.log.control_characters import escape_to_one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from codriver.features.handoff.work_story import EvaluationStep, Story, TestsRun

    Failed = tuple[EvaluationStep, bool, str]
    """A step, whether it is still unresolved, and a description of its outcome."""

MAX_HANDOFF_BYTES: Final = 4000
"""Maximum size of the handoff."""
MAX_PART_CHARACTERS: Final = 200
"""Maximum length of one part of a section."""
MAX_SECTION_PARTS: Final = 12
"""Maximum number of parts in each section before parts are dropped to fit the maximum size."""
MAX_SEARCHED_FAILURES: Final = 50
"""Maximum number of recent failures for which to search for a later success."""
TYPO_ERROR: Final = re.compile(
    r"(?:NameError|SyntaxError|IndentationError|TabError|AttributeError)\b|.*[Uu]nable to resolve symbol|Syntax error"
)
"""Matches errors that are often caused by typing mistakes."""
MAX_TYPO_CHARACTERS: Final = 500
"""Maximum length of code to compare with other code in order to recognize corrected typing mistakes."""
MIN_SIMILARITY: Final = 0.75
"""Minimum similarity ratio for code to count as a correction of other code."""


@dataclass(frozen=True, slots=True)
class LiveState:
    """The current state of the server, which cannot be read from its log.

    `now` is in epoch milliseconds. `on_disk` contains the names that are defined in source files.
    """

    now: int
    repls: tuple[str, ...] = ()
    """A description of each REPL."""
    running: tuple[str, ...] = ()
    """A description of each evaluation that is running or queued, starting with its id."""
    others: tuple[str, ...] = ()
    """The caller names of the other connected clients."""
    on_disk: frozenset[str] = frozenset()
    drift: tuple[str, ...] = ()
    """Lines describing how loaded code differs from the files."""


@dataclass(frozen=True, slots=True)
class Section:
    """A line of the report, with its parts in order of importance."""

    title: str
    parts: tuple[str, ...]

    def text(self, count: int) -> str:
        """Return the line with its first `count` parts, followed by the number of omitted parts."""
        left = len(self.parts) - count
        more = f"; {left} more" if left else ""
        return f"{self.title}: {'; '.join(self.parts[:count])}{more}"


def render_handoff(story: Story, present: LiveState, reader: str, *, most_bytes: int = MAX_HANDOFF_BYTES) -> str:
    """Return the handoff for the caller `reader`, or an empty string if there is nothing to report.

    If the reader has made calls before, the report includes what other callers have done since then.
    """
    sections = [section for section in _sections(story, present, reader) if section.parts]
    if not sections:
        return ""
    lines = f", from log lines {story.first_line} to {story.last_line}" if story.last_line else ""
    return fit_sections(f"Codriver{f', for {reader}' if reader else ''}{lines}:", sections, most_bytes)


def fit_sections(head: str, sections: Sequence[Section], most_bytes: int) -> str:
    """Return a text with a head and sections, shortened to `most_bytes` of UTF-8.

    Parts are dropped from the end of the longest section first. Each section states how many parts were dropped.
    """
    counts = [min(len(section.parts), MAX_SECTION_PARTS) for section in sections]
    while True:
        sections_text = [section.text(count) for section, count in zip(sections, counts, strict=True)]
        text = "\n".join([head, *sections_text])
        if _byte_count(text) <= most_bytes:
            return text
        longest = max(
            range(len(sections_text)), key=lambda index: (counts[index] > 1, _byte_count(sections_text[index]))
        )
        if counts[longest] <= 1:
            return text.encode("utf-8", "replace")[: most_bytes - 3].decode("utf-8", "ignore") + "…"
        counts[longest] -= 1


def _sections(story: Story, present: LiveState, reader: str) -> Iterator[Section]:
    """Yield the sections of the report, most important first."""
    unsaved = [(name, step) for name, step in _defined_names(story.steps) if name not in present.on_disk]
    current = tuple([_describe_name(name, step) for name, step in unsaved if _is_still_connected(step, story)])
    previous = tuple([_describe_name(name, step) for name, step in unsaved if not _is_still_connected(step, story)])
    failed = list(_last_failures(story.steps))
    failing, passing = _summarize_tests(story.runs)
    yield Section("Start here", tuple(_urgent_items(present, failed, list(failing), current, previous)))
    yield Section("Goals", _list_goals(story.steps, reader))
    marks = reversed(story.checkpoints)
    yield Section(
        "Checkpoints", tuple([_shorten(f"{mark.text}, {_age(mark.timestamp, present.now)}") for mark in marks])
    )
    yield from _others_section(story.steps, present, reader)
    yield Section(
        "Failing tests", tuple([_shorten(f"{name} ({run.who} {run.evaluation})") for name, run in failing.items()])
    )
    yield Section("Loaded code that differs from its files", tuple(map(_shorten, present.drift)))
    yield Section("Passing tests", tuple(map(_shorten, passing)))
    yield Section(
        "Failed", tuple([_shorten(f"{_describe_step(step)}: {step.error}; {end}") for step, _, end in failed])
    )
    yield Section("Defined but not in any file", current)
    yield Section("Defined before the REPL reconnected and not in any file", previous)
    yield Section("Data", tuple(_describe_variables(story)))
    yield Section("Edited", tuple([_shorten(f"{path} ({who})") for who, path in reversed(story.edits)]))
    yield Section("Running", tuple(map(_shorten, present.running)))
    yield Section("REPLs", tuple(map(_shorten, present.repls)))
    yield Section("Other clients", present.others)
    yield Section("Evaluated", _caller_lines(story.steps, present.now))


def _urgent_items(
    present: LiveState,
    failed: Sequence[Failed],
    failing: Sequence[str],
    current: Sequence[str],
    previous: Sequence[str],
) -> Iterator[str]:
    """Yield the most urgent items, each with the tool to call."""
    if present.running:
        yield f"a running evaluation: get_evaluation {present.running[0].partition(' ')[0]}"
    if failing:
        yield _shorten(f"the failing test {failing[0]}: run_tests")
    if present.drift:
        yield "loaded code that differs from its files: what_changed"
    still = next((step for step, is_open, _ in failed if is_open), None)
    if still is not None:
        yield f"an unresolved failure: {_describe_step(still)}"
    if current:
        yield "definitions that are lost when their REPL stops: save them to a file"
    elif previous:
        yield "definitions that may be lost: their code is in repl_output_log and $history"


def _others_section(steps: Sequence[EvaluationStep], present: LiveState, reader: str) -> Iterator[Section]:
    """Yield a section about other callers' evaluations since the reader's last call, if there was one."""
    reader_steps = [step for step in steps if step.who == reader]
    if reader_steps:
        last = reader_steps[-1]
        later = [step for step in steps if step.line > last.last_line and step.who != reader]
        since = f"{last.id}, line {last.last_line}, {_age(last.timestamp, present.now)}"
        yield Section(f"Others since your last call ({since})", _caller_lines(later, present.now))


def _caller_lines(steps: Iterable[EvaluationStep], now: int) -> tuple[str, ...]:
    """Return a line about each caller's evaluations, most recent caller first."""
    by_who: dict[str, list[EvaluationStep]] = {}
    for step in steps:
        by_who[step.who] = [*by_who.pop(step.who, ()), step]
    return tuple([_shorten(_caller_line(who, found, now)) for who, found in reversed(by_who.items())])


def _caller_line(who: str, steps: Sequence[EvaluationStep], now: int) -> str:
    failed = sum(bool(step.error) for step in steps)
    names = list(dict.fromkeys(name for step in reversed(steps) for name in step.names))
    words = [f"{who} {len(steps)}", *([f"{failed} failed"] if failed else [])]
    words += [f"defined {', '.join(names[:6])}{' and more' if len(names) > 6 else ''}"] if names else []
    return f"{', '.join(words)}, the last {_age(steps[-1].timestamp, now)}"


def _list_goals(steps: Sequence[EvaluationStep], reader: str) -> tuple[str, ...]:
    """Return the distinct descriptions of evaluations, starting with the earliest by the reader, or else by anyone.

    The earliest description usually states the goal of the work. The others follow, newest first, and describe steps
    towards it.
    """
    goals = [(step.goal, step.who) for step in steps if step.goal]
    first = [candidate for candidate in goals if candidate[1] == reader][:1] or goals[:1]
    found = dict.fromkeys([*first, *reversed(goals)])
    return tuple([_shorten(f"{goal} ({who})") for goal, who in found])


def _defined_names(steps: Sequence[EvaluationStep]) -> list[tuple[str, EvaluationStep]]:
    """Return each defined name with the step that last defined it, newest first."""
    names = _NewestNames()
    return [(name, step) for step in reversed(steps) for name in reversed(names.pick(step, step.names))]


class _NewestNames:
    """Assigns each name to the newest step that contains it. The steps must be passed from newest to oldest.

    The sessions of a REPL share their names. The namespace of a step is unknown if its REPL had not connected yet. Such
    a step is not assigned any name that a later step in the same REPL contains.
    """

    def __init__(self) -> None:
        self._namespaces: dict[tuple[str, str], set[str]] = {}
        """The namespaces in which names were found, by REPL and name."""

    def pick(self, step: EvaluationStep, names: Sequence[str]) -> list[str]:
        """Return the names of a step that no newer step has, in order."""
        repl, found = step.key.partition("/")[0], []
        for name in names:
            namespaces = self._namespaces.setdefault((repl, name), set())
            if step.namespace not in namespaces and (step.namespace or not namespaces):
                namespaces.add(step.namespace)
                found.append(name)
        return found


def _is_still_connected(step: EvaluationStep, story: Story) -> bool:
    """Return whether, according to the log, the REPL has not reconnected since a step."""
    return bool(step.connection_line) and story.connection_lines.get(step.key.partition("/")[0]) == step.connection_line


def _describe_name(name: str, step: EvaluationStep) -> str:
    """Describe a defined name by its namespace and the evaluation that defined it."""
    return _shorten(
        f"{step.namespace}/{name} ({step.who} {step.id})" if step.namespace else f"{name} ({_describe_step(step)})"
    )


def _describe_variables(story: Story) -> Iterator[str]:
    """Yield lines about the variables in connected REPLs, grouped by the step that last assigned them."""
    newest = _NewestNames()
    for step in reversed(story.steps):
        if _is_still_connected(step, story) and (names := newest.pick(step, step.data)):
            home = f"{step.namespace}/" if step.namespace else ""
            yield _shorten(f"{home}{', '.join(names)} ({step.who} {step.id})")


def _describe_step(step: EvaluationStep) -> str:
    """Describe an evaluation by its id, caller and session."""
    return f"{step.id} by {step.who} in {step.key}" if step.key else f"{step.id} by {step.who}"


def _last_failures(steps: Sequence[EvaluationStep]) -> Iterator[Failed]:
    """Yield the last failure of each piece of code and how it was resolved. Unresolved failures come first."""
    found: dict[tuple[str, object], Failed] = {}
    for index in [index for index, step in enumerate(steps) if step.error][-MAX_SEARCHED_FAILURES:]:
        step = steps[index]
        later = next((other for other in steps[index + 1 :] if not other.error and _repeats(step, other)), None)
        end = "not resolved" if later is None else f"succeeded later ({later.id})"
        found.pop((step.key, step.code), None)
        found[step.key, step.code] = step, later is None, end
    newest_first = list(found.values())[::-1]
    yield from sorted(newest_first, key=lambda failed: not failed[1])


def _repeats(failed: EvaluationStep, later: EvaluationStep) -> bool:
    """Return whether a step repeats or fixes a failed one.

    The step must be in the same REPL, and either have the same code or file or define one of the same names.
    """
    if failed.key.partition("/")[0] != later.key.partition("/")[0]:
        return False
    is_same = later.code == failed.code or bool(failed.file and failed.file == later.file)
    return is_same or _is_correction(failed, later) or bool(set(failed.definitions) & set(later.names))


def _is_correction(failed: EvaluationStep, later: EvaluationStep) -> bool:
    """Return whether a step is the same caller's correction of a typing mistake in another step."""
    if later.who != failed.who or not TYPO_ERROR.match(failed.error):
        return False
    import difflib  # noqa: PLC0415  # keeps the startup of `codriver watch` fast

    is_short = max(len(failed.code), len(later.code)) <= MAX_TYPO_CHARACTERS
    return is_short and difflib.SequenceMatcher(None, failed.code, later.code, autojunk=False).ratio() >= MIN_SIMILARITY


def _summarize_tests(runs: Sequence[TestsRun]) -> tuple[dict[str, TestsRun], tuple[str, ...]]:
    """Return the failed tests with their newest runs, and the selections that passed, newest first.

    The newest outcome of each test counts, whoever ran it.
    """
    failed: dict[str, TestsRun] = {}
    passed: dict[str, TestsRun] = {}
    for run in runs:
        failed = {name: of for name, of in failed.items() if not run.supersedes(name)}
        passed = {
            words: of
            for words, of in passed.items()
            if words != run.selection and not any(of.covers(name) for name in run.failed)
        }
        if not run.has_failed:
            passed[run.selection] = run
        failed |= dict.fromkeys(run.failed or ((run.selection,) if run.has_failed else ()), run)
    return dict(reversed(failed.items())), tuple(reversed(passed))


def _age(then: int, now: int) -> str:
    seconds = max(0, now - then) // 1000
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds // length} {unit} ago"
    return f"{seconds} s ago"


def _shorten(text: str) -> str:
    """Put a string on one line, and truncate it to `MAX_PART_CHARACTERS`."""
    return truncate(escape_to_one_line(" ".join(text.split())), MAX_PART_CHARACTERS)


def _byte_count(text: str) -> int:
    return len(text.encode("utf-8", "replace"))
