"""What Codriver is made of: bounded in the package, pinned by hash for development, and no more than is said."""

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
ENTRY = re.compile(
    r"^([A-Za-z0-9._-]+)==([^\s;]+)((?:[^\n]*\\\n)(?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", re.MULTILINE
)
LOCK = (ROOT / "tests" / "requirements.lock").read_text()
PINNED = {canonicalize_name(name): version for name, version, _ in ENTRY.findall(LOCK)}


def requirements():
    extras = PROJECT["project"]["optional-dependencies"]
    texts = [*PROJECT["project"]["dependencies"], *(text for group in extras.values() for text in group)]
    return [found for found in map(Requirement, texts) if found.name != "codriver"]


def test_every_dependency_has_an_upper_bound():
    build = [Requirement(text) for text in PROJECT["build-system"]["requires"]]
    for requirement in (*requirements(), *build):
        assert any(part.operator in ("<", "<=", "==") for part in requirement.specifier), str(requirement)


def test_the_lock_has_every_dependency_in_a_version_that_the_package_allows():
    for requirement in requirements():
        pinned = PINNED.get(canonicalize_name(requirement.name))
        assert pinned is not None, f"{requirement.name} is not locked: renew tests/requirements.lock"
        assert requirement.specifier.contains(pinned), f"{requirement} does not allow {pinned}"


def test_the_lock_pins_everything_by_its_hash():
    left = ENTRY.sub("", LOCK)
    assert all(not line.strip() or line.lstrip().startswith("#") for line in left.splitlines()), left
    assert "://" not in LOCK


def test_the_relay_is_one_file_that_can_be_read_at_a_sitting():
    """That it imports the standard library alone, the test of the architecture says."""
    source = (ROOT / "relay" / "codriver_relay" / "__init__.py").read_text()
    # 900 until it had to ask the kernel who listens, by itself, and to judge each file in the workspace; 1300 until it
    # answered from what is kept while a server starts; 1420 until it found the workspace, also by asking; 1740 until it
    # asked a new server for log messages again, and waited by threads where no pipe can be polled; 1845 until clients
    # without a handshake were answered from what is kept, too, and told on their streams of a list that differs; 1895
    # until it said that the workspace's disk is full or read-only; 1910 until it took a checkout's folders out of the
    # PYTHONPATH of the server that it starts.
    assert len(source.splitlines()) < 1955
    assert not re.search(r"\b(eval|exec|compile|__import__)\(", source)
    start = (ROOT / "relay" / "codriver_relay" / "__main__.py").read_text()
    # The hook program beside the relay begins in the same place.
    assert len(start.splitlines()) < 25
    assert len([*(ROOT / "relay").rglob("*.py")]) == 3
