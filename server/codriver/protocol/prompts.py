"""Prompts for people to pick in their client: openings for an agent that has these tools."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from codriver.protocol.error_messages import INVALID_PARAMS, RequestRefusedError

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt: `text` with `{name}` for each argument, by name its description and what stands in for it."""

    name: str
    title: str
    description: str
    text: str
    arguments: tuple[tuple[str, str, str], ...] = ()


HANDOFF = "handoff"
TOLD = "{told}"
"""The placeholder in a prompt's text for what the server tells at that moment."""

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
        "and call stacktrace for the frames where that tool is on offer. Explain in plain words what happened and why, "
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
    """A prompt with its arguments filled in, and with what the server tells.

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
