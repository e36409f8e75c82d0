"""The README shows what `codriver demo` prints. `python tests/commands/test_demo.py` writes it anew."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from codriver.commands import demo

README = Path(__file__).parents[2] / "README.md"
MARKED = re.compile(r"(<!-- demo -->\n```text\n)(.*?)(```\n<!-- /demo -->)", re.DOTALL)
DEMO_S = 240


def recording():
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        [sys.executable, "-m", "codriver", "demo"], capture_output=True, text=True, timeout=DEMO_S, check=False, env=env
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def without_what_differs(text):
    """The text without what is another at each run: folder, port, line numbers."""
    text = re.sub(r"/\S+/codriver-demo-\w+", "/tmp/codriver-demo", text)
    text = re.sub(r"(127\.0\.0\.1:)\d+", r"\1PORT", text)
    return re.sub(r"^ +\d+ ", " LINE ", text, flags=re.MULTILINE)


def test_the_recording_in_the_readme_is_what_the_demo_prints():
    shown = MARKED.search(README.read_text())[2]
    assert without_what_differs(shown) == without_what_differs(recording()), "run `python tests/commands/test_demo.py`"


def test_without_the_lisp_it_shows_python_and_says_how_to_have_both(monkeypatch, capfd):
    monkeypatch.setattr(demo, "find_spec", lambda _name: None)
    demo.demo_command.callback()
    said = capfd.readouterr()
    assert "=> 6" in said.out
    assert "lpy" not in said.out
    assert "pip install 'codriver[lisp]'" in said.err


def test_what_fails_in_it_is_told_in_one_line(monkeypatch):
    monkeypatch.setattr(demo, "find_spec", lambda _name: None)
    monkeypatch.setattr(demo, "PYTHON", "1 / 0")
    with pytest.raises(demo.DemoFailedError, match=r"^evaluate_code failed: ZeroDivisionError: division by zero$"):
        demo.demo_command.callback()
    monkeypatch.setattr(demo, "PYTHON", "import time; time.sleep(100)")
    monkeypatch.setattr(demo, "LISP_MS", 1000)
    with pytest.raises(demo.DemoFailedError, match=r"is still running after 1 s$"):
        demo.demo_command.callback()


if __name__ == "__main__":
    printed = re.sub(r"/\S+/codriver-demo-\w+", "/tmp/codriver-demo", recording())
    README.write_text(MARKED.sub(lambda found: found[1] + printed + found[3], README.read_text()))
