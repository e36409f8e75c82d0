"""Write the files that a test process reads when it starts: its request, programs and replaced sources."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from codriver.testing import program_bundle

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codriver.testing.runs import RunSpec

SOURCES_DIRECTORY: Final = "sources"
"""Name of the directory with the content that a run sees in place of the files on disk."""
RETAINED_PROCESS_PROGRAMS: Final = "kept process"
"""Name of the additional programs that keep the process of a failed run alive."""


def make_directory() -> Path:
    """Create a temporary directory for a run's files. Blocks."""
    return Path(tempfile.mkdtemp(prefix="codriver-tests-"))


def write_start_files(spec: RunSpec, directory: Path) -> Path:
    """Write the files that the process reads when it starts. Return the file with its programs. Blocks."""
    for name in ("output", "events"):
        (directory / name).touch(mode=0o600)
    if spec.sources:
        _write_sources(spec, directory / SOURCES_DIRECTORY)
    programs = program_bundle.bundle_programs(
        spec.runner,
        (*_recorder_options(spec), *([RETAINED_PROCESS_PROGRAMS] if _retains_process(spec) else [])),
        run_directory=directory,
    )
    (directory / "request").write_text(ascii(_build_request(spec, directory, programs)), "ascii")
    return programs


def _write_sources(spec: RunSpec, run_directory: Path) -> None:
    """Write the contents that the process sees in place of files, and the program that replaces them. Blocks."""
    run_directory.mkdir(mode=0o700)
    table: dict[str, str | None] = {}
    for path, content in spec.sources.items():
        content_file = run_directory / f"content-{len(table)}"
        table[path] = None if content is None else str(content_file)
        if content is not None:
            content_file.write_bytes(content)
            for parent in Path(path).parents:
                if parent.exists() or str(parent) in table:
                    break
                directory = run_directory / f"directory-{len(table)}"
                directory.mkdir()
                table[str(parent)] = str(directory)
    (run_directory / "table").write_text(ascii(table), "ascii")
    shutil.copyfile(program_bundle.REPLACED_FILES_SCRIPT, run_directory / "sitecustomize.py")


def _build_request(spec: RunSpec, directory: Path, programs: Path) -> Mapping[str, Any]:
    """Return the request that the process reads when it starts: what to run and record, and the paths of its files."""
    arguments = list(spec.arguments)
    recorders = [(program_bundle.recorder_program(name), options) for name, options in _recorder_options(spec).items()]
    request: dict[str, Any] = {
        "events": str(directory / "events"),
        "without_runner": program_bundle.runner_independent_programs(),
        "plugin": program_bundle.plugin_program(spec.runner),
        "recorders": recorders,
        "path": str(directory / "request"),
        "boot": str(program_bundle.BOOT_SCRIPT),
        "programs": str(programs),
        "has_sources": bool(spec.sources),
        "is_isolated": spec.is_isolated,
        "chosen": None if spec.chosen is None else (list(spec.chosen.functions), list(spec.chosen.files)),
        "script": "",
    }
    if spec.runner == "django":
        script = "manage.py"
        words = [script, "test", *arguments]
        return {
            **request,
            "imports": ["django"],
            "package": "django",
            "module": "",
            "script": script,
            "argv": words,
        } | {"orig_argv": [spec.python, *words]}
    return {
        **request,
        "imports": ["runpy", spec.runner],
        "package": spec.runner,
        "module": spec.runner,
        "argv": ["-m", *arguments],
        "orig_argv": [spec.python, "-m", spec.runner, *arguments],
    }


def _retains_process(spec: RunSpec) -> bool:
    """Return whether the process is to be retained if the run fails."""
    return spec.retains_failed_process or "--pdb" in spec.arguments


def _recorder_options(spec: RunSpec) -> Mapping[str, Mapping[str, Any]]:
    """Return the options for each recorder in a run, by the recorder's name."""
    roots = list(spec.roots or (str(spec.directory),))
    return {name: {"roots": roots, **options} for name, options in spec.recorders.items()}


def process_environment(spec: RunSpec, run_directory: Path) -> dict[str, str]:
    """Return the environment variables of the process, with PWD set to its directory, as in a shell."""
    environment = dict(spec.environment)
    if spec.is_isolated:
        environment = {name: value for name, value in environment.items() if not name.startswith("PYTHON")}
        environment["PYTHONNOUSERSITE"] = "1"
    if "PWD" in environment:
        environment["PWD"] = str(spec.directory)
    if spec.sources:
        others = [path for path in [environment.get("PYTHONPATH")] if path]
        environment["PYTHONPATH"] = os.pathsep.join([str(run_directory / SOURCES_DIRECTORY), *others])
    return environment
