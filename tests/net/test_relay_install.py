import random
import shutil
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import posix_only
import pytest
from live_server import WAIT_S

from codriver.net.relay_install import (
    MAX_RETAINED_VERSIONS,
    RelayNotInstalledError,
    install_relay,
    relay_files,
    shipped_relay_directory,
)

SLOW_PART = """
import sys
def main():
    print("begun", file=sys.stderr, flush=True)
    sys.stdin.readline()
    from codriver_relay import part
    print("{version}", part.VERSION)
"""
"""A relay that loads a part of itself when it is told to."""


def relay_source(folder, version="one"):
    """Return a relay package as a server ships it."""
    package = folder / "ours"
    package.mkdir(exist_ok=True)
    (package / "__main__.py").write_text("from codriver_relay.command_line import main\nmain()\n")
    (package / "__init__.py").write_text("")
    (package / "hook.py").write_text("def main():\n    print('the hook')\n")
    (package / "command_line.py").write_text(SLOW_PART.format(version=version))
    (package / "part.py").write_text(f"VERSION = {version!r}\n")
    return package


def start(script, *words):
    command = [sys.executable, "-I", "-S", str(script), *map(str, words)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def output_of(script):
    with start(script) as relay:
        output, _ = relay.communicate("go on\n", timeout=WAIT_S)
    return output


def test_a_relay_file_is_written_only_if_it_differs(tmp_path):
    source, target = relay_source(tmp_path), tmp_path / "there" / "relay.py"
    for installed, text in relay_files(source, target).items():
        install_relay(source, target)
        before = installed.stat().st_ino
        install_relay(source, target)
        assert installed.stat().st_ino == before
        installed.write_text("other")
        install_relay(source, target)
        assert installed.read_bytes() == text
        assert posix_only.has_mode(installed, 0o600)
        installed.chmod(0o644)
        install_relay(source, target)
        assert posix_only.has_mode(installed, 0o600)
        assert posix_only.has_mode(installed.parent, 0o700)


def test_the_relay_and_the_hook_can_be_run_by_their_short_scripts(tmp_path):
    target = install_relay(relay_source(tmp_path), tmp_path / "codriver_relay.py")
    (folder,) = (tmp_path / "relays").iterdir()
    assert len(target.read_text().splitlines()) == 2
    assert output_of(target) == output_of(folder) == "one one\n"
    assert output_of(tmp_path / "codriver_hook.py") == "the hook\n"


def test_a_relay_started_during_an_upgrade_uses_one_version_only(tmp_path):
    target = install_relay(relay_source(tmp_path), tmp_path / "codriver_relay.py")
    with start(target) as relay:
        assert relay.stderr.readline() == "begun\n"
        install_relay(relay_source(tmp_path, "two"), target)
        assert relay.communicate("go on\n", timeout=WAIT_S)[0] == "one one\n"
    assert output_of(target) == "two two\n"


def test_an_interrupted_upgrade_leaves_the_previous_version(tmp_path):
    target = install_relay(relay_source(tmp_path), tmp_path / "codriver_relay.py")
    source = relay_source(tmp_path, "two")
    last_part = [place for place in relay_files(source, target) if place.name == "part.py"]
    last_part[0].mkdir(parents=True)
    with pytest.raises(RelayNotInstalledError):
        install_relay(source, target)
    assert output_of(target) == "one one\n"


def test_the_most_recently_installed_versions_are_kept(tmp_path):
    target = tmp_path / "codriver_relay.py"
    for count in range(1, MAX_RETAINED_VERSIONS + 3):
        install_relay(relay_source(tmp_path, str(count)), target)
        assert len([*(tmp_path / "relays").iterdir()]) == min(count, MAX_RETAINED_VERSIONS)
        assert output_of(target) == f"{count} {count}\n"
    (tmp_path / "relays" / "notes").mkdir()
    install_relay(relay_source(tmp_path, "last"), target)
    assert (tmp_path / "relays" / "notes").is_dir()


def test_a_running_version_is_kept_however_many_are_installed(tmp_path):
    """A relay runs for days, and needs the module that starts a server when its own server has ended."""
    source = tmp_path / "shipped" / "codriver_relay"
    shutil.copytree(shipped_relay_directory(), source, ignore=shutil.ignore_patterns("__pycache__"))
    target = install_relay(source, tmp_path / "codriver_relay.py")
    (folder,) = (tmp_path / "relays").iterdir()
    with socket.create_server(("127.0.0.1", 0)) as listener, start(target, listener.getsockname()[1]) as relay:
        peer, _ = listener.accept()
        for count in range(MAX_RETAINED_VERSIONS + 1):
            install_relay(relay_source(tmp_path, str(count)), target)
        assert (folder / "codriver_relay" / "starter.py").exists()
        peer.close()
        relay.kill()
    install_relay(relay_source(tmp_path, "last"), target)
    assert not folder.exists()


def test_concurrent_installations_leave_a_working_relay(tmp_path):
    target, sources = tmp_path / "codriver_relay.py", []
    for count in range(2 * MAX_RETAINED_VERSIONS):
        (tmp_path / str(count)).mkdir()
        sources.append(relay_source(tmp_path / str(count), str(count)))

    def install(number):
        drawn = random.Random(number)
        for _ in range(20):
            install_relay(drawn.choice(sources), target)

    with ThreadPoolExecutor() as pool:
        for turn in range(3):
            assert [*pool.map(install, range(4 * turn, 4 * turn + 4))] == [None] * 4
            assert len(set(output_of(target).split())) == 1


def test_a_relay_that_cannot_be_installed_is_reported(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RelayNotInstalledError, match="XDG_CONFIG_HOME"):
        install_relay(relay_source(tmp_path), tmp_path / "file" / "relay.py")


@pytest.mark.skipif(sys.platform == "win32", reason="needs a named pipe")
def test_a_pipe_in_place_of_the_relay_is_refused(tmp_path):
    posix_only.make_pipe(tmp_path / "relay.py")
    with pytest.raises(RelayNotInstalledError, match="a pipe"):
        install_relay(relay_source(tmp_path), tmp_path / "relay.py")


def test_an_installed_relay_is_compiled_once_by_any_start(tmp_path):
    """Python compiles a script at each start, and a client would have to wait for this every time."""
    target = install_relay(shipped_relay_directory(), tmp_path / "codriver_relay.py")
    (tmp_path / "json.py").write_text("raise SystemExit('a module from where the relay lies')")
    listener, written = socket.create_server(("127.0.0.1", 0)), []
    for _ in range(2):
        with subprocess.Popen(
            [sys.executable, "-I", "-S", str(target), str(listener.getsockname()[1])],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        ) as relay:  # fmt: skip
            relay.stdin.write(b'{"id": "\\u0031", "method": "ping"}\n')  # the relay needs json to write it
            relay.stdin.flush()
            peer, _ = listener.accept()
            with peer:
                assert peer.recv(1000)
                peer.sendall(b'{"id": "1", "result": {}}\n')
                assert relay.stdout.readline() == b'{"id": "1", "result": {}}\n'
                relay.stdin.close()
                assert relay.wait(WAIT_S) == 0
        compiled = (tmp_path / "relays").glob("*/codriver_relay/__pycache__/*")
        written.append({file.name: file.stat().st_mtime_ns for file in compiled})
    assert written[0] == written[1] != {}
    listener.close()
