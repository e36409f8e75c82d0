"""The report of `codriver doctor`, as text for one screen and as JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator

State = Literal["ok", "note", "wrong"]
Support = Literal["works", "adapted", "missing"]
Tone = Literal["ok", "note", "wrong", "fix", "head", "plain"]
"""What a piece of the report is to its reader, for who colours it."""

_TONES: Final[dict[Support, Tone]] = {"works": "ok", "adapted": "plain", "missing": "note"}
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

    @property
    def indent(self) -> int:
        """Where the texts of the checks begin in their lines."""
        return max((len(check.area) for check in self.checks), default=0) + 9  # a mark of five, and two spaces twice

    def to_json(self) -> dict[str, object]:
        """The report as JSON values, with camelCase keys."""
        return {
            "ok": self.exit_status == 0,
            "checks": [asdict(check) for check in self.checks],
            "repls": [asdict(repl) for repl in self.repls],
        }

    def to_text(self) -> str:
        """The report for a terminal of any width: a line for each check, and below it what mends it."""
        return "".join(text for _, text in self.pieces())

    def pieces(self, *, is_brief: bool = False) -> Iterator[tuple[Tone, str]]:
        """The report in pieces, each with its tone. If brief, without what is well."""
        checks = [check for check in self.checks if not (is_brief and check.state == "ok")]
        width = max((len(check.area) for check in self.checks), default=0)
        for check in checks:
            yield check.state, _MARKS[check.state]
            yield "plain", f"  {check.area:<{width}}  {check.text}\n"
            if check.fix:
                yield "fix", f"{'':<{width + 7}}  → {check.fix}\n"
        if not is_brief:
            yield from self._repl_pieces()
        wrong = sum(check.state == "wrong" for check in self.checks)
        if wrong:
            yield "wrong", f"\n{wrong} of {len(self.checks)} checks {'is' if wrong == 1 else 'are'} wrong.\n"
        elif not is_brief:
            yield "ok", f"\n{self._good_news()}\n"

    def _good_news(self) -> str:
        """The good news that nothing is wrong, with as much praise as is due."""
        notes = sum(check.state == "note" for check in self.checks)
        has = "has" if notes == 1 else "have"
        return f"Nothing is wrong; {notes} of {len(self.checks)} checks {has} a note." if notes else "All is well."

    def _repl_pieces(self) -> Iterator[tuple[Tone, str]]:
        for repl in self.repls:
            yield "head", f"\n{repl.key}: {repl.title} ({repl.state})\n"
            for row in repl.rows:
                yield "plain", f"  {row.capability:<13} "
                yield _TONES[row.support], f"{row.support:<8} {row.detail}".rstrip() + "\n"
            for note in repl.notes:
                yield "note", f"  note: {note}\n"
