import os
import subprocess
import sys
import textwrap
from contextlib import asynccontextmanager

import anyio
import posix_only
import pytest
from process_states import is_running

from codriver.errors import StartError
from codriver.repls.contract.endpoints import Endpoint
from codriver.repls.launch import processes

pytestmark = pytest.mark.anyio

LISTEN = "print('nREPL server started on port 4711 on host localhost - nrepl://localhost:4711', flush=True)\n"
WAIT = "import time\ntime.sleep(600)\n"


@asynccontextmanager
async def started(tmp_path, *command, port_file=None, start_timeout_s=20.0, farewell=None):
    received = []
    async with processes.start_repl_process(
        command,
        cwd=tmp_path,
        env=dict(os.environ),
        on_output=lambda stream, text: received.append((stream, text)),
        port_file=port_file,
        start_timeout_s=start_timeout_s,
        farewell=farewell,
    ) as running:
        yield running, received


def python(code):
    return sys.executable, "-c", code


def joined_output(received):
    return "".join(text for _, text in received)


async def until(condition):
    with anyio.fail_after(60):
        while not condition():
            await anyio.sleep(0.02)


async def test_the_address_printed_by_a_repl_is_found(tmp_path):
    async with started(tmp_path, *python(LISTEN + WAIT)) as (running, received):
        assert await running.endpoint() == Endpoint("127.0.0.1", 4711)
        await until(lambda: "4711" in joined_output(received))
        assert received[0][0] == "out"


@pytest.mark.parametrize(
    ("line", "endpoint"),
    [
        ("Started nREPL server at 127.0.0.1:1667", Endpoint("127.0.0.1", 1667)),
        ("shadow-cljs - nREPL server started on port 3333", Endpoint("127.0.0.1", 3333)),
        ("Listening on 7888", Endpoint("127.0.0.1", 7888)),
        ("nREPL server started on port 7 on host 0.0.0.0 - nrepl://0.0.0.0:7", Endpoint("127.0.0.1", 7)),
        ("nrepl://[::1]:99", Endpoint("::1", 99)),
    ],
)
async def test_addresses_printed_to_stderr_are_also_found(tmp_path, line, endpoint):
    code = f"import sys\nsys.stderr.write({line + chr(10)!r})\nsys.stderr.flush()\n" + WAIT
    async with started(tmp_path, *python(code)) as (running, _):
        assert await running.endpoint() == endpoint


async def test_a_port_file_written_after_the_start_is_found(tmp_path):
    file = tmp_path / ".nrepl-port"
    async with started(tmp_path, *python(f"open({str(file)!r}, 'w').write('8123')\n" + WAIT), port_file=file) as (r, _):
        assert await r.endpoint() == Endpoint("127.0.0.1", 8123)


async def test_a_port_file_written_immediately_after_the_start_is_used(tmp_path, monkeypatch):
    file = tmp_path / ".nrepl-port"
    opened = anyio.open_process

    async def open_and_wait(*command, **options):
        process = await opened(*command, **options)
        await until(file.exists)
        return process

    monkeypatch.setattr(anyio, "open_process", open_and_wait)
    async with started(tmp_path, *python(f"open({str(file)!r}, 'w').write('8123')\n" + WAIT), port_file=file) as (r, _):
        assert await r.endpoint() == Endpoint("127.0.0.1", 8123)


@pytest.mark.parametrize(("written", "is_left"), [("8123", False), ("8124", True)])
async def test_a_port_file_is_removed_only_if_it_belongs_to_the_process_that_ended(tmp_path, written, is_left):
    file = tmp_path / ".nrepl-port"
    code = f"{LISTEN.replace('4711', '8123')}{WAIT}"
    async with started(tmp_path, *python(code), port_file=file) as (running, _):
        await running.endpoint()  # the process printed it, so that another one may write the file
        file.write_text(written)
    assert file.exists() is is_left


async def test_a_port_file_of_another_repl_is_restored_if_an_exiting_process_removes_it(tmp_path):
    file = tmp_path / ".nrepl-port"
    code = (
        "import os, signal, sys\n"
        f"signal.signal(signal.SIGTERM, lambda *_: (os.remove({str(file)!r}), sys.exit()))\n"
        f"open({str(file)!r}, 'w').write('8123')\n{LISTEN.replace('4711', '8123')}{WAIT}"
    )
    async with started(tmp_path, *python(code), port_file=file) as (running, _):
        await running.endpoint()
        file.write_text("8124")
    assert file.read_text() == "8124"


async def test_a_stale_port_file_is_not_trusted(tmp_path):
    file = tmp_path / ".nrepl-port"
    file.write_text("8123")
    async with started(tmp_path, *python("pass"), port_file=file) as (running, _):
        with pytest.raises(StartError, match="ended with status 0"):
            await running.endpoint()


async def test_a_repl_that_exits_immediately_is_reported_with_its_last_output(tmp_path):
    async with started(tmp_path, *python("import sys; print('no é'); sys.exit(3)")) as (running, _):
        with pytest.raises(
            StartError, match="exited before it opened a port: the process ended with status 3"
        ) as caught:
            await running.endpoint()
        await until(lambda: "no é" in running._exit_text())
        assert "exited before" in str(caught.value)


async def test_a_repl_that_never_prints_its_address_is_abandoned(tmp_path):
    async with started(tmp_path, *python(WAIT), start_timeout_s=0.2) as (running, _):
        with pytest.raises(StartError, match=r"did not print its port within 0\.2 s"):
            await running.endpoint()


async def test_an_unknown_command_is_reported(tmp_path):
    async with started(tmp_path, "no-such-command-here") as (running, _):
        with pytest.raises(StartError, match="could not be started: No such file"):
            await running.endpoint()


async def test_a_missing_directory_is_reported(tmp_path):
    with pytest.raises(StartError, match=r"could not be started in .*gone: that directory no longer exists") as raised:
        async with started(tmp_path / "gone", "true"):
            pass
    assert "Path(" not in str(raised.value)


async def test_the_exit_reason_names_the_signal(tmp_path):
    async with started(tmp_path, *python(f"import os; os.kill(os.getpid(), {posix_only.KILL:d})")) as (running, _):
        assert await running.wait() == "the process was killed by SIGKILL"


@pytest.mark.parametrize(
    ("more", "words"),
    [("", "the process ended with status 7"), ("no more", "the process ended with status 7; its last output: no more")],
)
async def test_the_address_line_is_not_part_of_the_exit_reason(tmp_path, more, words):
    code = f"{LISTEN}print({more!r}, flush=True)\nraise SystemExit(7)"
    async with started(tmp_path, *python(code)) as (running, received):
        await until(lambda: joined_output(received).endswith(f"4711\n{more}\n"))
        with anyio.fail_after(60):
            assert await running.wait() == words


CRASHING = """
import faulthandler, os, threading
faulthandler.enable()
for _ in range(3):
    threading.Thread(target=threading.Event().wait, daemon=True).start()

def dig(): os.abort()

dig()
"""


async def test_a_crash_is_reported_with_the_innermost_frames(tmp_path):
    (tmp_path / "crash.py").write_text(CRASHING)
    async with started(tmp_path, sys.executable, str(tmp_path / "crash.py")) as (running, _):
        file = tmp_path / "crash.py"
        assert await running.wait() == (
            "the process was killed by SIGABRT; Fatal Python error: Aborted | "
            f'File "{file}", line 7 in dig | File "{file}", line 9 in <module>'
        )


async def test_a_repl_killed_by_codriver_exits_and_reports_this_as_the_reason(tmp_path):
    async with started(tmp_path, *python(LISTEN + WAIT)) as (running, _):
        await running.endpoint()
        pid = running.pid
        running.kill()
        running.kill()
        assert (await running.wait()).startswith("the process was killed by codriver")
        await until(lambda: not is_running(pid))


async def test_a_repl_ends_when_its_watchdog_is_killed(tmp_path):
    async with started(tmp_path, *python(LISTEN + WAIT)) as (running, _):
        await running.endpoint()
        pid = running.pid
        posix_only.kill(running._process.pid)
        assert (await running.wait()).startswith("its watchdog was killed")
        await until(lambda: not is_running(pid))


async def test_no_signal_is_sent_to_a_reused_pid(tmp_path, monkeypatch):
    async with started(tmp_path, *python("")) as (running, _):
        await running.wait()
        await running._process.wait()
        sent = []
        monkeypatch.setattr(os, "killpg", lambda *what: sent.append(what))
        running.kill()
    assert sent == []


async def test_a_process_that_supports_shutdown_exits_by_itself(tmp_path):
    code = f"import os\n{LISTEN}while not os.path.exists('bye'): time.sleep(0.01)\nprint('left by itself', flush=True)"

    async def farewell():
        (tmp_path / "bye").touch()

    async with started(tmp_path, *python(f"import time\n{code}"), farewell=farewell) as (running, received):
        await running.endpoint()
    assert joined_output(received).endswith("left by itself\n")


async def test_a_process_that_ignores_shutdown_is_terminated(tmp_path):
    async with started(tmp_path, *python(LISTEN + WAIT), farewell=anyio.sleep_forever) as (running, _):
        await running.endpoint()
        pid = running.pid
    await until(lambda: not is_running(pid))


async def test_leaving_the_context_terminates_grandchild_processes(tmp_path):
    file = tmp_path / "pid"
    code = f"import subprocess; p = subprocess.Popen(['sleep', '600']); open({str(file)!r}, 'w').write(str(p.pid))\n"
    async with started(tmp_path, *python(code + LISTEN + WAIT)) as (running, _):
        await running.endpoint()
        pids = running.pid, int(file.read_text())
        assert all(is_running(pid) for pid in pids)
    await until(lambda: not any(is_running(pid) for pid in pids))


async def test_a_repl_that_ignores_sigterm_is_killed(tmp_path):
    code = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + LISTEN + WAIT
    async with started(tmp_path, *python(code)) as (running, _):
        await running.endpoint()
        pid = running.pid
    await until(lambda: not is_running(pid))


async def test_a_repl_can_clean_up_on_sigterm(tmp_path):
    file = tmp_path / "cleaned"
    code = f"import signal, sys\nsignal.signal(15, lambda *_: (open({str(file)!r}, 'w').close(), sys.exit()))\n"
    async with started(tmp_path, *python(code + LISTEN + WAIT)) as (running, _):
        await running.endpoint()
    assert file.exists()


async def test_a_repl_starts_with_default_signal_handlers(tmp_path):
    code = "import signal\nprint([signal.getsignal(n) == signal.SIG_DFL for n in (1, 15)], flush=True)\n"
    async with started(tmp_path, *python(code)) as (running, received):
        await running.wait()
        await until(lambda: joined_output(received) == "[True, True]\n")


async def test_code_that_reads_stdin_gets_end_of_file(tmp_path):
    async with started(tmp_path, *python("import sys; print(repr(sys.stdin.read()))")) as (running, received):
        await running.wait()
        await until(lambda: joined_output(received) == "''\n")


async def test_a_supervised_command_detects_by_end_of_file_on_stdin_that_codriver_exited(tmp_path):
    file = tmp_path / "ended"
    code = f"import sys\n{LISTEN}sys.stdin.read()\nopen({str(file)!r}, 'w').close()\n"
    async with started(tmp_path, *python(code), "--supervised") as (running, _):
        await running.endpoint()
        assert not file.exists()
    # The watchdog's SIGTERM may come first; then the process is gone as well.
    await until(lambda: not is_running(running.pid))


async def test_a_multi_byte_character_split_across_reads_is_decoded(tmp_path):
    code = "import os, time\nos.write(1, b'\\xd0'); time.sleep(0.05); os.write(1, b'\\xb6\\n')\n"
    async with started(tmp_path, *python(code)) as (running, received):
        await running.wait()
        await until(lambda: joined_output(received) == "ж\n")


async def test_an_error_inside_the_context_is_not_wrapped(tmp_path):
    with pytest.raises(LookupError, match="mine"):
        async with started(tmp_path, *python(WAIT)):
            raise LookupError("mine")


def test_no_process_survives_when_codriver_is_killed(tmp_path):
    file = tmp_path / "pids"
    child = "import subprocess, os\np = subprocess.Popen(['sleep', '600'])\n"
    child += f"open({str(file)!r}, 'w').write(f'{{os.getpid()}} {{p.pid}}')\n" + LISTEN + WAIT
    parent = textwrap.dedent(f"""
        import anyio, os, sys
        from pathlib import Path
        from codriver.repls.launch import processes
        async def main():
            async with processes.start_repl_process([sys.executable, "-c", {child!r}], cwd=Path({str(tmp_path)!r}),
                                       env=dict(os.environ), on_output=lambda *_: None) as running:
                await running.endpoint()
                os.kill(os.getpid(), 9)
        anyio.run(main)
    """)
    assert subprocess.run([sys.executable, "-c", parent], check=False, timeout=60).returncode == -posix_only.KILL
    pids = [int(word) for word in file.read_text().split()]

    async def gone():
        await until(lambda: not any(is_running(pid) for pid in pids))

    anyio.run(gone)
