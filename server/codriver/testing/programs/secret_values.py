"""Find the secrets of a test run by name: in its environment, the project's `.env`, and Django's settings.

The server removes them from everything that the run prints and reports. They are searched for before the tests and
after each test, because code may load them at any time. No project code is called.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from .event_file import EventFile

SECRET_NAME_ENDINGS = ("_KEY", "_SECRET", "_TOKEN", "_PASSWORD")
"""Endings of the names of secrets. The redaction of the log uses the same endings."""
MIN_SECRET_CHARACTERS = 8
"""Minimum length of a value that counts as a secret, in characters."""
SETTINGS_FILE_NAME = ".env"
"""Name of a project's settings file, which may contain secrets."""
MAX_SETTINGS_CHARACTERS = 2**18
"""Maximum number of characters to read from the settings file."""


class SecretValues:
    """Finds secrets by the names of variables and settings, and reports each of them once."""

    def __init__(self, events: EventFile) -> None:
        self._events = events
        self._seen: set[tuple[str, str]] = set()

    def report_all(self) -> None:
        """Report secrets from all sources that have not been reported yet."""
        self._report_new([*secrets_from_file(SETTINGS_FILE_NAME), *from_environment(), *secrets_from_django()])

    def report_environment(self) -> None:
        """Report secrets in the environment that have not been reported yet."""
        self._report_new(list(from_environment()))

    def _report_new(self, values: list[tuple[str, str]]) -> None:
        """Report the values that have not been reported yet, each with its name."""
        new = [pair for pair in values if pair not in self._seen]
        if new:
            self._seen.update(new)
            self._events.write("secrets", named=[list(pair) for pair in new])


def is_secret(name: object, value: object) -> bool:
    """Return whether a value is a secret, according to its name and its length."""
    is_text = type(name) is str and type(value) is str
    return is_text and name.upper().endswith(SECRET_NAME_ENDINGS) and len(value) >= MIN_SECRET_CHARACTERS  # type: ignore[attr-defined, arg-type]


def from_environment() -> Iterator[tuple[str, str]]:
    """Yield the secrets in `os.environ`, even if a test has replaced it."""
    try:
        names = [name for name in list(os.environ) if name.upper().endswith(SECRET_NAME_ENDINGS)]
        yield from [(name, os.environ[name]) for name in names if is_secret(name, os.environ.get(name))]
    except Exception:
        return


def secrets_from_file(path: str) -> Iterator[tuple[str, str]]:
    """Yield the secrets in a file with lines of the form `NAME=value`."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = file.read(MAX_SETTINGS_CHARACTERS).splitlines()
    except OSError:
        return
    for line in lines:
        name, _, value = line.partition("=")
        value = value.strip()
        quoted = value[:1] in ("'", '"') and value.find(value[0], 1) > 0
        value = value[1 : value.find(value[0], 1)] if quoted else value.partition(" #")[0].strip()
        name = name.strip()[len("export ") :].strip() if name.strip().startswith("export ") else name.strip()
        if is_secret(name, value):
            yield name, value


def secrets_from_django() -> Iterator[tuple[str, str]]:
    """Yield the secrets in Django's settings, if they are loaded."""
    settings: Any = getattr(sys.modules.get("django.conf"), "settings", None)
    wrapped = getattr(settings, "__dict__", {}).get("_wrapped")
    yield from [
        (name, attribute) for name, attribute in getattr(wrapped, "__dict__", {}).items() if is_secret(name, attribute)
    ]
