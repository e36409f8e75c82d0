"""Kernel processes are recognized by the connection file in their command lines, however it is spelled."""

import subprocess
import sys
from contextlib import contextmanager
from uuid import uuid4

import pytest

from codriver.features.jupyter.kernels.kernel_processes import (
    find_process,
    find_working_directories,
    paths_in_command,
)

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux has /proc")

WAIT = "import sys; print(1, flush=True); sys.stdin.read()"
LISTEN = f"import socket; made = socket.create_server(('127.0.0.1', 0)); {WAIT}"


@contextmanager
def process(directory, *arguments, code=WAIT):
    """Run a process with these arguments for the duration of the context."""
    command = [sys.executable, "-c", code, *arguments]
    with subprocess.Popen(command, cwd=directory, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        child.stdout.readline()
        yield child
        child.stdin.close()


@pytest.fixture
def workspace_and_file(tmp_path):
    """Return a workspace, and a connection file in a runtime directory with a space in its name."""
    workspace, runtime = tmp_path / "ws", tmp_path / "run time"
    workspace.mkdir()
    runtime.mkdir()
    # A unique name, because a bare name in the command of a test that runs in parallel would be ambiguous.
    file = runtime / f"kernel-v3-{uuid4().hex}.json"
    file.touch()
    return workspace, file


SPELLINGS = [
    ["-f", "{file}"],
    ["-f={file}"],
    ["--f={file}"],
    ["-f{file}"],
    ["--f", "{file}"],
    ["--f='{file}'"],
    ['--f="{file}"'],
    ['-f"{file}"'],
    ["-f", '"{file}"'],
    ["--IPKernelApp.connection_file={file}"],
    ["--IPKernelApp.connection_file", "{file}"],
    ['--ConnectionFileMixin.connection_file="{file}"'],
    ["--IPKernelApp.connection_file='{file}'"],
    ["--connection-file={file}"],
    ["--connection-file", "{file}"],
    ["--connection_file={file}"],
    ["--kernel", "--conn", "{file}"],
    ["--conn={file}"],
    ["start", "{file}"],
    ["-e", 'IRkernel::main("{file}")'],
    ["-e", "import IJulia; IJulia.run_kernel('{file}')"],
    ["-f", "../run time/{name}"],
    ["--f=../run time/{name}"],
    ["-f../run time/{name}"],
    ['--f="../run time/{name}"'],
    ["-f", "./../ws/../run time/{name}"],
    ["-f", "{name}"],
    ["--f={name}"],
    ["-f{name}"],
    ["--f='{name}'"],
    ["--debug", "--f={file}", "--log-level=10"],
    ["--f={file}", "--a=b=c"],
]


@pytest.mark.parametrize("arguments", SPELLINGS, ids=" ".join)
def test_a_kernel_is_found_by_any_spelling_of_its_connection_file(workspace_and_file, arguments):
    workspace, file = workspace_and_file
    formatted = [argument.format(file=file, name=file.name) for argument in arguments]
    with process(workspace, *formatted) as running:
        assert find_working_directories([file, file.with_name("other.json")]) == {file: workspace}
        assert find_process(str(file)).id == running.pid


@pytest.mark.parametrize(
    "arguments",
    [
        ["--existing", "{file}"],
        ["--existing={file}"],
        ['--existing="{file}"'],
        ["--existing", "{name}"],
        ["-f", "{file}.bak"],
        ["-f", "/elsewhere{file}"],
        ["-f", "{name}x"],
        ["-f", "sub/{name}"],
    ],
    ids=" ".join,
)
def test_consoles_and_other_files_are_not_kernels(workspace_and_file, arguments):
    workspace, file = workspace_and_file
    with process(workspace, *[argument.format(file=file, name=file.name) for argument in arguments]):
        assert find_working_directories([file]) == {}
        assert find_process(str(file)) is None


def test_a_bare_file_name_is_looked_up_in_the_working_directory_first(workspace_and_file):
    workspace, file = workspace_and_file
    (workspace / file.name).touch()
    with process(workspace, "-f", file.name):
        assert find_working_directories([file]) == {}
        assert find_working_directories([workspace / file.name]) == {workspace / file.name: workspace}


def test_a_path_through_a_link_identifies_the_same_file(workspace_and_file):
    workspace, file = workspace_and_file
    (workspace / "linked").symlink_to(file.parent)
    with process(workspace, f"--f={workspace}/linked/{file.name}"):
        assert find_working_directories([file]) == {file: workspace}


def test_another_process_with_the_same_connection_file_does_not_hide_the_kernel(workspace_and_file):
    workspace, file = workspace_and_file
    with process("/", "-f", str(file)), process(workspace, f"--f={file}", code=LISTEN) as kernel:
        assert find_working_directories([file]) == {file: workspace}
        assert find_process(str(file)).id == kernel.pid


def test_a_forked_child_of_the_kernel_is_not_mistaken_for_it(workspace_and_file):
    workspace, file = workspace_and_file
    fork = "import os; made = __import__('socket').create_server(('127.0.0.1', 0)); os.fork(); "
    with process(workspace, f"--f={file}", code=fork + WAIT) as kernel:
        kernel.stdout.readline()  # the child's line
        assert find_process(str(file)).id == kernel.pid


def test_two_candidate_processes_are_ambiguous(workspace_and_file):
    workspace, file = workspace_and_file
    with process("/", "-f", str(file)), process(workspace, "-f", str(file)):
        assert find_working_directories([file]) == {}


def test_the_program_name_is_not_an_argument():
    assert list(paths_in_command(["kernel.json", "a"])) == ["a"]
    assert list(paths_in_command([])) == []
