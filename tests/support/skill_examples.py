"""Extract the examples from the skills, so that tests can run them.

A fenced block tagged `json` is a tool call: `tool`, `arguments`, and optionally the part of the `answer` that has to
be returned. `<evaluationId>` in an argument stands for that key of the latest answer that has it. A block tagged
`sh` contains shell commands, run in the workspace; `# => text` after one is what it prints. A block with `path=...`
after its language is a file that later examples use, and one with `shows=...` is what a file contains at that point.
Other kinds of blocks would not run, so there are none.
"""

import json
import re
from dataclasses import dataclass, field
from pathlib import Path

SKILLS = Path(__file__).parents[2] / "skills"
FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PLACEHOLDER = re.compile(r"<(\w+)>")


@dataclass(frozen=True)
class File:
    line: int
    path: str
    text: str


@dataclass(frozen=True)
class DisplayedFile:
    line: int
    path: str
    text: str


@dataclass(frozen=True)
class Command:
    line: int
    command: str
    printed: str


@dataclass(frozen=True)
class ToolCall:
    line: int
    tool: str
    arguments: dict
    answer: dict = field(default_factory=dict)

    def filled(self, answers):
        """Return the arguments with each placeholder replaced from the latest of `answers` that has its key."""

        def fill(value):
            if isinstance(value, dict):
                return {key: fill(item) for key, item in value.items()}
            if isinstance(value, list):
                return [fill(item) for item in value]
            found = PLACEHOLDER.fullmatch(value) if isinstance(value, str) else None
            if found is None:
                return value
            return next(answer[found.group(1)] for answer in reversed(answers) if found.group(1) in answer)

        return fill(self.arguments)


def skill_names():
    return sorted(folder.name for folder in SKILLS.iterdir() if (folder / "SKILL.md").is_file())


def examples(skill):
    """Return the files, tool calls and commands of a skill in order, those of its other pages last."""
    pages = [SKILLS / skill / "SKILL.md", *sorted((SKILLS / skill).glob("REFERENCE.md"))]
    return [example for page in pages for example in _read(page.read_text(encoding="utf-8"))]


def _read(text):
    for found in FENCE.finditer(text):
        tag, body = found.groups()
        line = text.count("\n", 0, found.start()) + 1
        if path := re.search(r" path=(\S+)$", tag):
            yield File(line, path.group(1), body)
        elif shows := re.search(r" shows=(\S+)$", tag):
            yield DisplayedFile(line, shows.group(1), body)
        elif tag == "sh":
            for number, command in enumerate(body.splitlines(), line + 1):
                words, _, printed = command.partition("# => ")
                yield Command(number, words.strip(), printed)
        else:
            assert tag == "json", f"line {line}: a block tagged {tag!r} is not run by any test"
            call = json.loads(body)
            assert set(call) <= {"tool", "arguments", "answer"}, f"line {line}: {set(call)}"
            yield ToolCall(line, call["tool"], call["arguments"], call.get("answer", {}))
