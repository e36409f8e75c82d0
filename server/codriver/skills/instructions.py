"""The instructions that a client gets for its model when it connects: REPLs, how to work, and skills."""

from __future__ import annotations

import re
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from codriver.errors import truncate
from codriver.skills.skill_discovery import OWN_SOURCE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from codriver.skills.library import Skill

MAX_INSTRUCTIONS_CHARACTERS: Final = 1500
"""Maximum length of the instructions. Clients truncate them at about 2 KB, and characters may take two bytes."""

EVALUATE_SENTENCE: Final = "evaluate_code with who: a slug of your task."
STATUS_SENTENCE: Final = 'status with about: "activity" shows what others did: look before you rely on shared state.'
WORKFLOW_SENTENCES: Final = (
    ("evaluate_code", EVALUATE_SENTENCE),
    ("status", STATUS_SENTENCE),
    ("", "A refusal's hint says what to do."),
)
"""Sentences about how to work with Codriver, each with the tool that it requires."""
EDIT_SENTENCE: Final = 'edit_files can load and test its edits: load: true, test: ["affected"].'
"""The most useful sentence from the skills."""
NO_GUIDES: Final[Mapping[str, str]] = MappingProxyType({})
NON_EVALUATING_TOOLS: Final = ("status", "edit_files")
"""Tools that can be used even if no code can be evaluated."""
_DISCOVERY_CLAUSE: Final = "one that is started in the workspace is found"
NOT_LIVE_STATES: Final = frozenset({"stopped", "waiting"})
"""States of REPLs in which nothing can be evaluated."""
MAX_LISTED_REPLS: Final = 6
"""Maximum number of REPLs that the instructions list."""
MAX_NAMES_CHARACTERS: Final = 480
"""Maximum total length of the names of running REPLs and of the reasons why others are missing."""
MAX_NAME_CHARACTERS: Final = 100
"""Maximum length of the text about one running REPL."""
MAX_LISTED_REASONS: Final = 2
"""Maximum number of unavailable REPLs that are listed with a reason."""
MAX_REASON_CHARACTERS: Final = 120
"""Maximum length of the reason why a REPL is unavailable."""
MAX_CAUTIONS: Final = 1
"""Maximum number of warnings about REPLs."""
MAX_CAUTION_CHARACTERS: Final = 320
"""Maximum length of a warning about a REPL that is easily mistaken for another one."""
CLAUSE_END_PATTERN: Final = re.compile(r"""; (?=(?:[^`]*`[^`]*`)*[^`]*$)(?=(?:[^"]*"[^"]*")*[^"]*$)""")
"""Matches the end of a clause: a semicolon that is not inside backticks or quotes."""
MAX_CLAUSE_CHARACTERS: Final = 220
"""Maximum length of the first clause of a reason, which may contain a path."""


@dataclass(frozen=True, slots=True)
class DescribedRepl:
    """A REPL as described in the instructions. `why` is the reason why it is stopped or not available yet."""

    key: str
    dialect: str
    state: str = "connected"
    why: str = ""
    cautions: tuple[str, ...] = ()
    """Warnings about a REPL that is easily mistaken for another one."""
    kind: str = ""
    """The application or document of the REPL, such as `running application board.py`; empty for a plain REPL."""


def build_instructions(
    skills: Sequence[Skill],
    connected: Sequence[DescribedRepl],
    *,
    evaluates: bool = True,
    offered: Collection[str] | None = None,
    guides: Mapping[str, str] = NO_GUIDES,
    to_have_one: str = "",
    trust_adds: str = "",
    reads_resources: bool = True,
) -> str:
    """Return the instructions for a client: connected REPLs, how to work, and skills.

    Only tools in `offered` are mentioned, or all if it is None. A skill in `guides` is mentioned only with its tool.
    `to_have_one` describes how to get a REPL if none is connected or starting. `trust_adds` describes what `codriver
    trust` would add to a workspace that is not accepted. If the model cannot read resources, the most useful sentence
    from the skills replaces their addresses. The result has at most `MAX_INSTRUCTIONS_CHARACTERS` characters, however
    many REPLs and skills there are.
    """
    parts = [_describe_connected(connected, to_have_one), _describe_workflow(evaluates=evaluates, offered=offered)]
    if trust_adds:
        parts.insert(1, f"Nobody has accepted this workspace: codriver trust, run by your human, adds {trust_adds}.")
    if offered is not None:
        skills = [skill for skill in skills if guides.get(skill.id) in (None, *offered)]
    if not reads_resources:
        is_usable = evaluates and (offered is None or "edit_files" in offered)
        return "\n".join([*parts, *([EDIT_SENTENCE] if is_usable else [])])
    budget = MAX_INSTRUCTIONS_CHARACTERS - sum(len(part) + 1 for part in parts)
    return "\n".join([*parts, *_describe_skills(skills, budget)])


def _describe_connected(connected: Sequence[DescribedRepl], to_have_one: str) -> str:
    live = [repl for repl in connected if repl.state not in NOT_LIVE_STATES]
    away = _describe_unavailable([repl for repl in connected if repl.state in NOT_LIVE_STATES])
    cautions = [f" {repl.key}: {words}."[:MAX_CAUTION_CHARACTERS] for repl in connected for words in repl.cautions]
    away += "".join(cautions[:MAX_CAUTIONS])
    known = f"{to_have_one}, or start one in the workspace" if to_have_one and not connected else _DISCOVERY_CLAUSE
    text = f"Codriver: no REPL is connected yet; {known}; see status."
    if live:
        described: list[str] = []
        room = MAX_NAMES_CHARACTERS - len(away)
        for repl in live[:MAX_LISTED_REPLS]:
            room -= len(_format_name(repl))
            if described and room < 0:
                break
            described.append(_format_name(repl))
        more = f" and {len(live) - len(described)} more" if len(live) > len(described) else ""
        several = " Pass replSessionKey." if len(live) > 1 else ""
        whose = "shared with human and agents"
        text = f"Codriver: live REPLs, {whose}: {', '.join(described)}{more}.{several}"
    return text + away


def _describe_unavailable(away: Sequence[DescribedRepl]) -> str:
    text = ""
    for repl in away[:MAX_LISTED_REASONS]:
        how = "is stopped" if repl.state == "stopped" else "cannot be reached now"
        why = f"{repl.key} {how}: {repl.why or 'no reason is known'}"
        text += f" {_first_clauses(why)}."
    if len(away) > MAX_LISTED_REASONS:
        text += f" {len(away) - MAX_LISTED_REASONS} more are unavailable; see status."
    return text


def _first_clauses(words: str) -> str:
    """Return as many complete clauses of a string as fit, because half a command or path is useless.

    The first clause may exceed the limit. A semicolon inside a command or quoted text does not end a clause.
    """
    text, *clauses = CLAUSE_END_PATTERN.split(words)
    for clause in clauses:
        if len(text) + len(clause) + 2 > MAX_REASON_CHARACTERS:
            break
        text += f"; {clause}"
    return truncate(text, MAX_CLAUSE_CHARACTERS)


def _format_name(repl: DescribedRepl) -> str:
    known = [repl.kind, repl.dialect if repl.dialect != "unknown" else "", repl.state]
    return f"{repl.key} ({', '.join(filter(None, known))})"[:MAX_NAME_CHARACTERS]


def _describe_workflow(*, evaluates: bool, offered: Collection[str] | None) -> str:
    """Return sentences about how to work with the available tools."""
    if evaluates and (offered is None or "evaluate_code" in offered):
        return " ".join(words for tool, words in WORKFLOW_SENTENCES if not tool or offered is None or tool in offered)
    why = "until a REPL is connected, and its tools wait for one" if evaluates else "because the settings disable it"
    working = " and ".join(tool for tool in NON_EVALUATING_TOOLS if offered is None or tool in offered)
    return f"Nothing can be evaluated {why}." + (f" You can still use {working}." if working else "")


def _describe_skills(skills: Sequence[Skill], budget: int) -> Iterator[str]:
    """Yield a line for each skill, as many as fit into `budget` characters."""
    if not skills:
        return
    head = "Read before evaluating:"
    more = "- more in resources/list"
    budget -= len(head) + len(more) + 2
    yield head
    for number, skill in enumerate(skills):
        line = f"- {skill.uri}"
        if skill.source != OWN_SOURCE:  # the names of Codriver's skills describe their content
            first = re.split(r"(?<=[.!?])\s", " ".join(skill.description.split()))[0]
            line = truncate(f"{line}: {first}", 240)
        budget -= len(line) + 1
        if budget < 0 or number == 8:
            yield more
            return
        yield line
