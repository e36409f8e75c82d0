"""Outcomes of tried candidates, as the REPL tells them: passed, failed or undecided, and in which way they differ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

from codriver.core.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FIRST_GREEN: Final = "first-green"
MOST_DIFFERENCES: Final = 10
MOST_THREADS: Final = 5
VALUE_CHARACTERS: Final = 300
"""Of a value, and of an error's message."""


@dataclass(frozen=True, slots=True)
class Tried:
    """One candidate that was tried. `ended` has the outcome of each test by name."""

    label: str
    outcome: Literal["passed", "failed", "undecided"]
    ended: Mapping[str, str]
    value: str | None
    fields: Mapping[str, object]
    """The keys of the answer that say more."""

    @property
    def words(self) -> str:
        """The outcome, and how many tests passed."""
        return f"{self.outcome}, {self.counts}" if self.ended else self.outcome

    @property
    def counts(self) -> str:
        """The tests that passed, of all."""
        return f"{sum(how == 'pass' for how in self.ended.values())} of {len(self.ended)} tests"

    def json(self) -> dict[str, object]:
        """The candidate under the keys of an answer."""
        passed = {"passed": self.counts} if self.ended else {}
        value = {} if self.value is None else {"value": cut(self.value)}
        return {"label": self.label, "outcome": self.outcome, **passed, **value, **self.fields}


def cut(text: str) -> str:
    """A text of so many characters as an answer tells of one candidate."""
    return text if len(text) <= VALUE_CHARACTERS else f"{text[:VALUE_CHARACTERS]}…"


def read_tried(label: str, told: Mapping[str, Any], threads: Sequence[str], timeout_ms: int) -> Tried:
    """The outcome that the REPL told of one candidate.

    `threads` are those of the user's code there, which a fork does not have.
    """
    ended: Mapping[str, str] = told.get("ended", {})
    fields: dict[str, object] = {}
    outcome: Literal["passed", "failed", "undecided"] = "failed"
    if told.get("timedOut"):
        at = f" at {told['at']}" if told.get("at") else ""
        if told.get("waits") and threads:
            outcome = "undecided"
            fields = {"waitsAt": told.get("at"), "threads": list(threads[:MOST_THREADS])}
        else:
            fields = {"error": f"timed out after {timeout_ms} ms{at}"}
    elif "died" in told:
        fields = {"error": str(told["died"]) + (f", at {told['at']}" if told.get("at") else "")}
    elif "error" in told:
        fields = {"error": _words(told["error"])}
    elif "firstFailure" in told:
        fields = {"error": _words(told["firstFailure"])}
    elif not told.get("isFalse"):
        outcome = "passed"
    if printed := str(told.get("printed", "")):
        fields["stdout"] = printed
    return Tried(label, outcome, ended, told.get("value"), fields)


def _words(error: Mapping[str, Any]) -> str:
    """An error in one line: the step or test, class and message, and the place."""
    named = error.get("test") or (error["step"] if error.get("step") not in (None, "tests") else "")
    said = ": ".join(str(part) for part in (named, error.get("class"), error.get("message")) if part)
    line = " ".join(cut(said).split("\n"))
    return f"{line} ({error['file']}:{error.get('line')})" if error.get("file") else line


def differences(tried: Sequence[Tried]) -> list[str]:
    """The tests that ended otherwise in some candidates, and the values that are others, a line each."""
    lines = []
    for test in dict.fromkeys(name for one in tried for name in one.ended):
        by_outcome: dict[str, list[str]] = {}
        for one in tried:
            if test in one.ended:
                by_outcome.setdefault(one.ended[test], []).append(one.label)
        if len(by_outcome) > 1:
            lines.append(f"{test}: " + "; ".join(f"{how} in {', '.join(names)}" for how, names in by_outcome.items()))
    left = len(lines) - MOST_DIFFERENCES
    return [*lines[:MOST_DIFFERENCES], f"… {left} more tests"] if left > 0 else lines
