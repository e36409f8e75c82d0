"""`completion/complete`: values for the arguments of prompts and of resource templates, while a person types them.

The values come from the state, the log and the skills. Names of code come from the REPL's operation for completion,
which runs nothing of the caller's session. Nobody waits for a REPL longer than `ASK_S`, and a REPL that would answer
only after an evaluation is not asked: then fewer values come, and `hasMore` says that there are others.
Source: MCP 2026-07-28, completion.
"""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import anyio
import mcp_types as types
from mcp.shared.exceptions import MCPError
from mcp_types.jsonrpc import INVALID_PARAMS

from codriver.core.values import HELD
from codriver.errors import CodriverError
from codriver.protocol.resources import DOCS, EVALUATION, HANDOFF_FOR, LOG_SINCE, PARTS, SKILL, SYMBOL, hidden_skills
from codriver.tools.calls.session_choice import resolve
from codriver.tools.symbol_info import SPACES, candidates, names_like

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from codriver.log.redaction import Redactor
    from codriver.skills import SkillLibrary
    from codriver.tools.calls.base import Services
    from codriver.tools.calls.session_choice import Target

T = TypeVar("T")

MOST = 100
"""Values of one answer. Source: MCP, completion results."""
MOST_LOOKED_AT = 10_000
"""Values of one kind that are looked at, so that an answer takes milliseconds."""
VALUE_CHARACTERS = 500
ASK_S = 1.0
"""A REPL completes in milliseconds; a person who types does not wait longer."""
MOST_ASKED = 4
"""Questions of one client to REPLs at a time: a person who types on gets the answer to the last text."""

KINDS: Mapping[tuple[str, str], tuple[str, ...]] = MappingProxyType(
    {
        ("start_repl_session", "topic"): ("sessions", "skills", "symbols"),
        ("explain_last_error", "session"): ("sessions",),
        ("summarise_agents", "since"): ("start", "lines"),
        ("session_to_test", "what"): ("symbols",),
        ("handoff", "who"): ("callers",),
        (HANDOFF_FOR, "who"): ("callers",),
        (LOG_SINCE, "since"): ("lines",),
        (EVALUATION, "evaluationId"): ("evaluations",),
        (EVALUATION, "part"): ("parts",),
        (EVALUATION, "offset"): (),
        (EVALUATION, "limit"): (),
        (SYMBOL, "replSessionKey"): ("sessions",),
        (SYMBOL, "namespace"): ("namespaces",),
        (SYMBOL, "symbol"): ("symbols",),
        (DOCS, "symbol"): ("symbols",),
        (SKILL, "skill"): ("skills",),
    }
)
"""The kinds of values that an argument takes, by the prompt's name or the template, and the argument's name."""


class Values(NamedTuple):
    """Values of one kind, likeliest first; `is_all`: there are no others."""

    values: Iterable[str]
    is_all: bool = True


class Question(NamedTuple):
    """The beginning of an argument that a client has typed, and the other arguments that it gave."""

    client: str
    text: str
    given: Mapping[str, str]


class Completions:
    """The completions of one server, for all its clients. Lives as long as the server."""

    def __init__(self, services: Services, skills: SkillLibrary, redactor: Redactor) -> None:
        self._services = services
        self._skills = skills
        self._redactor = redactor
        self._asking: Counter[str] = Counter()
        """Questions to REPLs that are not answered yet, by client."""

    async def complete(self, client: str, params: types.CompleteRequestParams) -> types.CompleteResult:
        """The values that fit what `client` has typed so far, likeliest first.

        Raises:
            MCPError: there is no such prompt or template, or no such argument of it.
        """
        whose = params.ref.name if isinstance(params.ref, types.PromptReference) else params.ref.uri
        kinds = KINDS.get((whose, params.argument.name))
        if kinds is None:
            raise MCPError(INVALID_PARAMS, _unknown(whose, params.argument.name))
        given = params.context.arguments if params.context and params.context.arguments else {}
        question = Question(client, params.argument.value, given)
        found: list[str] = []
        is_all = True
        for kind in kinds if len(question.text) <= VALUE_CHARACTERS else ():
            values = await self._of_kind(kind, question)
            found += fitting(values.values, question.text)
            is_all = is_all and values.is_all
        shown = [value for value in dict.fromkeys(found) if self._redactor(value) == value]
        completion = types.Completion(
            values=shown[:MOST], total=len(shown) if is_all else None, has_more=len(shown) > MOST or not is_all
        )
        return types.CompleteResult(completion=completion)

    async def _of_kind(self, kind: str, question: Question) -> Values:
        if kind == "symbols":
            return await self._symbols(question)
        if kind == "namespaces":
            return await self._namespaces(question)
        listed: Mapping[str, Callable[[], Iterable[str]]] = {
            "sessions": self._sessions,
            "skills": self._skill_names,
            "evaluations": self._evaluations,
            "parts": lambda: PARTS,
            "lines": self._lines,
            "start": self._start,
            "callers": self._callers,
        }
        some = list(islice(listed[kind](), MOST_LOOKED_AT + 1))
        return Values(some[:MOST_LOOKED_AT], len(some) <= MOST_LOOKED_AT)

    def _sessions(self) -> Iterable[str]:
        for repl in self._services.core.state.repls.values():
            for session in repl.sessions.values():
                if not session.is_leaving:
                    yield repl.session_key(session.name)

    def _skill_names(self) -> Iterable[str]:
        hidden = hidden_skills(self._services.core.state)
        return (skill.id for skill in self._skills.skills() if skill.id not in hidden)

    def _evaluations(self) -> Iterable[str]:
        """The ids of the evaluations whose texts are held, the newest first."""
        transcripts = self._services.transcripts
        newest_first = reversed(self._services.core.state.evaluations)
        return (one for one in newest_first if transcripts.get(one) is not None)

    def _callers(self) -> Iterable[str]:
        """The callers that evaluated, the newest first."""
        evaluations = self._services.core.state.evaluations
        return dict.fromkeys(evaluations[one].who for one in reversed(evaluations))

    def _lines(self) -> Iterable[str]:
        """The lines of the log, the newest first."""
        return (str(entry.line) for entry in reversed(self._services.log.entries(limit=MOST_LOOKED_AT + 1)))

    def _start(self) -> Iterable[str]:
        """The time at which the server was started."""
        started_at = self._services.core.state.life.started_at
        yield datetime.fromtimestamp(started_at / 1000, UTC).isoformat(timespec="seconds")

    async def _symbols(self, question: Question) -> Values:
        target = self._target(question)
        if target is None or not question.text:  # all names of a REPL help nobody
            return Values((), is_all=target is None)
        namespace = question.given.get("namespace") or None
        found = await self._ask(
            question.client, target, partial(candidates, self._services, target, question.text, namespace)
        )
        # A server may leave out some of many, and does not say so.
        return Values([one.candidate for one in found or ()], is_all=found is not None and len(found) <= MOST)

    async def _namespaces(self, question: Question) -> Values:
        target = self._target(question)
        if target is None:
            return Values(())
        own = [target.session.namespace] if target.session.namespace else []
        names = await self._ask(
            question.client, target, partial(names_like, self._services, target, f"{question.text}*")
        )
        if names is None:
            return Values(own, is_all=False)
        return Values([*own, *(one.name for one in names.listed if one.type in SPACES)], is_all=not names.omitted)

    async def _ask(self, client: str, target: Target, question: Callable[[], Awaitable[T]]) -> T | None:
        """The answer of a REPL; None if none comes in time."""
        if self._asking[client] >= MOST_ASKED or self._is_busy(target):
            return None
        self._asking[client] += 1
        try:
            with anyio.move_on_after(ASK_S):
                return await question()
        except CodriverError:  # the REPL was lost meanwhile, or has no such namespace
            return None
        finally:
            self._asking[client] -= 1
            if not self._asking[client]:
                del self._asking[client]
        return None

    def _is_busy(self, target: Target) -> bool:
        """Whether an answer would wait behind an evaluation: completion is one itself, or cannot run beside one."""
        repl, profile = target.repl, target.repl.profile
        if profile is None:
            return True
        waits = profile.isolation == "none" or (profile.is_serial and profile.capabilities["complete"].adapted)
        unfinished = self._services.core.state.unfinished()
        return waits and any(one.repl == repl.id and one.status in HELD for one in unfinished)

    def _target(self, question: Question) -> Target | None:
        """The session that the client named, or the only one, if its REPL can complete."""
        try:
            target = resolve(self._services.core.state, question.given.get("replSessionKey") or None)
        except CodriverError:
            return None
        profile = target.repl.profile
        can = target.repl.phase == "connected" and profile is not None and "complete" in profile.capabilities
        return target if can else None


def fitting(values: Iterable[str], text: str) -> list[str]:
    """The values that begin with `text`, then those that hold it; in their order, in upper or lower case."""
    wanted = text.casefold()
    begin: list[str] = []
    hold: list[str] = []
    for value in values:
        folded = value.casefold()
        if folded.startswith(wanted):
            begin.append(value)
        elif wanted in folded:
            hold.append(value)
    return begin + hold


def _unknown(whose: str, argument: str) -> str:
    own = [name for known, name in KINDS if known == whose]
    if own:
        return f"{whose} has no argument {argument!r}; it has: {', '.join(own)}"
    return (
        f"there is no prompt or resource template {whose!r} with arguments: prompts/list and resources/templates/list"
    )
