"""The port file of a program's REPL: one for each serving process, across reloaders, forks and helper processes."""

import contextlib
import os
import socket
import subprocess
import sys

import posix_only
import pytest
from application import PROGRAM, running
from worker_client import text, texts

from codriver.repls.worker.serving import embedded

UNGUARDED = PROGRAM.replace('if __name__ == "__main__":\n    repl = codriver_seam.start_repl(True)\n',
                          'repl = codriver_seam.start_repl(True)\nif __name__ == "__main__":\n')  # fmt: skip
"""The program as many are written: it starts its REPL whenever it is imported."""


@pytest.fixture
def program(tmp_path):
    with running(tmp_path) as running_one:
        yield running_one


def port_in(file):
    return int(file.read_text())


def is_listening(port):
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) == 0


def test_the_port_file_exists_while_the_program_runs(program):
    assert port_in(program.folder / ".nrepl-port") == program.port
    assert program.end() == 0
    assert {path.name for path in program.folder.iterdir()} == {"shop.py"}


def test_a_second_repl_does_not_replace_the_port_file_of_the_first(program):
    with running(program.folder) as second:
        assert port_in(program.folder / ".nrepl-port") == program.port
        assert port_in(program.folder / ".codriver" / "app.port") == second.port
        assert second.end() == 0
    assert [path.name for path in (program.folder / ".codriver").iterdir()] == []
    assert port_in(program.folder / ".nrepl-port") == program.port


def test_a_port_file_rewritten_by_others_is_not_removed(program):
    (program.folder / ".nrepl-port").write_text("4242")
    assert program.end() == 0
    assert (program.folder / ".nrepl-port").read_text() == "4242"


@pytest.mark.parametrize("left", ["gone", "no port"])
def test_a_port_file_of_a_dead_repl_is_replaced(tmp_path, left):
    with socket.create_server(("127.0.0.1", 0)) as closed:
        gone = str(closed.getsockname()[1])
    (tmp_path / ".nrepl-port").write_text(gone if left == "gone" else left)
    with running(tmp_path) as program:
        file = tmp_path / (".nrepl-port" if left == "gone" else ".codriver/app.port")
        assert port_in(file) == program.port


def test_port_files_of_killed_programs_are_removed_by_the_next_program(tmp_path):
    with running(tmp_path) as first, running(tmp_path) as second:
        first.process.kill()
        second.process.kill()
        assert first.process.wait(60)
        assert second.process.wait(60)
    assert (tmp_path / ".nrepl-port").exists()
    assert (tmp_path / ".codriver" / "app.port").exists()
    with running(tmp_path) as third:
        assert port_in(tmp_path / ".nrepl-port") == third.port
        assert not (tmp_path / ".codriver" / "app.port").exists()


def test_starting_a_repl_twice_returns_the_same_repl(program):
    assert program.do("print(codriver_seam.start_repl(True) is repl)") == ["True"]


def test_a_stopped_repl_stops_listening_and_can_be_started_again(program):
    program.do("repl.stop(); repl.stop()")
    assert not is_listening(program.port)
    assert not (program.folder / ".nrepl-port").exists()
    (port,) = program.do("repl = codriver_seam.start_repl(True); print(repl.port)")
    program.port = int(port)
    program.connect()
    assert texts(program.evaluate("price(3)"), "value") == ["6"]


def test_a_forked_child_does_not_take_over_the_repl_or_the_port_file_of_its_parent(program):
    program.evaluate("1")
    output = "'child' if child == 0 else os.waitpid(child, 0)[1]"
    fork = f"child = os.fork(); print({output}, flush=True) or child or sys.exit()"
    assert program.do(fork) == ["child", "0"]
    assert port_in(program.folder / ".nrepl-port") == program.port
    assert texts(program.evaluate("price(3)"), "value") == ["6"]


def test_a_process_forked_by_an_evaluation_prints_to_the_programs_output(program):
    # The program's own thread may still hold the lock of the stream, because it printed its port, and the child would
    # wait forever.
    code = "import os, sys\nsys.__stdout__.flush()\n"
    code += "if not os.fork():\n    print('child', flush=True)\n    os._exit(0)\n_ = os.wait()"
    assert text(program.evaluate(code), "out") == ""
    assert program.do("print('then')") == ["child", "then"]


def test_a_forked_child_that_serves_requests_starts_its_own_repl(program):
    start = (
        "child = os.fork(); gate = None if child else codriver_seam.start_repl(True); "
        "print('parent' if child else gate.port, flush=True); child or sys.stdin.readline() or os._exit(0)"
    )
    program.process.stdin.write(start + "\n")
    program.process.stdin.flush()
    output = {program.process.stdout.readline().strip(), program.process.stdout.readline().strip()} - {""}
    output |= {program.process.stdout.readline().strip()} if len(output) < 2 else set()
    (port,) = output - {"parent"}
    assert port_in(program.folder / ".codriver" / "app.port") == int(port)
    assert port_in(program.folder / ".nrepl-port") == program.port


def test_a_helper_process_of_the_program_starts_no_repl(tmp_path):
    with running(tmp_path, UNGUARDED) as program:
        output = program.do(
            "import multiprocessing as m, operator; pool = m.get_context('spawn').Pool(1); "
            "print(pool.apply(eval, ('__import__(\"__main__\").repl',))); pool.terminate()"
        )
        assert output == ["None"]
        assert port_in(tmp_path / ".nrepl-port") == program.port
        assert not (tmp_path / ".codriver").exists()


@pytest.mark.parametrize("name", ["WERKZEUG_RUN_MAIN", "RUN_MAIN"])
def test_the_repl_in_the_child_of_a_reloader_replaces_that_of_the_parent(program, name):
    (port,) = program.do(
        "import subprocess; child = subprocess.Popen([sys.executable, __file__], stdin=-1, stdout=-1, text=True, "
        f"env={{**os.environ, {name!r}: 'true'}}); print(child.stdout.readline().split(':')[1].strip())"
    )
    assert port_in(program.folder / ".nrepl-port") == int(port)
    assert not is_listening(program.port)
    assert program.socket.recv(1) == b""
    assert program.do("child.communicate(); print(child.returncode)") == ["0"]
    assert {path.name for path in program.folder.iterdir()} == {"shop.py"}


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can be another user")
@pytest.mark.skipif(sys.platform != "linux", reason="the kernel does not tell")
def test_connections_of_other_local_users_are_closed(program):
    code = (
        "import encodings.idna, os, socket\nos.setuid(65534)\n"
        f"with socket.create_connection(('127.0.0.1', {program.port})) as sock:\n"
        "    sock.sendall(b'd2:id1:12:op8:describee')\n    print(sock.recv(100))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "b''\n" or "reset" in done.stderr, done.stderr


@pytest.mark.parametrize(
    "head", [b"POST / HTTP/1.1\r\nHost: a\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\0\x01"]
)
def test_http_and_tls_requests_are_closed_before_anything_runs(program, head):
    code = f"open({str(program.folder / 'ran')!r}, 'w')".encode()
    with socket.create_connection(("127.0.0.1", program.port), timeout=60) as sock:
        sock.sendall(head + b"d4:code%d:%s2:id1:12:op4:evale" % (len(code), code))
        with contextlib.suppress(ConnectionResetError):
            assert sock.recv(100) == b""
    assert texts(program.evaluate("price(3)"), "value") == ["6"]
    assert not (program.folder / "ran").exists()


def test_an_unwritable_directory_is_reported_and_the_repl_runs(tmp_path):
    folder = tmp_path / "gone"
    text_of_it = PROGRAM.replace("start_repl(True)", f"start_repl(True, folder={str(folder)!r})")
    with running(tmp_path, text_of_it) as program:
        assert program.do("print(repl.port_file)") == ["None"]
        assert texts(program.evaluate("price(3)"), "value") == ["6"]


def linked(folder, outside):
    """Create a project whose first location is occupied, and whose port file directory is a link to the outside."""
    folder.mkdir()
    outside.mkdir()
    (folder / ".nrepl-port").write_text("no port")
    (folder / ".codriver").symlink_to(outside)
    return folder


@pytest.mark.parametrize("retained", ["no port", "gone", "nothing"])
def test_no_file_outside_the_project_is_changed_through_a_linked_directory(tmp_path, retained):
    folder, outside = linked(tmp_path / "project", tmp_path / "outside"), tmp_path / "outside"
    with socket.create_server(("127.0.0.1", 0)) as closed:
        gone = str(closed.getsockname()[1])
    files = {} if retained == "nothing" else {"app.port": gone if retained == "gone" else retained, "app-2.port": gone}
    for name, content in files.items():
        (outside / name).write_text(content)
    with running(folder) as program:
        assert program.do("print(repl.port_file)") == ["None"]
        assert texts(program.evaluate("price(3)"), "value") == ["6"]
        assert program.end() == 0
    assert {path.name: path.read_text() for path in outside.iterdir()} == files


def test_a_symbolic_link_that_prevents_writing_the_port_file_is_reported(tmp_path):
    folder = linked(tmp_path / "project", tmp_path / "outside")
    output = PROGRAM.replace("    repl = ", "    import logging; logging.basicConfig(stream=sys.stdout)\n    repl = ")
    (folder / "shop.py").write_text(output)
    command = [sys.executable, "shop.py"]
    done = subprocess.run(command, cwd=folder, input="", capture_output=True, text=True, check=True, timeout=60)
    assert f"remove it: {str(folder / '.codriver')!r}" in done.stdout


def test_no_file_is_removed_at_exit_through_a_link_that_replaced_the_directory(tmp_path):
    project, outside = tmp_path / "project", tmp_path / "outside"
    project.mkdir()
    outside.mkdir()
    (project / ".nrepl-port").write_text("no port")
    with running(project) as program:
        (outside / "app.port").write_text(f"{program.port}\n")
        (project / ".codriver").rename(tmp_path / "former")
        (project / ".codriver").symlink_to(outside)
        assert program.end() == 0
    assert (outside / "app.port").exists()


def test_a_project_whose_directory_is_a_link_has_its_port_file(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "project").symlink_to(tmp_path / "real")
    with running(tmp_path / "project") as program:
        assert port_in(tmp_path / "real" / ".nrepl-port") == program.port


def test_a_link_in_place_of_the_temporary_file_is_not_followed(tmp_path):
    outside = tmp_path / "outside"
    plant = f"os.symlink({str(outside)!r}, f'.nrepl-port.{{os.getpid()}}')\nimport codriver_seam\n"
    with running(tmp_path, PROGRAM.replace("import codriver_seam\n", plant)) as program:
        assert port_in(tmp_path / ".nrepl-port") == program.port
        assert program.end() == 0
    assert {path.name for path in tmp_path.iterdir()} == {"shop.py"}


def test_a_link_is_also_refused_on_systems_without_directory_descriptors(tmp_path, monkeypatch):
    monkeypatch.setattr(embedded, "HAS_OPEN_DIRECTORIES", False)
    folder = linked(tmp_path / "project", tmp_path / "outside")
    with pytest.raises(NotADirectoryError):
        embedded.claim_port_file(str(folder), 4242, 0, replaces_parent=False)
    assert list((tmp_path / "outside").iterdir()) == []
    (folder / ".codriver").unlink()
    assert embedded.claim_port_file(str(folder), 4242, 0, replaces_parent=False) == str(
        folder / ".codriver" / "app.port"
    )
    assert port_in(folder / ".codriver" / "app.port") == 4242
    embedded.remove_port_file(str(folder / ".codriver" / "app.port"), 4242)
    assert list((folder / ".codriver").iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no pipes with names")
@pytest.mark.parametrize("name", [".nrepl-port", ".codriver/app.port"])
def test_a_pipe_in_place_of_a_port_file_does_not_block_the_program(tmp_path, name):
    (tmp_path / ".codriver").mkdir()
    (tmp_path / ".nrepl-port").write_text("no port")
    (tmp_path / name).unlink(missing_ok=True)
    posix_only.make_pipe(tmp_path / name)
    (tmp_path / "shop.py").write_text(PROGRAM)
    command = [sys.executable, "shop.py"]
    done = subprocess.run(command, cwd=tmp_path, input="", capture_output=True, text=True, check=True, timeout=20)
    assert done.stdout.startswith("listens:")


def test_a_link_in_place_of_a_port_file_is_kept_and_not_followed(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as closed:
        gone = str(closed.getsockname()[1])
    project = tmp_path / "project"
    project.mkdir()
    (tmp_path / "outside").write_text(gone)
    (project / ".nrepl-port").symlink_to(tmp_path / "outside")
    with running(project) as program:
        assert port_in(project / ".codriver" / "app.port") == program.port
    assert (project / ".nrepl-port").is_symlink()
    assert (tmp_path / "outside").read_text() == gone
