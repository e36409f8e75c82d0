"""The handoff as a text: how the work stands, for an agent that takes over or has forgotten.

Pure: the story of the work in, a text of at most 4,000 bytes out, about 1,000 tokens. Facts that no log has come as a
`Present`. The text begins with the most urgent things; if not all fit, each kind keeps its newest.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from codriver.errors import cut
from codriver.log.control_characters import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from codriver.features.handoff.work_story import Step, Story, TestsRun

    Failed = tuple[Step, bool, str]
    """A step, whether no later step makes up for it, and its end in words."""

MOST_BYTES: Final = 4000
PART_CHARACTERS: Final = 200
MOST_PARTS: Final = 12
"""The parts of each kind, before the excess is left out."""
MOST_FAILURES: Final = 50
"""The newest failures, for each of which a later success is looked for."""
TYPO: Final = re.compile(
    r"(?:NameError|SyntaxError|IndentationError|TabError|AttributeError)\b|.*[Uu]nable to resolve symbol|Syntax error"
)
"""The beginnings of errors that a slip of the pen may have caused."""
MOST_TYPO_CHARACTERS: Final = 500
ALIKE: Final = 0.75
"""From this likeness on, of 1, a code counts as the correction of another."""


@dataclass(frozen=True, slots=True)
class Present:
    """The circumstances of this moment. `now`: epoch milliseconds. `on_disk`: the names that source files define."""

    now: int
    repls: tuple[str, ...] = ()
    """The REPLs, each in words."""
    running: tuple[str, ...] = ()
    """The evaluations that run or wait, each in words, the evaluation's id first."""
    others: tuple[str, ...] = ()
    """The other connected clients, by the names of their callers."""
    on_disk: frozenset[str] = frozenset()
    drift: tuple[str, ...] = ()
    """The differences of loaded code from the files, in lines."""


@dataclass(frozen=True, slots=True)
class Section:
    """A line of the text: things of one kind, the most important first."""

    title: str
    parts: tuple[str, ...]

    def text(self, count: int) -> str:
        """Return the line with the first `count` of the section's parts, and how many are left out."""
        left = len(self.parts) - count
        more = f"; {left} more" if left else ""
        return f"{self.title}: {'; '.join(self.parts[:count])}{more}"


def compose(story: Story, present: Present, reader: str, *, most_bytes: int = MOST_BYTES) -> str:
    """Return the handoff for `reader`, a caller's name; empty if there is nothing to report.

    What others did is reported from the reader's last call on, if it made one.
    """
    sections = [section for section in _sections(story, present, reader) if section.parts]
    if not sections:
        return ""
    lines = f", of the log's lines {story.first_line} to {story.last_line}" if story.last_line else ""
    return fitted(f"Codriver{f', for {reader}' if reader else ''}{lines}:", sections, most_bytes)


def fitted(head: str, sections: Sequence[Section], most_bytes: int) -> str:
    """Return the head and the sections below it, shortened to `most_bytes` of UTF-8.

    The longest section loses its last part first, and says how many it lost.
    """
    counts = [min(len(section.parts), MOST_PARTS) for section in sections]
    while True:
        shown = [section.text(count) for section, count in zip(sections, counts, strict=True)]
        text = "\n".join([head, *shown])
        if _bytes(text) <= most_bytes:
            return text
        longest = max(range(len(shown)), key=lambda place: (counts[place] > 1, _bytes(shown[place])))
        if counts[longest] <= 1:
            return text.encode("utf-8", "replace")[: most_bytes - 3].decode("utf-8", "ignore") + "…"
        counts[longest] -= 1


def _sections(story: Story, present: Present, reader: str) -> Iterator[Section]:
    unsaved = [(name, step) for name, step in _defined(story.steps) if name not in present.on_disk]
    living = tuple([_place(name, step) for name, step in unsaved if _lives(step, story)])
    former = tuple([_place(name, step) for name, step in unsaved if not _lives(step, story)])
    failed = list(_failures(story.steps))
    red, green = _tests(story.runs)
    yield Section("Look first", tuple(_first(present, failed, list(red), living, former)))
    yield Section("Goals", _goals(story.steps, reader))
    marks = reversed(story.checkpoints)
    yield Section("Checkpoints", tuple([_short(f"{one.text}, {_age(one.timestamp, present.now)}") for one in marks]))
    yield from _news(story.steps, present, reader)
    yield Section("Tests red", tuple([_short(f"{name} ({run.who} {run.evaluation})") for name, run in red.items()]))
    yield Section("Loaded, and not what the files say", tuple(map(_short, present.drift)))
    yield Section("Tests green", tuple(map(_short, green)))
    yield Section("Failed", tuple([_short(f"{_named(step)}: {step.error}; {end}") for step, _, end in failed]))
    yield Section("Defined and in no file", living)
    yield Section("Defined in no file before their REPL was reconnected", former)
    yield Section("Data", tuple(_data(story)))
    yield Section("Edited", tuple([_short(f"{path} ({who})") for who, path in reversed(story.edits)]))
    yield Section("Running", tuple(map(_short, present.running)))
    yield Section("REPLs", tuple(map(_short, present.repls)))
    yield Section("Also here", present.others)
    yield Section("Evaluated", _by_who(story.steps, present.now))


def _first(
    present: Present, failed: Sequence[Failed], red: Sequence[str], living: Sequence[str], former: Sequence[str]
) -> Iterator[str]:
    """The most urgent things, in this order, each with the call that does it."""
    if present.running:
        yield f"what runs: get_evaluation {present.running[0].partition(' ')[0]}"
    if red:
        yield _short(f"the red test {red[0]}: run_tests")
    if present.drift:
        yield "code that is not what the files say: what_changed"
    still = next((step for step, is_open, _ in failed if is_open), None)
    if still is not None:
        yield f"what failed and was not done again: {_named(still)}"
    if living:
        yield "definitions in no file, which go with their REPL: write them down"
    elif former:
        yield "definitions in no file, perhaps gone: repl_output_log has their code, $history too"


def _news(steps: Sequence[Step], present: Present, reader: str) -> Iterator[Section]:
    """The section on the evaluations of others since the reader's own last call, if any."""
    own = [step for step in steps if step.who == reader]
    if own:
        last = own[-1]
        later = [step for step in steps if step.line > last.last_line and step.who != reader]
        since = f"{last.id}, line {last.last_line}, {_age(last.timestamp, present.now)}"
        yield Section(f"Others since your last call ({since})", _by_who(later, present.now))


def _by_who(steps: Iterable[Step], now: int) -> tuple[str, ...]:
    """A line for each caller with its evaluations, in numbers and names; the latest caller comes first."""
    by_who: dict[str, list[Step]] = {}
    for step in steps:
        by_who[step.who] = [*by_who.pop(step.who, ()), step]
    return tuple([_short(_done_by(who, found, now)) for who, found in reversed(by_who.items())])


def _done_by(who: str, steps: Sequence[Step], now: int) -> str:
    failed = sum(bool(step.error) for step in steps)
    names = list(dict.fromkeys(name for step in reversed(steps) for name in step.names))
    words = [f"{who} {len(steps)}", *([f"{failed} failed"] if failed else [])]
    words += [f"defined {', '.join(names[:6])}{' and more' if len(names) > 6 else ''}"] if names else []
    return f"{', '.join(words)}, the last {_age(steps[-1].timestamp, now)}"


def _goals(steps: Sequence[Step], reader: str) -> tuple[str, ...]:
    """The descriptions, each once: the reader's first, else anybody's, which tells the purpose of all; then the newest.

    Later descriptions are mostly steps on the way.
    """
    goals = [(step.goal, step.who) for step in steps if step.goal]
    first = [one for one in goals if one[1] == reader][:1] or goals[:1]
    found = dict.fromkeys([*first, *reversed(goals)])
    return tuple([_short(f"{goal} ({who})") for goal, who in found])


def _defined(steps: Sequence[Step]) -> list[tuple[str, Step]]:
    """Each name with the step that defined it last, the newest first."""
    found: dict[tuple[str, str, str], Step] = {}
    for step in steps:
        for name in step.names:
            found.pop((step.key, step.namespace, name), None)
            found[step.key, step.namespace, name] = step
    return [(name, step) for (_, _, name), step in reversed(found.items())]


def _lives(step: Step, story: Story) -> bool:
    """Whether the step's REPL is still connected as then, as far as the log tells."""
    return bool(step.life) and story.lives.get(step.key.partition("/")[0]) == step.life


def _place(name: str, step: Step) -> str:
    return _short(f"{step.namespace}/{name} ({step.who} {step.id})" if step.namespace else f"{name} ({_named(step)})")


def _data(story: Story) -> Iterator[str]:
    """Names of data that living REPLs hold, each by the step that assigned the name last, the newest first."""
    told: set[tuple[str, str, str]] = set()
    for step in reversed(story.steps):
        names = [name for name in step.data if (step.key, step.namespace, name) not in told]
        if names and _lives(step, story):
            told.update((step.key, step.namespace, name) for name in names)
            home = f"{step.namespace}/" if step.namespace else ""
            yield _short(f"{home}{', '.join(names)} ({step.who} {step.id})")


def _named(step: Step) -> str:
    return f"{step.id} of {step.who} in {step.key}" if step.key else f"{step.id} of {step.who}"


def _failures(steps: Sequence[Step]) -> Iterator[Failed]:
    """The last failure of each code, with its end, and whether it is open; the open ones first."""
    found: dict[tuple[str, object], Failed] = {}
    for place in [place for place, step in enumerate(steps) if step.error][-MOST_FAILURES:]:
        step = steps[place]
        later = next((one for one in steps[place + 1 :] if not one.error and _is_same(step, one)), None)
        end = "not done again" if later is None else f"went well later ({later.id})"
        found.pop((step.key, step.code), None)
        found[step.key, step.code] = step, later is None, end
    newest_first = list(found.values())[::-1]
    yield from sorted(newest_first, key=lambda failed: not failed[1])


def _is_same(failed: Step, later: Step) -> bool:
    """Whether a step repeats a failed one: the same code or file in the same REPL, or a name from it."""
    if failed.key.partition("/")[0] != later.key.partition("/")[0]:
        return False
    is_same = later.code == failed.code or bool(failed.file and failed.file == later.file)
    return is_same or _is_corrected(failed, later) or bool(set(failed.meant) & set(later.names))


def _is_corrected(failed: Step, later: Step) -> bool:
    """True for the caller's own correction of a slip of the pen."""
    if later.who != failed.who or not TYPO.match(failed.error):
        return False
    import difflib  # noqa: PLC0415  # `codriver watch`, which draws steps alone, starts without it

    is_short = max(len(failed.code), len(later.code)) <= MOST_TYPO_CHARACTERS
    return is_short and difflib.SequenceMatcher(None, failed.code, later.code, autojunk=False).ratio() >= ALIKE


def _tests(runs: Sequence[TestsRun]) -> tuple[dict[str, TestsRun], tuple[str, ...]]:
    """Return the failed tests, each with its newest run, and the selections that passed; the newest first.

    The newest outcome of a test counts, whoever ran it.
    """
    failed: dict[str, TestsRun] = {}
    passed: dict[str, TestsRun] = {}
    for run in runs:
        failed = {name: of for name, of in failed.items() if not run.replaces(name)}
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


def _short(text: str) -> str:
    """Return the text on one line, cut to `PART_CHARACTERS`."""
    return cut(one_line(" ".join(text.split())), PART_CHARACTERS)


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "replace"))
