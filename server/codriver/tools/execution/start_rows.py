"""Describe how a Python test run was started, and build the shell command that repeats it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codriver.systems.programs import quote_command_line

if TYPE_CHECKING:
    from pathlib import Path

    from codriver.testing.runs import StartState
    from codriver.testing.test_jobs import JobReport

MAX_NAMED_TESTS: Final = 50
"""Maximum number of tests named in a command."""


def start_row(start: StartState, workspace: str) -> dict[str, object]:
    """Describe how test runs start in a directory, in a JSON object for the answer."""
    row: dict[str, object] = {"start": "warm" if start.is_warm else "plain"}
    row |= {"python": start.python} if start.python else {}
    row |= {"directory": start.directory} if start.directory not in ("", workspace) else {}
    row |= {"why": start.reason} if start.reason else {}
    if start.is_warm:
        row |= {"processId": start.pid, "memoryMb": start.memory_mb, "hashSeed": start.hash_seed}
        row |= {"modules": start.modules, "runs": start.runs}
    return row | ({"differences": list(start.differences)} if start.differences else {})


def repeat_command(job_report: JobReport, workspace: Path) -> str:
    """Return the shell command that repeats a run in a new process with the same hash seed.

    For a run of chosen tests, the command names the first `MAX_NAMED_TESTS` of them, in the order in which they ran.
    """
    spec, finished = job_report.job.spec, job_report.report.finished
    variables = dict(job_report.job.variables)
    if finished is not None and finished.hash_seed is not None:
        variables["PYTHONHASHSEED"] = str(finished.hash_seed)
    arguments = list(spec.arguments)
    if spec.chosen is not None:
        names = {*spec.chosen.files, *(function.partition("::")[0] for function in spec.chosen.functions)}
        ran = dict.fromkeys(result.nodeid for result in job_report.report.results)
        arguments = [*(argument for argument in arguments if argument not in names), *list(ran)[:MAX_NAMED_TESTS]]
    runner = ["manage.py", "test"] if spec.runner == "django" else ["-m", spec.runner]
    command = quote_command_line([spec.python, *runner, *arguments])
    set_first = "".join(f"{quote_command_line([f'{name}={value}'])} " for name, value in variables.items())
    moved = "" if spec.directory == workspace else f"cd {quote_command_line([str(spec.directory)])} && "
    return f"{moved}{set_first}{command}"
