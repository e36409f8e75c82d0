"""Arguments of `run_tests`, and the command line that they describe for a Python run."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Final, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from codriver.errors import refused
from codriver.repls.kinds import dialects_by_suffix
from codriver.tools.answers.lean_answers import Evaluating
from codriver.tools.calls.arguments import UNLISTED_KEY, WaitMs, remove_default

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codriver.testing.runs import Runner


SOURCE_DIRECTORY_NAME: Final = "src"
"""Name of the directory that contains a distribution's packages, if it has one."""
MAX_PATHS: Final = 1000
"""Maximum number of paths in a call."""
MAX_ARGS: Final = 200
"""Maximum number of arguments for pytest in a call."""
MAX_RUNS: Final = 1000
"""Maximum number of runs of the same tests in a call."""


def _parse_variables(given: object) -> object:
    """Convert strings of the form `NAME=value` to a dictionary. Other values are returned unchanged.

    Clients with strict schemas send such strings, as a list or alone.
    """
    if isinstance(given, str):
        given = _parse_text(given)
    if not isinstance(given, list) or not all(isinstance(variable, str) and "=" in variable[1:] for variable in given):
        return given
    return {name: value for name, _, value in (variable.partition("=") for variable in given)}


def _parse_text(given: str) -> object:
    """Parse a list or dictionary in JSON. Other text is returned as the only element of a list."""
    try:
        read = json.loads(given) if given.lstrip()[:1] in ("[", "{") else None
    except (ValueError, RecursionError):
        read = None
    return read if isinstance(read, list | dict) else [given]


Variables = Annotated[
    dict[str, str],
    BeforeValidator(_parse_variables),
    WithJsonSchema({"type": "array", "items": {"type": "string"}}),
]

UNITTEST_ID_PATTERN: Final = re.compile(
    r"unittest\.loader\._FailedTest\.(?P<module>\w+)|\w+ \((?P<place>[\w.]+)\)|(?!.*\.py$)\w+(?:\.\w+)+"
)
"""Matches the id of a unittest result for a module that cannot be imported, the setup of a class, or a test."""


class TestArguments(Evaluating):
    """The arguments of the tool `run_tests`."""

    CHOOSES_SESSION: ClassVar[bool] = True

    __test__ = False  # or pytest would collect it as a test

    FILES: ClassVar[frozenset[str]] = Evaluating.FILES | {"namespace", "affected_by"}

    paths: list[str] = Field(
        default_factory=list,
        max_length=MAX_PATHS,
        description='Files, directories or file::test, in order; or "affected". Lisp: ns or ns/test. Default: all.',
    )
    directory: str | None = Field(None, description="Run pytest in this directory.")
    env: Variables = Field(default_factory=dict, description="NAME=value.")
    args: list[str] = Field(
        default_factory=list,
        max_length=MAX_ARGS,
        description='pytest options, also for reports: ["-x", "-k", "price", "--durations=3"].',
    )
    affected_by: list[str] = Field(
        default_factory=list,
        max_length=MAX_PATHS,
        description="Run only tests that these files can break. --collect-only lists them.",
    )
    failed: bool = Field(default=False, description="Run only tests that failed last.")
    repeat: int = Field(1, ge=1, le=MAX_RUNS, description="Number of runs.", json_schema_extra=remove_default)
    limit_ms: int | None = Field(None, ge=100, le=86_400_000, description="Time limit of the run (10000 for affected).")
    repl_session_key: str | None = None
    timeout_ms: WaitMs | None = None
    namespace: str | None = Field(None, json_schema_extra={UNLISTED_KEY: True})
    """An older way to pass an entry of `paths`."""
    test: str | None = Field(None, json_schema_extra={UNLISTED_KEY: True})
    """One test in the namespace."""
    match: str | None = Field(None, json_schema_extra={UNLISTED_KEY: True})
    """The expression for pytest's `-k`."""
    fresh: bool = Field(default=False, json_schema_extra={UNLISTED_KEY: True})
    """Whether to start a new process instead of copying a prepared one."""
    on_timeout: Literal["continue", "interrupt"] = Field("continue", json_schema_extra={UNLISTED_KEY: True})
    passed: bool = Field(default=False, json_schema_extra={UNLISTED_KEY: True})
    """Whether to list passed tests as well, for tests in Lisp."""
    report: bool = Field(default=False, json_schema_extra={UNLISTED_KEY: True})
    """Whether to return every result with its duration, as `codriver test` needs for its report."""
    junit: str | None = Field(None, json_schema_extra={UNLISTED_KEY: True})
    """Absolute path of the JUnit XML file that pytest writes, for `codriver test`. Other runners write none."""

    @property
    def all_paths(self) -> tuple[str, ...]:
        """Return the requested paths, including the one passed as `namespace`."""
        return (*self.paths, *([self.namespace] if self.namespace else []))

    @property
    def session_files(self) -> tuple[str, ...]:
        """Return the requested test files, which determine the session. Directories and namespaces are left out."""
        files = (path.partition("::")[0] for path in self.all_paths)
        return tuple(file for file in files if dialects_by_suffix().get(Path(file).suffix))

    @property
    def is_stopped_at_timeout(self) -> bool:
        """Return whether the run stops when the call times out."""
        return self.on_timeout == "interrupt"

    def run_limit_ms(self, wait_ms: int) -> int | None:
        """Return the time limit of the run in milliseconds, or None if it has no limit.

        `wait_ms` is the time for which the call waits.
        """
        return wait_ms if self.limit_ms is None and self.is_stopped_at_timeout else self.limit_ms


def run_directory(arguments: TestArguments, workspace: Path, default: Path) -> Path:
    """Return the working directory of a test run, which is `default` if the caller named none.

    Checks the file system, so it blocks.

    Raises:
        RefusedError: the directory does not exist.
    """
    if arguments.directory is None:
        return default
    directory = Path(os.path.normpath(workspace / arguments.directory))
    if not directory.is_dir():
        raise refused(
            "bad-arguments",
            f"there is no directory {arguments.directory!r}",
            hint='Pass a directory relative to the workspace, such as "backend" for cd backend && pytest.',
        )
    return directory


def pytest_arguments(
    arguments: TestArguments, workspace: Path, directory: Path, failed: Sequence[str] = ()
) -> list[str]:
    """Return the command-line arguments for pytest, options first.

    `failed` contains the tests to run if the caller named no path. Checks the file system, so it blocks.
    """
    command = list(arguments.args)
    if arguments.match:
        command += ["-k", arguments.match]
    command += junit_options(arguments)
    if arguments.test and not arguments.all_paths:
        command += ["-k", arguments.test.rpartition(".")[2]]
    return [*command, *(selected_paths(arguments, workspace, directory) or failed)]


def junit_options(arguments: TestArguments) -> list[str]:
    """Return the pytest option that writes the requested JUnit XML file, or an empty list."""
    return [f"--junitxml={arguments.junit}"] if arguments.junit else []


def selected_paths(arguments: TestArguments, workspace: Path, directory: Path) -> list[str]:
    """Return the files, directories and tests to run, in pytest's notation. An empty list means all tests.

    Checks the file system, so it blocks.
    """
    paths = [pytest_path(path, workspace, directory) for path in arguments.all_paths]
    if arguments.test and paths:
        paths[-1] = f"{paths[-1]}::{arguments.test.replace('.', '::')}"
    return paths


def unittest_arguments(arguments: Sequence[str], runner: Runner) -> list[str]:
    """Convert pytest arguments to arguments for unittest or Django's test command.

    Options without an equivalent are passed on unchanged.
    """
    found: list[str] = []
    options = iter(arguments)
    for option in options:
        if option in ("-x", "--exitfirst", "--maxfail=1"):
            found.append("-f" if runner == "unittest" else "--failfast")
        elif option == "-k":
            found += [option, next(options, "")]
        elif option.startswith("-"):
            found.append(option)
        elif failed := UNITTEST_ID_PATTERN.fullmatch(option):
            found.append(failed["module"] or failed["place"] or option)
        elif runner == "unittest" and "::" not in option and not option.endswith(".py"):
            found = ["discover", "-s", option, *found]
        else:
            found.append(
                option.removesuffix(".py").replace(".py::", ".").replace("::", ".").replace("/", ".").strip(".")
            )
    return found


def pytest_path(given: str, workspace: Path, directory: Path) -> str:
    """Convert a path, node id or module name to pytest's notation, relative to `directory`.

    Names that match no file are returned unchanged.
    """
    file, separator, rest = given.partition("::")
    path = Path(file)
    if file and not path.is_absolute() and not (directory / path).exists() and (workspace / path).exists():
        return os.path.relpath(workspace / path, directory) + separator + rest
    if separator or path.is_absolute() or (directory / path).exists() or not _is_dotted_name(file):
        return given
    return next(_module_paths(file, workspace, directory), given)


def _is_dotted_name(name: str) -> bool:
    return all(part.isidentifier() for part in name.split("."))


def _module_paths(name: str, workspace: Path, directory: Path) -> Iterator[str]:
    """Yield the paths of a module, relative to `directory`.

    If only the beginning of the dotted name is a module, the rest is treated as the name of a test in it.
    """
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        for root in (directory, directory / SOURCE_DIRECTORY_NAME, workspace, workspace / SOURCE_DIRECTORY_NAME):
            stem = root.joinpath(*parts[:count])
            for found in (stem.with_name(f"{stem.name}.py"), stem):
                if found.exists() and (found.suffix or count == len(parts)):
                    yield "::".join([os.path.relpath(found, directory), *parts[count:]])
