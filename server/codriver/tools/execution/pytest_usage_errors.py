"""Explain why pytest refused its arguments, and what to do."""

from __future__ import annotations

import os
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from codriver.testing.runs import RunError


CORRECT_NAME_HINT: Final = "Correct the name of the test, or name its file."
UNKNOWN_OPTION_HINT: Final = (
    "Correct args. If the options come from addopts in the project's settings, install the plugin that defines them, "
    'or pass args: ["-o", "addopts="].'
)
OPTION_PLUGINS: Final = MappingProxyType(
    {
        "--count": "pytest-repeat",
        "--cov": "pytest-cov",
        "--reruns": "pytest-rerunfailures",
        "--timeout": "pytest-timeout",
        "-n": "pytest-xdist",
    }
)
"""Plugins that define frequently used options, by the start of the option."""


def is_usage_error(error: RunError) -> bool:
    """Return whether pytest rejected its arguments."""
    return error.kind == "usage" and error.failure is None


def describe_usage_error(message: str, workspace: Path) -> tuple[str, str]:
    """Return pytest's message about wrong arguments in a short form, and a hint about how to correct them."""
    lines = [line.strip() for line in message.splitlines()]
    lines = [line for line in lines if line and not line.startswith(("usage: ", "inifile: ", "rootdir: ", "(no match"))]
    text = "; ".join(lines).replace(f"{workspace}{os.sep}", "")
    text = text.rpartition(": error: ")[2] or text
    if text.startswith("not found: "):
        file, _, name = text.removeprefix("not found: ").partition("::")
        return f"there is no test {name} in {file}", CORRECT_NAME_HINT
    if "unrecognized arguments" in text:
        return text, _unknown_option_hint(text.partition("unrecognized arguments:")[2].split())
    return text, "Correct paths, or the options in args."


def _unknown_option_hint(options: Sequence[str]) -> str:
    """Explain what to do about options that pytest does not know, and name the plugins that define them."""
    plugins = {
        plugin for start, plugin in OPTION_PLUGINS.items() if any(option.startswith(start) for option in options)
    }
    missing = f"Not installed: {', '.join(sorted(plugins))}. " if plugins else ""
    limit = "To end the whole run after a time, pass limitMs. " if OPTION_PLUGINS["--timeout"] in plugins else ""
    return f"{missing}{limit}{UNKNOWN_OPTION_HINT}"
