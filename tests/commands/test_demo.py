"""The README's image shows what `codriver demo` prints. `python tests/commands/test_demo.py` draws it again."""

import os
import re
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))  # for who runs this file itself

import pytest
from terminal_picture import STYLES, drawn, text_of

from codriver.commands import demo

ROOT = Path(__file__).parents[2]
PICTURE = ROOT / "docs" / "images" / "demo.svg"
TITLE = "codriver demo: a server with a Python and a Lisp REPL, a client that evaluates in both, and the log of it"
DEMO_S = 240


def recording():
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONDONTWRITEBYTECODE", "NO_COLOR")}
    env["FORCE_COLOR"] = "1"
    done = subprocess.run(
        [sys.executable, "-m", "codriver", "demo"], capture_output=True, text=True, timeout=DEMO_S, check=False, env=env
    )
    assert done.returncode == 0, done.stderr
    assert "not listed by server" not in done.stderr
    return done.stdout


def without_what_differs(text):
    """Return the text without what varies between runs: directory, port, line numbers."""
    text = re.sub(r"/\S+/codriver-demo-\w+", "/tmp/codriver-demo", text)
    text = re.sub(r"(127\.0\.0\.1:)\d+", r"\1PORT", text)
    return re.sub(r"^ +\d+ ", " LINE ", text, flags=re.MULTILINE)


def test_the_image_shows_what_the_demo_prints():
    output = text_of(PICTURE.read_text("utf-8"))
    printed = STYLES.sub("", recording())
    assert without_what_differs(output) == without_what_differs(printed), "run `python tests/commands/test_demo.py`"


def test_the_readme_shows_the_image_next_to_its_command():
    readme = (ROOT / "README.md").read_text("utf-8")
    assert f"]({PICTURE.relative_to(ROOT)})" in readme.partition("## Install")[0]
    assert "&& .venv/bin/codriver demo\n" in readme


def test_an_image_contains_the_text_as_printed():
    printed = '\x1b[1m$ a <b> & c\n  two\x1b[0m\n\n\x1b[32m=> ("x")\x1b[0m\n'
    assert text_of(drawn(printed, "a & b")) == '$ a <b> & c\n  two\n\n=> ("x")\n'


def test_without_lisp_the_demo_runs_python_and_says_how_to_install_lisp(monkeypatch, capfd):
    monkeypatch.setattr(demo, "find_spec", lambda _name: None)
    demo.demo_command.callback()
    output = capfd.readouterr()
    assert "=> 6" in output.out
    assert "lpy" not in output.out
    assert "uv tool install '.[lisp]'" in output.err


def test_a_failing_demo_prints_a_single_error_line(monkeypatch):
    monkeypatch.setattr(demo, "find_spec", lambda _name: None)
    monkeypatch.setattr(demo, "PYTHON_CODE", "1 / 0")
    with pytest.raises(demo.DemoFailedError, match=r"^evaluate_code failed: ZeroDivisionError: division by zero$"):
        demo.demo_command.callback()
    monkeypatch.setattr(demo, "PYTHON_CODE", "import time; time.sleep(100)")
    monkeypatch.setattr(demo, "EVALUATION_TIMEOUT_MS", 1000)
    with pytest.raises(demo.DemoFailedError, match=r"is still running after 1 s$"):
        demo.demo_command.callback()


if __name__ == "__main__":
    PICTURE.write_text(drawn(re.sub(r"/\S+/codriver-demo-\w+", "/tmp/codriver-demo", recording()), TITLE), "utf-8")
