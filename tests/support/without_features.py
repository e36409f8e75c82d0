"""A program that copies the repository without features, so that the tests of the base can run there.

`python without_features.py FOLDER [FEATURE ...]` leaves out the named features, or all. `.ci/without-features` runs
the tests of such a copy.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

from needs import REMOVED_FEATURES

ROOT = Path(__file__).parents[2]
LIST = re.compile(r"NAMES: Final = \((.*?)\)", re.DOTALL)
INSTALLED = ("tests/clients/.venv", "tests/clients/node_modules", "tests/jupyter/.venv", "tests/seam/.venv")
"""What tests use and no commit contains."""


def remove_features(folder, names):
    """Remove features from a copy of the directory `server`: their packages, and their names in the list."""
    packages = folder / "codriver"
    for name in names:
        shutil.rmtree(packages / "features" / name)
        (packages / "repls" / "worker" / "features" / f"{name}.py").unlink(missing_ok=True)
    listed = packages / "app" / "features.py"
    text = listed.read_text()
    kept = "".join(f'"{name}", ' for name in names_in(text) if name not in names)
    listed.write_text(LIST.sub(f"NAMES: Final = ({kept})", text, count=1))


def names_in(text):
    """Return the features that the list names."""
    return re.findall(r'"(\w+)"', LIST.search(text)[1])


def copy(folder, names=()):
    """Copy the files of the repository without these features, or without any, and without their tests."""
    found = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, found.split("\0")):
        source, target = ROOT / name, folder / name
        if source.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target, follow_symlinks=False)
    names = names or names_in((folder / "server" / "codriver" / "app" / "features.py").read_text())
    remove_features(folder / "server", names)
    for name in names:
        shutil.rmtree(folder / "tests" / "features" / name, ignore_errors=True)
    (folder / REMOVED_FEATURES.relative_to(ROOT)).write_text(", ".join(names))
    for name in INSTALLED:
        if (ROOT / name).exists():
            (folder / name).symlink_to(ROOT / name, target_is_directory=True)


if __name__ == "__main__":
    copy(Path(sys.argv[1]), sys.argv[2:])
