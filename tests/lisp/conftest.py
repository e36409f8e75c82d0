"""Real code for the tests of Lisp text: the sources of Clojure, Basilisp and Hy."""

import json
import subprocess
import zipfile
from importlib.metadata import files
from pathlib import Path

import pytest
from alike import rounds
from needs import do_without, node

CLOJURE_JAR = Path("/usr/share/java/clojure.jar")


def clojure_sources():
    if not CLOJURE_JAR.exists():
        do_without(f"{CLOJURE_JAR} is missing: install Debian's package `clojure`")
    with zipfile.ZipFile(CLOJURE_JAR) as jar:
        return {name: jar.read(name).decode() for name in jar.namelist() if name.endswith(".clj")}


def package_sources(package, suffix):
    try:
        paths = [path for path in files(package) or () if path.suffix == suffix]
    except ModuleNotFoundError:
        do_without(f"{package} is not installed: pip install 'codriver[dev]'")
    return {str(path): Path(path.locate()).read_bytes().decode() for path in paths}


@pytest.fixture(scope="session")
def sources():
    """Return source texts by name."""
    found = clojure_sources() | package_sources("basilisp", ".lpy")
    assert len(found) > 40
    return found


@pytest.fixture(scope="session")
def some_sources(sources):
    """Return all texts with all rounds, otherwise every fourth by length: the second longest, and shorter ones."""
    longest_first = sorted(sources, key=lambda name: (len(sources[name]), name), reverse=True)
    return {name: sources[name] for name in longest_first[rounds(0, 1) :: rounds(1, 4)]}


@pytest.fixture(scope="session")
def hy_sources():
    """Return source texts by name."""
    found = package_sources("hy", ".hy") | package_sources("hyrule", ".hy")
    assert any("#[[" in text for text in found.values())
    return found


class ParinferPeer:
    """parinfer.js in its own process, which answers one text at a time."""

    def __init__(self, process):
        self._process = process

    def run(self, text):
        """Return the result of parinfer.js: text and error, in its own format."""
        self._process.stdin.write(json.dumps(text) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


@pytest.fixture(scope="session")
def parinfer_js():
    script = Path(__file__).parent / "parinfer_peer.mjs"
    with subprocess.Popen(
        [node("parinfer"), str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
    ) as process:
        yield ParinferPeer(process)
        process.stdin.close()
        process.wait(10)
