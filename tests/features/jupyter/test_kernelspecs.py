"""Kernelspecs in Jupyter's directories: found in order, read carefully, and turned into commands."""

import json
import sys
from pathlib import Path

import pytest

from codriver.features.jupyter.kernels.jupyter_paths import data_directory
from codriver.features.jupyter.kernels.kernelspecs import (
    KernelSpecError,
    find_kernelspec,
    kernel_command,
    kernel_directories,
    kernel_names,
)

IR = {"argv": ["R", "--slave", "-e", "IRkernel::main()", "--args", "{connection_file}"], "language": "R"}
FILE = Path("/run/user/jupyter/kernel-1.json")


def write_spec(directory, name, spec):
    (directory / name).mkdir(parents=True)
    text = spec if isinstance(spec, str) else json.dumps(spec)
    (directory / name / "kernel.json").write_text(text)
    return directory / name


def program(directory, name):
    directory.mkdir(parents=True, exist_ok=True)
    (directory / name).write_text("#!/bin/sh\n")
    (directory / name).chmod(0o755)
    return str(directory / name)


def test_the_project_directory_comes_first_and_the_system_last(tmp_path):
    environ = {"JUPYTER_PATH": "/one:/two", "JUPYTER_DATA_DIR": "/data"}
    directories = kernel_directories(str(tmp_path / ".venv/bin/python"), environ)
    assert directories == (
        tmp_path / ".venv/share/jupyter/kernels",
        *(Path(name) / "kernels" for name in ("/one", "/two", "/data")),
        Path("/usr/local/share/jupyter/kernels"),
        Path("/usr/share/jupyter/kernels"),
    )


@pytest.mark.skipif(sys.platform == "darwin", reason="XDG folders are not macOS's")
def test_the_user_directory_depends_on_the_platform():
    assert data_directory({"HOME": "/h"}) == Path("/h/.local/share/jupyter")
    assert data_directory({"HOME": "/h", "XDG_DATA_HOME": "/x"}) == Path("/x/jupyter")


def test_the_first_kernelspec_of_a_name_is_used(tmp_path):
    write_spec(tmp_path / "a", "ir", IR)
    write_spec(tmp_path / "b", "ir", {"argv": ["other"]})
    spec = find_kernelspec("ir", [tmp_path / "none", tmp_path / "a", tmp_path / "b"])
    assert (spec.directory, spec.language) == (tmp_path / "a" / "ir", "R")


def test_an_unknown_kernelspec_is_refused_with_a_list_of_available_ones(tmp_path):
    write_spec(tmp_path, "ir", IR)
    write_spec(tmp_path, "bash", IR)
    with pytest.raises(KernelSpecError, match=r"no kernelspec 'deno'. Available: bash, ir"):
        find_kernelspec("deno", [tmp_path])
    assert kernel_names([tmp_path, tmp_path / "none"]) == ("bash", "ir")


@pytest.mark.parametrize("name", ["../ir", "a/b", "", "a b"])
def test_a_kernelspec_name_cannot_leave_its_directory(tmp_path, name):
    write_spec(tmp_path, "ir", IR)
    with pytest.raises(KernelSpecError, match="there is no kernelspec"):
        find_kernelspec(name, [tmp_path / "deeper"])


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("{", "is not valid JSON"),
        ("[]", "has no `argv`"),
        ({"argv": []}, "has no `argv`"),
        ({"argv": "python"}, "has no `argv`"),
        ({"argv": ["a", 1]}, "has no `argv`"),
        ({"argv": ["a"], "env": {"A": 1}}, "an `env` that is not an object"),
        ({"argv": ["a"], "env": "A"}, "an `env` that is not an object"),
        ("[" * 50_000, "is not valid JSON"),
        ("[" * 100_000, "cannot be read: the file has"),
    ],
)
def test_a_broken_kernelspec_is_refused_with_its_path(tmp_path, spec, message):
    directory = write_spec(tmp_path, "ir", spec)
    with pytest.raises(KernelSpecError, match=message) as refused:
        find_kernelspec("ir", [tmp_path])
    assert str(directory) in str(refused.value)


@pytest.mark.parametrize("word", ["python", "python3", "python3.11"])
def test_the_command_name_python_refers_to_the_project_interpreter(tmp_path, word):
    write_spec(tmp_path, "py", {"argv": [word, "-m", "k", "-f", "{connection_file}"], "env": {"A": "${HOME}/x"}})
    spec = find_kernelspec("py", [tmp_path])
    command, env = kernel_command(spec, FILE, python="/p/bin/python", environ={"HOME": "/h"})
    assert command == ("/p/bin/python", "-m", "k", "-f", str(FILE))
    assert env == {"A": "/h/x"}


def test_other_programs_are_found_next_to_the_interpreter_or_on_path(tmp_path):
    write_spec(tmp_path, "k", {"argv": ["deno", "{resource_dir}/a", "{prefix}", "{other}"]})
    spec = find_kernelspec("k", [tmp_path])
    on_path, bin_directory = program(tmp_path / "path", "deno"), tmp_path / "env" / "bin"
    python, environ = str(bin_directory / "python"), {"PATH": str(tmp_path / "path")}
    command, _env = kernel_command(spec, FILE, python=python, environ=environ)
    assert command == (on_path, f"{tmp_path}/k/a", str(tmp_path / "env"), "{other}")
    next_to_python = program(bin_directory, "deno")
    assert kernel_command(spec, FILE, python=python, environ=environ)[0][0] == next_to_python


def test_a_missing_program_is_refused(tmp_path):
    write_spec(tmp_path, "k", {"argv": ["no-such-program"]})
    with pytest.raises(KernelSpecError, match=r"the program 'no-such-program' in .* could not be found"):
        kernel_command(find_kernelspec("k", [tmp_path]), FILE, python="/p/bin/python", environ={"PATH": "/nowhere"})
