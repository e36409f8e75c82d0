"""The worker in every Python that is installed here, from 3.8 on: a project has its own."""

import contextlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from worker_client import Repl, asked_for_input, begun, text, texts

NAMES = [f"python3.{minor}" for minor in range(8, 16)]


def working(name):
    """The interpreter `name`, of PATH or of pyenv; None where there is none, or only something that stands for one."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    for path in [shutil.which(name), *map(str, pyenv.glob(f"versions/*/bin/{name}"))]:
        if path and subprocess.run([path, "-c", "pass"], capture_output=True, check=False, timeout=60).returncode == 0:
            return path
    return None


@pytest.fixture(scope="module", params=NAMES)
def process(request, tmp_path_factory):
    if (path := working(request.param)) is None:
        pytest.skip(f"{request.param} is not installed")
    with contextlib.closing(Repl(tmp_path_factory.mktemp("any"), "--supervised", python=path)) as repl:
        repl.connect()
        (version,) = texts(repl.evaluate("import sys\n'python%d.%d' % sys.version_info[:2]"), "value")
        assert version == repr(request.param)
        yield repl


@pytest.fixture
def python(process):
    with process.fresh_session() as repl:
        yield repl


def test_it_evaluates_prints_and_awaits(python):
    answer = python.evaluate(
        "import asyncio, sys\nprint('out')\nprint('err', file=sys.stderr)\nawait asyncio.sleep(0, 7)"
    )
    assert (text(answer, "out"), text(answer, "err"), texts(answer, "value")[-1]) == ("out\n", "err\n", "7")


def test_it_tells_of_errors_and_leaves_them_to_debuggers(python):
    (parts,) = texts(python.evaluate("def boom():\n    return 1 / 0\nboom()"), "codriver/error")
    assert (parts["type"], parts["line"], parts["form"]) == ("ZeroDivisionError", 2, 2)
    assert all("codriver" not in line for line in parts["trace"])
    assert texts(python.evaluate("import sys\nsys.last_exc is sys.last_value"), "value") == ["True"]
    (parts,) = texts(python.evaluate("f("), "codriver/error")
    assert (parts["type"], parts["phase"]) == ("SyntaxError", "read")


def test_it_is_interrupted_in_code_and_at_prompts(python):
    for code, wait in (("print('begun', flush=True)\nwhile True: pass", begun), ("breakpoint()", asked_for_input)):
        running = python.send("eval", code=code)
        assert wait(python, running)
        python.send("interrupt")
        assert "interrupted" in python.answer(running)[-1]["status"]


def test_it_loads_files_and_knows_names(python):
    file = python.folder / "parcel.py"
    source = "def inc(n):\n    'One more.'\n    return n + 1\ninc(1)"
    file.write_text(source)
    loaded = python.ask("load-file", **{"file": source, "file-path": str(file)})
    assert texts(loaded, "value") == ["2"]
    python.evaluate("import parcel")
    (info,) = texts(python.ask("lookup", sym="parcel.inc"), "info")
    assert (info["arglists-str"], info["doc"], info["line"]) == ("(n)", "One more.", 1)
    (found,) = texts(python.ask("completions", prefix="parcel.i"), "completions")
    assert [item["candidate"] for item in found] == ["parcel.inc"]


def test_it_shows_what_its_threads_do(python):
    running = python.send("eval", code="def busy():\n    print('begun', flush=True)\n    while True: pass\nbusy()")
    assert begun(python, running)
    (stacks,) = texts(python.ask("codriver/stacks"), "stacks")
    assert "in busy" in stacks
    assert "codriver/repls/worker" not in stacks
    python.send("interrupt")
    python.answer(running)


def test_what_is_forked_and_what_c_code_prints_is_heard(python):
    code = "import os\nif not os.fork():\n    os.write(1, b'child'); os._exit(0)\n_ = os.wait()"
    assert text(python.evaluate(code), "out") == "child"
