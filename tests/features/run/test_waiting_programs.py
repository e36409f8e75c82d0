"""Programs that wait for a request, on each Python: they start and fork as without `codriver run`."""

# mypy: disable-error-code="attr-defined"
# It is skipped on systems that lack some of these functions.

import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from live_server import until
from needs import interpreter
from started_programs import SHOP, Server, program
from worker_client import NAMES

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")

STATE = """\
import json, os, signal, sys, warnings
state = [sys.argv, sys.path, sorted(sys.modules), len(warnings.filters), len(sys.meta_path), len(sys.path_hooks)]
state += [os.listdir("/proc/self/task") == [str(os.getpid())], len(os.listdir("/proc/self/fd"))]
state += [signal.getsignal(number) == signal.SIG_DFL for number in (signal.SIGPIPE, signal.SIGTERM)]
state += [sorted(set(os.environ) - {"CODRIVER_RUN", "PYTHONPATH"})]
print(json.dumps(state))
"""
UNCHECKED_HASH = 1
"""The flags of bytecode that is used without a look at its source. Source: PEP 552."""
CUSTOMIZED = """\
import os
print("customized", __file__)
if os.environ.get("FAILS"): raise ValueError("it is broken")
"""
UNLOADING = """\
import sys
del sys.modules["_thread"]
this = sys.modules.pop("sitecustomize")
sys.path.remove(__file__.rpartition("/")[0])
try:
    import sitecustomize
except ImportError:
    sys.modules["sitecustomize"] = this
"""
MODULES = "import sys; names = sorted(sys.modules); import json; print(json.dumps(names))"
PARENT = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'pass'], check=True); print('done')"


def run_both_ways(live, command, environ):
    """Run a command plainly and with `codriver run`, and return the two results."""
    both = (command, [sys.executable, "-E", *live.run_command()[1:], *command])
    return [subprocess.run(words, capture_output=True, text=True, env=environ, check=False) for words in both]


@pytest.mark.parametrize("name", NAMES)
def test_a_program_starts_as_usual_on_each_python(live, client, name):
    file, python = live.workspace / "state.py", interpreter(name)
    file.write_text(STATE)
    environ = {name: value for name, value in live.environ.items() if name != "PYTHONPATH"}
    plain, armed = run_both_ways(live, [python, str(file)], environ)
    assert json.loads(armed.stdout) == json.loads(plain.stdout)
    assert armed.stderr == plain.stderr
    with program(live, SHOP, command=(python, str(live.workspace / "shop.py"))) as shop:
        shop.do("ORDERS.append(7)")
        answer = client.call("evaluate_code", code="ORDERS, sys.version_info[1]", replSessionKey="shop")
        assert answer.get("result") == f"([7], {name.partition('.')[2]})", answer


@pytest.mark.parametrize("path", ["", "/nowhere", f"/nowhere{os.pathsep}/nothing"], ids=["empty", "one", "two"])
def test_a_program_has_its_own_python_path(live, path):
    file = live.workspace / "state.py"
    file.write_text(STATE)
    plain, armed = run_both_ways(live, [sys.executable, str(file)], live.environ | {"PYTHONPATH": path})
    assert json.loads(armed.stdout) == json.loads(plain.stdout)


@pytest.mark.parametrize("fails", ["", "1"], ids=["it works", "it fails"])
def test_the_users_sitecustomize_runs_once_in_each_process(live, tmp_path, fails):
    (tmp_path / "sitecustomize.py").write_text(CUSTOMIZED)
    environ = live.environ | {"PYTHONPATH": str(tmp_path), "FAILS": fails}
    plain, armed = run_both_ways(live, [sys.executable, "-c", PARENT], environ)
    assert plain.stdout.count("customized") == 2, plain
    assert (armed.stdout, armed.stderr, armed.returncode) == (plain.stdout, plain.stderr, plain.returncode)


def test_a_module_that_another_sitecustomize_unloads_stays_unloaded(live, tmp_path):
    """ddtrace unloads it for gevent, and then runs the next `sitecustomize`."""
    (tmp_path / "sitecustomize.py").write_text(UNLOADING)
    script = f"PYTHONPATH='{tmp_path}'${{PYTHONPATH:+:$PYTHONPATH}} exec '{sys.executable}' -c '{MODULES}'"
    environ = {name: value for name, value in live.environ.items() if name != "PYTHONPATH"}
    plain, armed = run_both_ways(live, ["sh", "-c", script], environ)
    assert (plain.returncode, "_thread" in json.loads(plain.stdout)) == (0, False), plain
    assert armed.stderr == plain.stderr
    assert json.loads(armed.stdout) == json.loads(plain.stdout)


def test_bytecode_is_stored_in_the_private_cache_even_if_python_writes_none(live, tmp_path):
    command = (sys.executable, "-B", str(live.workspace / "shop.py"))
    with program(live, SHOP, command=command, environ={"XDG_CACHE_HOME": str(tmp_path)}):
        (bytecode,) = tmp_path.glob("codriver/run/*/__pycache__/*")
        assert bytecode.name == f"sitecustomize.{sys.implementation.cache_tag}.pyc"
        assert int.from_bytes(bytecode.read_bytes()[4:8], "little") == UNCHECKED_HASH
        assert stat.S_IMODE(bytecode.parents[1].stat().st_mode) == 0o700


@pytest.mark.parametrize("mode", [0o750, 0o705, 0o777])
def test_a_program_ignores_requests_in_a_directory_that_others_may_enter(live, client, mode):
    with program(live, SHOP) as shop:
        directory = Path(shop.do("print(os.environ['CODRIVER_RUN'])")[0])
        request = directory / f"{shop.process.pid}.request"
        request.touch()
        directory.chmod(mode)
        os.kill(shop.process.pid, signal.SIGURG)
        assert shop.do("print(threading.active_count(), os.listdir(os.environ['CODRIVER_RUN']))") == [
            f"1 {[path.name for path in directory.iterdir()]}"
        ]
        assert request.exists()
        request.unlink()
        directory.chmod(0o700)
        assert client.call("evaluate_code", code="6 * 7", replSessionKey="shop")["result"] == "42"


def test_forks_cause_no_warning_before_a_repl_is_used_and_after_its_server_was_killed(tmp_path):
    """Python 3.12 and later warn if a process with several threads forks."""
    live = Server(tmp_path, "linux")
    python = interpreter("python3.12")
    try:
        with program(live, SHOP, command=(python, str(live.workspace / "shop.py"))) as shop:
            shop.do("import warnings; warnings.simplefilter('always'); ORDERS.append(7); busy = threading.Event()")
            shop.do("SEEN = []; warnings.showwarning = lambda *of, **_: SEEN.append(str(of[0]))")
            shop.do("def fork(): os.waitpid(os.fork() or os._exit(0), 0)")
            forks = "SEEN.clear(); [fork() for _ in range(50)]; print(len(SEEN))"
            assert shop.do(forks) == ["0"]
            with live.client() as client:
                client.begin_call("evaluate_code", code="busy.set()\nwhile True: pass", replSessionKey="shop")
                assert shop.do("print(busy.wait(60))") == ["True"]
                assert shop.do("SEEN.clear(); fork(); print(len(SEEN))") == ["1"]
                live.stop(signal.SIGKILL)
            until(lambda: shop.threads == 1, "the threads of the REPL to end")
            assert shop.do(forks) == ["0"]
            assert shop.descriptors == {"pipe"}
            live.process = live.start("serve", "--port", "0", "--repl", "python")
            live.process.stdout.readline()
            with live.client() as client:
                answer = client.call("evaluate_code", code="ORDERS, os.getpid()", replSessionKey="shop")
                assert answer.get("result") == f"([7], {shop.process.pid})", answer
    finally:
        live.stop()
