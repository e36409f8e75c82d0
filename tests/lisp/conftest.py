"""Real code for the tests of Lisp text: Clojure's own sources, and Basilisp's."""

import os
import zipfile
from importlib.metadata import files
from pathlib import Path

import pytest

CLOJURE_JAR = Path("/usr/share/java/clojure.jar")


def missing(what, remedy):
    """Fail where everything must be there, skip where a developer may lack something."""
    message = f"{what} is missing: {remedy}"
    if os.environ.get("CI"):
        pytest.fail(message)
    pytest.skip(message)


def clojure_sources():
    if not CLOJURE_JAR.exists():
        missing(str(CLOJURE_JAR), "install Debian's package `clojure`")
    with zipfile.ZipFile(CLOJURE_JAR) as jar:
        return {name: jar.read(name).decode() for name in jar.namelist() if name.endswith(".clj")}


def basilisp_sources():
    try:
        paths = [path for path in files("basilisp") or () if path.suffix == ".lpy"]
    except ModuleNotFoundError:
        missing("basilisp", "run `pip install 'codriver[lisp]'`")
    return {str(path): path.locate().read_bytes().decode() for path in paths}


@pytest.fixture(scope="session")
def sources():
    """Texts by name."""
    found = clojure_sources() | basilisp_sources()
    assert len(found) > 40
    return found
