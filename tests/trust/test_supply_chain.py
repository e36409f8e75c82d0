"""Dependencies: bounded in the package, pinned by hash for development."""

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


def test_the_lock_file_has_every_dependency_in_an_allowed_version():
    for requirement in requirements():
        pinned = PINNED.get(canonicalize_name(requirement.name))
        assert pinned is not None, f"{requirement.name} is not locked: renew tests/requirements.lock"
        assert requirement.specifier.contains(pinned), f"{requirement} does not allow {pinned}"


def test_the_lock_file_pins_everything_by_hash():
    left = ENTRY.sub("", LOCK)
    assert all(not line.strip() or line.lstrip().startswith("#") for line in left.splitlines()), left
    assert "://" not in LOCK
