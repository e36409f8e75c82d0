"""Files in Jupyter's runtime directory: read carefully, once per change, and not trusted about who is listening."""

import json
import os
import shutil
import socket
import tempfile
from pathlib import Path

import pytest

from codriver.features.jupyter.kernel_kind import session_key_for_kernelspec, session_key_for_notebook
from codriver.features.jupyter.kernels.connection_files import (
    Contents,
    RuntimeDirectory,
    read_connection_file,
    read_server_file,
)
from codriver.features.jupyter.kernels.jupyter_paths import runtime_directory

KERNEL = {
    "shell_port": 33281, "iopub_port": 37441, "stdin_port": 60345, "control_port": 42131, "hb_port": 33265,
    "ip": "127.0.0.1", "key": "3333", "transport": "tcp", "signature_scheme": "hmac-sha256", "kernel_name": "python3",
    "jupyter_session": "/w/sub/a.ipynb",
}  # fmt: skip
SERVER = {"url": "http://localhost:8888/", "root_dir": "/w", "pid": 7, "token": "s3cret", "port": 8888}


def write_file(directory, name, content, mode=0o600):
    path = directory / name
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    path.chmod(mode)
    os.utime(directory, ns=(0, path.stat().st_mtime_ns - 10**12))  # settled, and another time for each file
    return path


def names(files):
    return [file.path.name for file in files]


def test_only_connection_files_of_kernels_and_servers_are_read(tmp_path):
    write_file(tmp_path, "kernel-1.json", KERNEL)
    write_file(tmp_path, "jpserver-7.json", SERVER)
    write_file(tmp_path, "kernel-codriver-7-jupyter.json", KERNEL)
    write_file(tmp_path, "jpserver-7-open.html", "token")
    write_file(tmp_path, "nbserver-7.json", SERVER)
    contents = RuntimeDirectory(tmp_path).contents()
    assert (names(contents.kernels), names(contents.servers), contents.errors) == (
        ["kernel-1.json"],
        ["jpserver-7.json"],
        (),
    )
    kernel, server = contents.kernels[0], contents.servers[0]
    assert (kernel.host, kernel.port, kernel.kernel_name, kernel.session, kernel.kernel_id) == (
        "127.0.0.1", 33281, "python3", "/w/sub/a.ipynb", "1",
    )  # fmt: skip
    assert kernel.address == f"jupyter://{tmp_path}/kernel-1.json"
    assert (server.url, server.root, server.process_id, server.token) == (SERVER["url"], Path("/w"), 7, "s3cret")
    assert "s3cret" not in repr(server)


def test_an_unchanged_directory_is_not_read_again(tmp_path):
    write_file(tmp_path, "kernel-1.json", KERNEL)
    directory = RuntimeDirectory(tmp_path)
    contents = directory.contents()
    (tmp_path / "kernel-1.json").write_text("not read")
    assert directory.contents() is contents
    write_file(tmp_path, "kernel-2.json", KERNEL)
    assert names(directory.contents().kernels) == ["kernel-2.json"]


def test_a_file_that_is_being_written_is_read_again(tmp_path):
    directory = RuntimeDirectory(tmp_path)
    path = tmp_path / "kernel-1.json"
    path.touch(mode=0o600)
    assert directory.contents().errors == ((path, "the file does not contain a JSON object"),)
    path.write_text(json.dumps(KERNEL))  # the modification time of the directory is unchanged
    assert names(directory.contents().kernels) == ["kernel-1.json"]


def test_a_missing_directory_counts_as_empty(tmp_path):
    directory = RuntimeDirectory(tmp_path / "later")
    assert directory.contents() == Contents()
    (tmp_path / "later").mkdir()
    write_file(tmp_path / "later", "kernel-1.json", KERNEL)
    assert directory.contents().kernels


@pytest.mark.parametrize(
    ("content", "mode", "fragments"),
    [
        ("", 0o600, "not contain a JSON object"),
        ("[]", 0o600, "not contain a JSON object"),
        ("[" * 50_000, 0o600, "not contain a JSON object"),
        (" " * 70_000, 0o600, "65,536 bytes"),
        ({**KERNEL, "shell_port": 0}, 0o600, "no valid `ip` and `shell_port`"),
        ({**KERNEL, "shell_port": "33"}, 0o600, "no valid `ip` and `shell_port`"),
        ({**KERNEL, "ip": None}, 0o600, "no valid `ip` and `shell_port`"),
        (KERNEL, 0o666, "write|others|read"),
    ],
)
def test_an_unusable_file_is_reported_with_its_reason(tmp_path, content, mode, fragments):
    path = write_file(tmp_path, "kernel-1.json", content, mode)
    contents = RuntimeDirectory(tmp_path).contents()
    assert not contents.kernels
    ((path_in_error, reason),) = contents.errors
    assert path_in_error == path
    assert any(fragment in reason for fragment in fragments.split("|")), reason


# VS Code writes the files itself, with the modes that the umask leaves.
OPEN_MODES = [0o640, 0o644, 0o664]


@pytest.fixture
def open_directory():
    """Create a directory that every user of the machine can read."""
    directory = Path(tempfile.mkdtemp())
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory)


@pytest.mark.parametrize("mode", [*OPEN_MODES, 0o666], ids=oct)
def test_a_file_reachable_by_other_users_must_be_private(open_directory, mode):
    path = write_file(open_directory, "kernel-1.json", KERNEL, mode)
    contents = RuntimeDirectory(open_directory).contents()
    assert not contents.kernels
    ((path_in_error, reason),) = contents.errors
    assert path_in_error == path
    assert "other users" in reason


@pytest.mark.parametrize("mode", OPEN_MODES, ids=oct)
@pytest.mark.parametrize("closed", [".", ".."])
def test_the_mode_of_a_file_in_a_private_directory_does_not_matter(open_directory, mode, closed):
    runtime = open_directory / "runtime"
    runtime.mkdir(mode=0o755)
    (runtime / closed).chmod(0o700)
    write_file(runtime, "kernel-1.json", KERNEL, mode)
    assert names(RuntimeDirectory(runtime).contents().kernels) == ["kernel-1.json"]


@pytest.mark.skipif(os.name != "posix", reason="groups have numbers on POSIX alone")
@pytest.mark.parametrize("is_current_group", [True, False])
def test_the_users_own_group_does_not_count_as_other_users(open_directory, is_current_group):
    try:
        os.chown(open_directory, -1, os.geteuid() if is_current_group else os.geteuid() + 1)
    except PermissionError:
        pytest.skip("only root may use a group that it is not in")
    open_directory.chmod(0o750)
    write_file(open_directory, "kernel-1.json", KERNEL, 0o664)
    assert bool(RuntimeDirectory(open_directory).contents().kernels) is is_current_group


def test_a_private_directory_that_links_to_an_open_one_does_not_protect_its_files(open_directory, tmp_path):
    write_file(open_directory, "kernel-1.json", KERNEL, 0o644)
    tmp_path.chmod(0o700)
    (tmp_path / "runtime").symlink_to(open_directory)
    assert not RuntimeDirectory(tmp_path / "runtime").contents().kernels


def test_a_connection_file_that_is_a_link_is_not_followed(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    write_file(tmp_path / "elsewhere", "a.json", KERNEL)
    (tmp_path / "kernel-1.json").symlink_to(tmp_path / "elsewhere" / "a.json")
    contents = RuntimeDirectory(tmp_path).contents()
    assert not contents.kernels
    assert "link" in contents.errors[0][1]


@pytest.mark.parametrize("missing", ["url", "root_dir", "pid"])
def test_a_server_file_without_required_fields_is_refused(missing):
    with pytest.raises(ValueError, match="has no valid `url`"):
        read_server_file(Path("jpserver-7.json"), json.dumps({**SERVER, missing: None}).encode())


@pytest.mark.parametrize(
    ("root", "is_relevant"), [("/w", True), ("/", True), ("/w/sub", True), ("/other", False), ("/w2", False)]
)
def test_a_server_is_relevant_if_its_root_overlaps_the_workspace(root, is_relevant):
    server = read_server_file(Path("jpserver-7.json"), json.dumps({**SERVER, "root_dir": root}).encode())
    assert server.overlaps(Path("/w")) is is_relevant


def test_a_kernel_counts_as_alive_if_something_listens_on_its_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        kernel = read_connection_file(Path("kernel-1.json"), json.dumps({**KERNEL, "shell_port": port}).encode())
        assert kernel.has_listener()
    assert not kernel.has_listener()


def test_the_runtime_directory_is_the_one_that_jupyter_uses():
    assert runtime_directory({"JUPYTER_RUNTIME_DIR": "/run"}) == Path("/run")
    assert runtime_directory({"JUPYTER_DATA_DIR": "/data"}) == Path("/data/runtime")


@pytest.mark.parametrize(
    ("path", "key"),
    [("/w/a.ipynb", "a-ipynb"), ("/w/Ü b/my plot.v2.ipynb", "my-plot-v2-ipynb"), ("/w/console-1-ab", None),
     ("/w/ü.ü", None)],
)  # fmt: skip
def test_the_key_of_a_kernel_is_derived_from_its_notebook(path, key):
    assert session_key_for_notebook(path) == key


@pytest.mark.parametrize(
    ("name", "key"),
    [("", "jup"), ("python3", "jup"), ("xpython-raw", "jup"), ("conda-env-x-py", "jup"), ("ir", "r"), ("deno", "deno"),
     ("bash", "bash"), ("julia-1.9", "julia-1-9")],
)  # fmt: skip
def test_a_kernel_without_a_notebook_is_named_after_its_language(name, key):
    assert session_key_for_kernelspec(name) == key
