"""A worker of each dialect, started once per module, with a new session for each test."""

import contextlib

import pytest
from worker_client import Repl


@pytest.fixture(scope="module")
def python_process(tmp_path_factory):
    with contextlib.closing(Repl(tmp_path_factory.mktemp("python"))) as repl:
        yield repl


@pytest.fixture(scope="module")
def lisp_process(tmp_path_factory):
    with contextlib.closing(Repl(tmp_path_factory.mktemp("lisp"), "--dialect", "lisp")) as repl:
        yield repl


@pytest.fixture
def python(python_process):
    with python_process.fresh_session() as repl:
        yield repl


@pytest.fixture
def lisp(lisp_process):
    with lisp_process.fresh_session() as repl:
        yield repl
