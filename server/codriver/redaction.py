"""Secrets of the environment are taken out of text before it goes anywhere.

A secret is the value, at least 8 characters long, of an environment variable whose name ends in `_KEY`, `_SECRET`,
`_TOKEN` or `_PASSWORD`. It becomes `<<redacted:NAME>>`, also where it stands escaped as in a printed string.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

NAME_ENDINGS = ("_KEY", "_SECRET", "_TOKEN", "_PASSWORD")
MIN_CHARACTERS = 8  # shorter values are words like "true" or "dev", and would tear ordinary text apart


class Redactor:
    """Takes secrets out of text. Made once, from the environment as it is then; safe to share between threads."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        """`secrets`: by variable name. When two have the same value, the first name in the alphabet stands for it."""
        self._marks: dict[str, str] = {}
        for name, secret in sorted(secrets.items()):
            for form in (secret, _escaped(secret)):
                self._marks.setdefault(form, f"<<redacted:{name}>>")
        longest_first = sorted(self._marks, key=len, reverse=True)
        self._secrets = tuple(longest_first)
        self._pattern = re.compile("|".join(map(re.escape, longest_first)) if longest_first else r"(?!)")

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> Redactor:
        """The redactor for the secrets in these environment variables."""
        return cls(
            {
                name: value
                for name, value in environ.items()
                if name.upper().endswith(NAME_ENDINGS) and len(value) >= MIN_CHARACTERS
            }
        )

    def __call__(self, text: str) -> str:
        """The text without secrets. Where two overlap, the one that begins first goes, the longer one at a tie."""
        # Looking for each literal is far faster than the pattern, and nearly always all there is to do.
        for secret in self._secrets:
            if secret in text:
                return self._pattern.sub(lambda match: self._marks[match[0]], text)
        return text

    def redact_json(self, value: object) -> object:
        """A JSON value with every string in it redacted, keys included. Lists and tuples become lists."""
        if isinstance(value, str):
            return self(value)
        if isinstance(value, dict):
            return {self.redact_json(key): self.redact_json(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.redact_json(item) for item in value]
        return value

    def stream(self) -> StreamRedactor:
        """A redactor for one stream of text that comes in chunks."""
        return StreamRedactor(self._secrets, self._pattern, self._marks)


class StreamRedactor:
    """Redacts a stream whose chunks may split a secret. Lives as long as the stream.

    Only a chunk's end that could be the beginning of a secret is kept back, until the next chunk or `flush` decides;
    all other text goes out at once. Ordinary text mostly keeps back nothing, and never more than the longest secret.
    """

    def __init__(self, secrets: tuple[str, ...], pattern: re.Pattern[str], marks: Mapping[str, str]) -> None:
        self._secrets = secrets
        self._pattern = pattern
        self._marks = marks
        self._kept = ""

    def feed(self, chunk: str) -> str:
        """What can go out now, without secrets."""
        text = self._kept + chunk if self._kept else chunk
        # As above: looking for each literal is far faster, and nearly always all there is to do.
        if not any(secret in text for secret in self._secrets):
            undecided = self._beginning(text, 0)
            self._kept = text[undecided:]
            return text[:undecided] if self._kept else text
        done: list[str] = []
        place = 0
        for match in self._pattern.finditer(text):
            undecided = self._beginning(text, place)
            if undecided <= match.start():  # it may become a longer secret that begins no later
                break
            done += text[place : match.start()], self._marks[match[0]]
            place = match.end()
        undecided = self._beginning(text, place)
        self._kept = text[undecided:]
        done.append(text[place:undecided])
        return "".join(done)

    def flush(self) -> str:
        """What was kept back: call it when the stream ends, or pauses for longer than its reader should wait."""
        kept, self._kept = self._kept, ""
        return self._pattern.sub(lambda match: self._marks[match[0]], kept)

    def _beginning(self, text: str, start: int) -> int:
        """The first place from `start` on from which the rest of the text is the beginning of a secret, or its end."""
        first = len(text)
        for secret in self._secrets:
            place = text.find(secret[0], max(start, len(text) - len(secret) + 1), first)
            while place >= 0:
                if secret.startswith(text[place:]):
                    first = place
                    break
                place = text.find(secret[0], place + 1, first)
        return first


def _escaped(secret: str) -> str:
    """The secret as it stands in a printed string."""
    return json.dumps(secret, ensure_ascii=False)[1:-1]
