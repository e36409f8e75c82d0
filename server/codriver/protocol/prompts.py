"""Prompts that people choose in their client, to start an agent that has Codriver's tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from codriver.protocol.error_messages import INVALID_PARAMS, RequestRefusedError
from codriver.server_hooks import REPORT_PLACEHOLDER, Prompt

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from codriver.log.redaction import Redactor
    from codriver.net.client_sessions import ClientSession
    from codriver.tools.calls.call import Services

BASE_PROMPTS: Final = (
    Prompt(
        "start_repl_session",
        "Start a REPL session on this project",
        "Get to know this project through its live REPL.",
        "Work on this project through its live REPL. First call list_sessions and repl_output_log to see what is "
        "connected and what happened. Then explore: which namespaces or modules are loaded, what are the entry points? "
        "Evaluate small forms, report what you find, and wait for the task. Topic, if any: {topic}",
        (("topic", "What to explore first.", "none given"),),
    ),
    Prompt(
        "explain_last_error",
        "Explain the last error",
        "Find the newest error in the REPL's log and explain it.",
        "Find the newest error in the REPL: call repl_output_log with category "
        '["evaluationErrorOutput", "otherErrorOutput"] and limit 5, look at the code that caused it (same evaluation), '
        'and call status with about: "error" for the frames. Explain in plain words what happened and why, '
        "check your explanation by evaluating the smallest form that shows it, and propose a fix. Do not change any "
        "files yet. Session, if given: {session}",
        (("session", "The session to inspect.", "any"),),
    ),
    Prompt(
        "summarise_agents",
        "Summarize what the agents did",
        "What was evaluated in the REPLs, by whom, and with what results.",
        "Summarize what was done in the REPLs since {since}. Read repl_output_log, whose entities have who, timestamp, "
        "category and evaluation, and group them by who. For each, describe what they tried, what worked, what failed, "
        "and what is now defined in the REPL but not in a file.",
        (("since", "A time or a log line.", "the beginning of the log"),),
    ),
)
"""The prompts that every server offers. Features add others."""


class Prompts:
    """A server's prompts: the prompts of the base, followed by the prompts of features."""

    def __init__(self, services: Services, redactor: Redactor, added: Sequence[Prompt] = ()) -> None:
        self._services = services
        self._redactor = redactor
        self._by_name = {prompt.name: prompt for prompt in (*BASE_PROMPTS, *added)}

    def list_prompts(self) -> list[dict[str, Any]]:
        """Return all prompts of the server, as data for the result of `prompts/list`."""
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
            for prompt in self._by_name.values()
        ]

    async def fill_prompt(self, client: ClientSession, name: str, given: Mapping[str, str]) -> dict[str, Any]:
        """Return a prompt with the client's arguments and the server's report inserted.

        Raises:
            RequestRefusedError: there is no prompt with this name.
        """
        prompt = self._by_name.get(name)
        if prompt is None:
            raise RequestRefusedError(
                INVALID_PARAMS, f"unknown prompt {name!r}. prompts/list returns the available prompts"
            )
        text = prompt.text
        for argument, _, otherwise in prompt.arguments:
            text = text.replace("{" + argument + "}", given.get(argument) or otherwise)
        if prompt.report is not None:
            report = await prompt.report(self._services, client, given)
            text = text.replace(REPORT_PLACEHOLDER, self._redactor(report))
        content = {"type": "text", "text": text}
        return {"description": prompt.description, "messages": [{"role": "user", "content": content}]}
