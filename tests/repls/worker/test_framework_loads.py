"""A method or a route of a framework is edited and loaded while it lives: no second entry, no class made anew."""

import json
import subprocess
from pathlib import Path

from needs import do_without
from web_application import PYTHON

PROGRAM = Path(__file__).parents[2] / "support" / "framework_loads.py"


def seen(name):
    command = [PYTHON, "-c", f"import {name}"]
    if not PYTHON.exists() or subprocess.run(command, check=False, capture_output=True).returncode:
        do_without("make tests/seam/.venv with tests/seam/applications.txt")
    told = subprocess.run([PYTHON, PROGRAM, name], check=True, capture_output=True, text=True)
    return json.loads(told.stdout)


def test_a_route_of_flask_after_the_first_request():
    assert seen("flask") == ["helo", "hello", 2, []]


def test_a_route_of_fastapi_after_the_first_request():
    assert seen("fastapi") == [{"said": "helo", "a": 1}, {"said": "hello", "a": 2}, 1, []]


def test_a_method_of_a_mapped_class_of_sqlalchemy():
    assert seen("sqlalchemy") == ["helo ann", [], "hello ann", "HELLO ANN", True, True, []]


def test_a_method_of_a_model_of_django():
    assert seen("django") == ["helo ann", [], "hello ann", "HELLO ANN", True, []]
