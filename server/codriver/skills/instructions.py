"""What the model of a client is told when the client connects."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from codriver.skills.library import INDEX_URI

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codriver.skills.library import Skill

INSTRUCTIONS_CHARS: Final = 1500
"""Clients cut instructions at about 2 KB, and characters may be two bytes."""

LOOP: Final = (
    "Work in small steps: evaluate_code one form (who: a kebab-case slug of your task; description: why), look at the "
    "result, build on it. repl_output_log holds everything evaluated and printed here by anyone: read what is new "
    "before you rely on state. When it works, write it to the file (Lisp: edit_files), load_file, and verify. "
    "status running or queued is no failure: get_evaluation waits, interrupt_evaluation ends it. Never send code twice "
    "because an answer is late. A refusal's hint says what to do next."
)
NO_LOOP: Final = "Evaluation is switched off by the settings; repl_output_log and edit_files work."


@dataclass(frozen=True, slots=True)
class Connected:
    """A REPL session, as the instructions name it."""

    key: str
    dialect: str
    state: str = "connected"


def instructions(skills: Sequence[Skill], connected: Sequence[Connected], *, evaluates: bool = True) -> str:
    """What is connected, how to work, which skills there are.

    At most `INSTRUCTIONS_CHARS` characters, however many REPLs and skills there are.
    """
    parts = [_say_connected(connected), LOOP if evaluates else NO_LOOP]
    budget = INSTRUCTIONS_CHARS - sum(len(part) + 1 for part in parts)
    return "\n".join([*parts, *_say_skills(skills, budget)])


def _say_connected(connected: Sequence[Connected]) -> str:
    if not connected:
        return "Codriver: no REPL is connected yet; one that is started in the workspace is found, see list_sessions."
    shown = ", ".join(f"{repl.key} ({repl.dialect}, {repl.state})"[:80] for repl in connected[:6])
    more = f" and {len(connected) - 6} more" if len(connected) > 6 else ""
    several = " Pass replSessionKey." if len(connected) > 1 else ""
    return f"Codriver: live REPLs of this workspace, shared with the human and other agents: {shown}{more}.{several}"


def _say_skills(skills: Sequence[Skill], budget: int) -> Iterator[str]:
    """The skills' lines, as many as fit into `budget` characters."""
    if not skills:
        return
    head = "Skills (read the resource before you start):"
    more = f"- more in {INDEX_URI}"
    budget -= len(head) + len(more) + 2
    yield head
    for number, skill in enumerate(skills):
        first = re.split(r"(?<=[.!?])\s", skill.description)[0]
        line = f"- {skill.uri}: {first}"
        if len(line) > 240:
            line = line[:239] + "…"
        budget -= len(line) + 1
        if budget < 0 or number == 8:
            yield more
            return
        yield line
