"""The programs that run in a test process, as one file of sources that the process loads.

One file is opened and read faster than ten, and the process keeps it compiled next to it. The sources are those of
`programs`, and of the embedded REPL's modules that they use.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from codriver import files
from codriver.files import Links
from codriver.files.own_folders import cache_folder, make_private_folder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codriver.testing.runs import Runner

_PACKAGE: Final = Path(__file__).parents[1]
BOOT: Final = Path(__file__).with_name("programs") / "boot.py"
ROOT: Final = "_codriver"
"""The name of Codriver's package in a test process, while its programs are loaded."""
_PROGRAMS: Final = "testing.programs."
BEFORE_RUNNERS: Final = (f"{_PROGRAMS}event_file", f"{_PROGRAMS}bytecode", f"{_PROGRAMS}process")
"""The programs that need no runner, nor what it imports."""
_FOR_FAILURES: Final = (
    "repls.worker.basics.previews",
    "repls.worker.basics.plain_values",
    f"{_PROGRAMS}failures",
)
_EVENTS: Final = {
    "pytest": f"{_PROGRAMS}pytest_events",
    "unittest": f"{_PROGRAMS}unittest_events",
    "django": f"{_PROGRAMS}unittest_events",
}
_ALL: Final = (*BEFORE_RUNNERS, *_FOR_FAILURES, *dict.fromkeys(_EVENTS.values()))
"""Each after those that it imports."""


def modules_for(runner: Runner, recorders: Sequence[str] = ()) -> list[str]:
    """Return the names of the programs for a run."""
    return [f"{ROOT}.{name}" for name in (*BEFORE_RUNNERS, *_FOR_FAILURES, _EVENTS[runner], *recorders)]


def plugin_of(runner: Runner) -> str:
    """Return the program that attaches itself to a runner."""
    return _EVENTS[runner].rpartition(".")[2]


@cache
def _sources() -> bytes:
    texts = [(f"{ROOT}.{name}", _read(name)) for name in _ALL]
    return ascii(texts).encode()


def _read(name: str) -> str:
    return (_PACKAGE.joinpath(*name.split(".")).with_suffix(".py")).read_text("utf-8")


def bundle() -> Path:
    """Return the file of sources, which is written if it is missing. Blocks.

    Raises:
        OSError: it cannot be written.
    """
    data = _sources()
    folder = cache_folder() / "test-programs"
    file = folder / f"{hashlib.sha256(data).hexdigest()[:16]}.txt"
    if not file.exists():
        make_private_folder(folder)
        files.replace(file, data, links=Links.OWN, is_durable=False)
    return file
