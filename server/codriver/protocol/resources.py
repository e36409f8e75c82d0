"""Resources for clients to read: the skills, the output log, and the whole text of an evaluation, in parts.

* `skill://NAME/SKILL.md` and its siblings
* `codriver://log`, and `codriver://log?since=LINE` for the entries after a line; a client can subscribe to the log
* `codriver://handoff`, and `codriver://handoff?who=WHO` for another caller: the standing of the work, in 4,000 bytes
* `codriver://evaluation/ID/PART` where PART is `result`, `stdout`, `stderr` or `stacks`; `offset`, `limit`: characters
  of the whole text. Notes on dropped text, and on more text beyond the default limit, stand beside the text: in
  `_meta`, and for a model, which seldom sees that, as a second content `…#note`.
* `codriver://symbol/SESSION/NAMESPACE/SYMBOL`: the answer of that tool. Each part is percent-encoded by itself, slashes
  too, as names hold any character.
* those of features

Prompts for people to pick in their client: openings for an agent that has these tools.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote, urlsplit

import anyio

from codriver.errors import RefusedError, ReplDisconnectedError, refused
from codriver.features.handoff.live_handoff import handoff
from codriver.log.transcripts import read as read_texts
from codriver.net.seen_clients import OWN_NAMES
from codriver.protocol.error_messages import INVALID_PARAMS, METHOD_NOT_FOUND, RequestRefusedError
from codriver.protocol.skill_resources import GET, LIST, READ_FOLDER, SkillResources
from codriver.skills import LIVE_APP, SCHEME
from codriver.tools.calls.base import client_slug, slug
from codriver.tools.manifest import address
from codriver.tools.symbol_info import describe_symbol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from codriver.core.state import State
    from codriver.log.redaction import Redactor
    from codriver.log.transcripts import Part
    from codriver.net.client_sessions import ClientSession
    from codriver.server_hooks import ResourceFamily, ResourceRow
    from codriver.skills import SkillLibrary
    from codriver.tools.calls.base import Services


LOG_URI = "codriver://log"
LOG_SINCE = "codriver://log{?since}"
HANDOFF_URI = "codriver://handoff"
HANDOFF_FOR = "codriver://handoff{?who}"
EVALUATION = "codriver://evaluation/{evaluationId}/{part}{?offset,limit}"
SYMBOL = "codriver://symbol/{replSessionKey}/{namespace}/{symbol}"
SKILL = "skill://{skill}/SKILL.md"
PARTS: tuple[Part, ...] = ("result", "stdout", "stderr", "stacks")
LOG_ENTITIES = 500
HANDOFF_S = 2.0
NOTHING_YET = "Codriver: nothing was evaluated here yet, and no REPL is known."
TEXT_CHARACTERS = 100_000
MAX_TEXT_CHARACTERS = 16 * 2**20
"""The longest part of a text, also if more is asked for: the whole may be longer than should be in memory."""

NOT_FOUND = -32002
NEWER = "2026"
UNKNOWN = "there is no such resource: resources/list and resources/templates/list tell"


ABOUT_ONE = ("name", "description", "mimeType")
RESOURCES = (
    (
        LOG_URI,
        "REPL output log",
        "What passed through the REPLs, newest last. Add ?since=LINE for what came after a line.",
        "application/json",
    ),
    (
        HANDOFF_URI,
        "Handoff",
        "How things stand, for who takes over or has forgotten: goals, failures, tests, unsaved code.",
        "text/plain",
    ),
)
"""The resources that always exist, as rows: address, name, description, type."""
TEMPLATES = (
    (
        LOG_SINCE,
        "REPL output log from a line on",
        "Entities with a line above `since`; `gap` is true when some of them are evicted already.",
        "application/json",
    ),
    (
        HANDOFF_FOR,
        "Handoff to a caller",
        "How things stand, with what others did since the last call of `who`.",
        "text/plain",
    ),
    (
        EVALUATION,
        "Text of an evaluation",
        "The whole result, stdout, stderr or stacks of an evaluation, or so many characters of it.",
        "text/plain",
    ),
    (
        SYMBOL,
        "Symbol info",
        "What a REPL knows of a symbol used in a namespace. Percent-encode each part, slashes too.",
        "application/json",
    ),
    (SKILL, "Skill", "A guide to working here: resources/list has those on offer.", "text/markdown"),
)
"""The families of resources, in rows of the same kind."""

ABOUT = "codriver/"
"""The prefix of the names in a content's `_meta`. Source: MCP, general fields, `_meta`."""


@dataclass(frozen=True, slots=True)
class Found:
    """The content of a resource, as text or, where it is no text, as bytes.

    `note` and `about` name the parts that its text lacks, for models and for programs.
    """

    mime_type: str
    text: str | bytes
    note: str = ""
    about: dict[str, object] = field(default_factory=dict)


class Resources:
    """The resources of one server."""

    def __init__(
        self, services: Services, skills: SkillLibrary, redactor: Redactor, added: Sequence[ResourceFamily] = ()
    ) -> None:
        """`added`: the resources of features."""
        self._added = {(one.kind, one.parts): one for one in added}
        self._plain = frozenset(one.kind for one in added if one.has_plain_path)
        self._rows = [(*_row(row), one.mime_type) for one in added for row in one.listed]
        self._template_rows = [(*_row(row), one.mime_type) for one in added for row in one.templates]
        self._services = services
        self._library = skills
        self._skills = SkillResources(skills, redactor)

    async def listed(self, client: ClientSession) -> list[dict[str, str]]:
        """The resources that exist now: the log, and the skills on offer to this client."""
        always = [dict(zip(("uri", *ABOUT_ONE), one, strict=True)) for one in (*RESOURCES, *self._rows)]
        if not client.takes_skills:
            return always
        return always + await anyio.to_thread.run_sync(self._skills.listed, self._hidden())

    def templates(self, client: ClientSession) -> list[dict[str, str]]:
        """The families of resources that are too many to list."""
        every = (*TEMPLATES, *self._template_rows)
        families = every if client.takes_skills else [one for one in every if one[0] != SKILL]
        return [dict(zip(("uriTemplate", *ABOUT_ONE), one, strict=True)) for one in families]

    async def list_skills(self, client: ClientSession, cursor: str | None) -> dict[str, Any]:
        """Return a page of the skills on offer to a client.

        Raises:
            RequestRefusedError: the client has no skills of this server, or the cursor is none of ours.
        """
        self._check_takes_skills(client, LIST)
        return await anyio.to_thread.run_sync(self._skills.list_skills, cursor, self._hidden())

    async def get_skill(self, client: ClientSession, uri: str) -> dict[str, Any]:
        """Return one skill, by the address of its guide.

        Raises:
            RequestRefusedError: the client has no skills of this server, or there is none at this address.
        """
        self._check_takes_skills(client, GET)
        return await anyio.to_thread.run_sync(self._skills.get_skill, uri)

    async def read_folder(self, client: ClientSession, uri: str, cursor: str | None) -> dict[str, Any]:
        """Return a page of what is in a folder.

        Raises:
            RequestRefusedError: the client has no skills of this server, there is no such folder, or the cursor is none
                of ours.
        """
        self._check_takes_skills(client, READ_FOLDER)
        return await anyio.to_thread.run_sync(self._skills.read_folder, uri, cursor)

    def _check_takes_skills(self, client: ClientSession, method: str) -> None:
        if not client.takes_skills:
            raise RequestRefusedError(METHOD_NOT_FOUND, f"there is no method {method!r}", method)

    def _hidden(self) -> tuple[str, ...]:
        return hidden_skills(self._services.core.state)

    async def read(self, uri: str, protocol: str, client: ClientSession) -> Found:
        """The text of a resource, for a client.

        Raises:
            RequestRefusedError: there is no such resource; the code is that of the client's protocol version.
        """
        uri = self._ours(uri)
        try:
            if is_skill(uri) and client.takes_skills:
                return Found(*await anyio.to_thread.run_sync(self._skills.read, uri))
            split = urlsplit(uri)
            query = {key: values[0] for key, values in parse_qs(split.query).items()}
            parts = [unquote(part, errors="strict") for part in split.path.split("/")[1:]]
            match (split.scheme, split.netloc, *parts):
                case ("codriver", "log") | ("codriver", "log", ""):
                    return Found("application/json", self._log(query))
                case ("codriver", "handoff") | ("codriver", "handoff", ""):
                    return Found("text/plain", await self.handoff(client, query.get("who")))
                case ("codriver", "evaluation", identity, part):
                    return await self._text(identity, part, query)
                case ("codriver", "symbol", key, namespace, symbol):
                    return _json(await describe_symbol(self._services, key, namespace, symbol))
                case ("codriver", kind, *given) if family := self._family(kind, given):
                    text = await family.read(self._services, client, [one for one in given if one], query)
                    return Found(family.mime_type, text)
        except RefusedError as error:
            raise _missing(f"{error.message}: {error.hint}", uri, protocol) from error
        except ReplDisconnectedError as error:
            raise _missing(str(error), uri, protocol) from error
        except UnicodeDecodeError as error:
            raise RequestRefusedError(INVALID_PARAMS, "a part of the address is not percent-encoded UTF-8") from error
        except ValueError as error:
            raise RequestRefusedError(INVALID_PARAMS, f"since, offset and limit are whole numbers: {error}") from error
        raise _missing(UNKNOWN, uri, protocol)

    def _ours(self, uri: str) -> str:
        """The address that stands for one of Backseat Driver's; a skill on offer and any other keep theirs."""
        name = uri.removeprefix(SCHEME).partition("/")[0] if is_skill(uri) else ""
        return uri if any(skill.id == name for skill in self._library.skills()) else address(uri, self._plain)

    def _family(self, kind: str, parts: Sequence[str]) -> ResourceFamily | None:
        """Return the feature's resources that an address is one of; a last part may be empty."""
        return self._added.get((kind, len(parts) - 1 if parts and not parts[-1] else len(parts)))

    async def check(self, uri: str, protocol: str, client: ClientSession) -> None:
        """Check that there is such a resource, without asking a REPL or the network. Skills are read from the disk.

        Raises:
            RequestRefusedError: there is no such resource; the code is that of the client's protocol version.
        """
        uri = self._ours(uri)
        split = urlsplit(uri)
        try:
            if is_skill(uri) and client.takes_skills:
                await anyio.to_thread.run_sync(self._skills.read, uri)
                return
            match (split.scheme, split.netloc, *split.path.split("/")[1:]):
                case ("codriver", "log" | "handoff") | ("codriver", "log" | "handoff", ""):
                    return
                case ("codriver", "symbol", _, _, _):
                    return
                case ("codriver", kind, *given) if self._family(kind, given):
                    return
                case ("codriver", "evaluation", identity, part):
                    if part in PARTS and self._services.transcripts.get(unquote(identity)) is not None:
                        return
        except RefusedError as error:
            raise _missing(f"{error.message}: {error.hint}", uri, protocol) from error
        raise _missing(UNKNOWN, uri, protocol)

    async def handoff(self, client: ClientSession, who: str | None) -> str:
        """The handoff for the caller `who`; without one, for the client's own caller, or nobody if a command asks."""
        is_command = client.name.startswith(OWN_NAMES)
        reader = slug(who or "") or ("" if is_command else client_slug(client.name))
        told = await handoff(
            self._services, reader, client=client.id, is_for_another=is_command or bool(who), wait_s=HANDOFF_S
        )
        return told or NOTHING_YET

    def _log(self, query: dict[str, str]) -> str:
        log = self._services.log
        since = int(query["since"]) if "since" in query else None
        entries = log.entries(since=since, limit=LOG_ENTITIES)
        is_cut = len(entries) == LOG_ENTITIES and entries[0].line > (log.first_line or 0)
        last_missing_line = entries[0].line - 1 if is_cut else log.last_evicted_line
        gap = since is not None and last_missing_line > since
        shown = {
            "entities": [entry.to_json() for entry in entries],
            "count": len(entries),
            "firstLine": log.first_line,
            "lastLine": log.last_line,
            "gap": gap,
        }
        return json.dumps(shown, ensure_ascii=False)

    async def _text(self, identity: str, part: str, query: dict[str, str]) -> Found:
        transcript = self._services.transcripts.get(identity)
        chosen = next((name for name in PARTS if name == part), None)
        if transcript is None or chosen is None:
            raise refused(
                "forgotten",
                f"no text {part!r} of an evaluation {identity!r} is held",
                hint="parts are result, stdout, stderr and stacks; texts of old evaluations are forgotten",
            )
        offset, limit = max(0, int(query.get("offset", 0))), max(0, int(query.get("limit", TEXT_CHARACTERS)))
        given = min(limit, MAX_TEXT_CHARACTERS)
        piece = await read_texts(partial(transcript.piece, chosen, offset, given), transcript)
        about: dict[str, object] = {}
        notes: list[str] = []
        if offset < piece.dropped:
            about[f"{ABOUT}dropped"] = {"from": offset, "to": piece.dropped}
            notes.append(f"characters {offset} to {piece.dropped} were dropped, {transcript.loss}")
        end = piece.start + len(piece.text)
        if ("limit" not in query or given < limit) and end < piece.total:
            about |= {f"{ABOUT}totalCharacters": piece.total, f"{ABOUT}nextOffset": end}
            notes.append(f"{piece.total} characters in all: go on with ?offset={end}")
        return Found("text/plain", piece.text, "; ".join(notes), about)


def hidden_skills(state: State) -> tuple[str, ...]:
    """The skills that teach nothing now: that of applications, if none shows itself."""
    return () if "seam" in state.promised() else (LIVE_APP,)


def is_skill(uri: str) -> bool:
    """Whether `uri` is that of a skill's file."""
    return uri.startswith(SCHEME)


def _row(row: ResourceRow) -> tuple[str, str, str]:
    return row.uri, row.title, row.description


def _json(fields: Mapping[str, object]) -> Found:
    return Found("application/json", json.dumps(fields, ensure_ascii=False))


def _missing(text: str, uri: str, protocol: str) -> RequestRefusedError:
    # The code for a resource that does not exist changed in the version of 2026.
    return RequestRefusedError(INVALID_PARAMS if protocol.startswith(NEWER) else NOT_FOUND, text, {"uri": uri})


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt: `text` with `{name}` for each argument; of each argument its name, description, and substitute text."""

    name: str
    title: str
    description: str
    text: str
    arguments: tuple[tuple[str, str, str], ...] = ()


HANDOFF = "handoff"
TOLD = "{told}"
"""The placeholder in a prompt's text for the server's report at that moment."""

PROMPTS = (
    Prompt(
        "start_repl_session",
        "Start a REPL session on this project",
        "Get to know this project through its live REPL.",
        "Work on this project through its live REPL. First call list_sessions and repl_output_log to see what is "
        "connected and what happened. Then explore: which namespaces or modules are loaded, what are the entry points? "
        "Evaluate small forms, say what you find, and wait for the task. Topic, if any: {topic}",
        (("topic", "What to look at first.", "none given"),),
    ),
    Prompt(
        "explain_last_error",
        "Explain the last error",
        "Find the newest error in the REPL's log and explain it.",
        "Find the newest error in the REPL: call repl_output_log with category "
        '["evaluationErrorOutput", "otherErrorOutput"] and limit 5, look at the code that caused it (same evaluation), '
        'and call status with about: "error" for the frames. Explain in plain words what happened and why, '
        "check your explanation by evaluating the smallest form that shows it, and propose a fix. Change no file yet. "
        "Session, if one is meant: {session}",
        (("session", "The session to look at.", "any"),),
    ),
    Prompt(
        "summarise_agents",
        "Summarise what the agents did",
        "What was evaluated in the REPLs, by whom, and what came of it.",
        "Summarise what was done in the REPLs since {since}: read repl_output_log (entities carry who, timestamp, "
        "category and evaluation), group by who, and say for each what they tried, what worked, what failed, and what "
        "is now defined in the REPL that is not in a file.",
        (("since", "A time or a log line.", "the beginning of the log"),),
    ),
    Prompt(
        "session_to_test",
        "Make a test of this session",
        "Turn what was evaluated into a test file that is verified in a fresh REPL.",
        "Make a test file of what was evaluated: {what}. Find the evaluations with repl_output_log (entities carry "
        "evaluation, description and who); choose those that show what the code promises, with what they need before "
        "them. Ask whether that code may run again, with all its effects, in a fresh REPL; then run in a shell "
        "`codriver export ID ... -o FILE`, or with `--since NAME` from a checkpoint on. Name the tests for what they "
        "promise, drop what only explored, and look into all that is marked as different. Run them with run_tests, "
        "then break one definition and see its test turn red.",
        (("what", "A function, a checkpoint, a time.", "the last piece of work"),),
    ),
    Prompt(
        HANDOFF,
        "Take over, or go on after a break",
        "How things stand in the REPLs: goals, failures, tests, what is in no file, who is here.",
        "Take over the work in the live REPLs of this project, or go on with it. How things stand, by their log:\n\n"
        f"{TOLD}\n\nLook first at what it names first: check it in the REPL and in the files, and say what you "
        'found and what you will do. When something works, evaluate with description "checkpoint: NAME".',
        (("who", "The caller whose work it is.", ""),),
    ),
)


def listed() -> list[dict[str, Any]]:
    """All prompts, as clients list them."""
    return [
        {
            "name": prompt.name,
            "title": prompt.title,
            "description": prompt.description,
            "arguments": [
                {"name": name, "description": description, "required": False}
                for name, description, _ in prompt.arguments
            ],
        }
        for prompt in PROMPTS
    ]


def filled(name: str, arguments: Mapping[str, str] | None, *, told: str = "") -> dict[str, Any]:
    """A prompt with its arguments filled in, and with the server's report.

    Raises:
        RequestRefusedError: there is no prompt of this name.
    """
    prompt = next((prompt for prompt in PROMPTS if prompt.name == name), None)
    if prompt is None:
        raise RequestRefusedError(INVALID_PARAMS, f"unknown prompt {name!r}: prompts/list names those there are")
    given = arguments or {}
    text = prompt.text
    for argument, _, otherwise in prompt.arguments:
        text = text.replace("{" + argument + "}", given.get(argument) or otherwise)
    content = {"type": "text", "text": text.replace(TOLD, told)}
    return {"description": prompt.description, "messages": [{"role": "user", "content": content}]}
