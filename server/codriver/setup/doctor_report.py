"""The report of `codriver doctor`, as text for one screen and as JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator

State = Literal["ok", "note", "wrong"]
Support = Literal["works", "adapted", "missing"]

_MARKS: Final = {"ok": "ok   ", "note": "note ", "wrong": "WRONG"}


@dataclass(frozen=True, slots=True)
class Check:
    """One thing looked at. A `note` works, and may surprise; `fix` is a command or what else to do."""

    area: str
    state: State
    text: str
    fix: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """One capability of one REPL. `detail`: the op that gives it, or the one line that would."""

    capability: str
    support: Support
    detail: str = ""


@dataclass(frozen=True, slots=True)
class ReplReport:
    """One REPL session and what it can do."""

    key: str
    title: str
    state: str
    rows: tuple[Row, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """The checks and REPLs that the doctor reports. Something `wrong` gives the exit status 1."""

    checks: tuple[Check, ...]
    repls: tuple[ReplReport, ...] = ()

    @property
    def exit_status(self) -> int:
        """0 when nothing is wrong, else 1."""
        return int(any(check.state == "wrong" for check in self.checks))

    def to_json(self) -> dict[str, object]:
        """The report as JSON values, with camelCase keys."""
        return {
            "ok": self.exit_status == 0,
            "checks": [asdict(check) for check in self.checks],
            "repls": [asdict(repl) for repl in self.repls],
        }

    def to_text(self) -> str:
        """The report for a terminal of any width: a line for each check, and below it what mends it."""
        return "\n".join([*self._check_lines(), *self._repl_lines(), self._verdict()]) + "\n"

    def _check_lines(self) -> Iterator[str]:
        width = max((len(check.area) for check in self.checks), default=0)
        for check in self.checks:
            yield f"{_MARKS[check.state]}  {check.area:<{width}}  {check.text}"
            if check.fix:
                yield f"{'':<{width + 7}}  → {check.fix}"

    def _repl_lines(self) -> Iterator[str]:
        for repl in self.repls:
            yield ""
            yield f"{repl.key}: {repl.title} ({repl.state})"
            for row in repl.rows:
                yield f"  {row.capability:<13} {row.support:<8} {row.detail}".rstrip()
            for note in repl.notes:
                yield f"  note: {note}"

    def _verdict(self) -> str:
        wrong = sum(check.state == "wrong" for check in self.checks)
        return "\nAll is well." if not wrong else f"\n{wrong} of {len(self.checks)} checks are wrong."
