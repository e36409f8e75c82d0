"""Copy Codriver's code for programs to its private cache.

Programs load only this copy. Its bytecode is stored next to it for each Python version, even if that Python is
configured not to write any. The copy is named after the digest of its files, so they never change.
"""

from __future__ import annotations

import hashlib
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from codriver import files
from codriver.features.run.run_directory import check_private
from codriver.files import FileRules, Links
from codriver.files.codriver_paths import cache_directory
from codriver.files.private_directories import make_private_directory

if TYPE_CHECKING:
    from collections.abc import Mapping

PROGRAM_RULES: Final = FileRules(Links.ANY, files.MEBIBYTE)
"""Limits for reading one of the program's files."""
COPIES_DIRECTORY: Final = "run"
"""The name of the directory in the user's cache that contains the copies."""
PACKAGE_NAME: Final = "codriver_program"
"""The name of the package in a copy."""
PROGRAM_DIRECTORY: Final = Path(__file__).with_name("program")
"""The directory of the program that runs in the user's processes."""
WORKER_DIRECTORY: Final = Path(__file__).parents[2] / "repls" / "worker"
"""The directory of the embedded REPL."""


def prepare_program() -> Path:
    """Return the directory for `PYTHONPATH` that contains Codriver's code for programs. Create it if necessary.

    Raises:
        OSError: the files cannot be copied, or the directory is not private.
    """
    sources = _read_sources()
    digest = hashlib.sha256()
    for name, data in sources.items():
        digest.update(f"{name}\0{len(data)}\0".encode() + data)
    parent = cache_directory() / COPIES_DIRECTORY
    make_private_directory(parent)
    check_private(parent)
    directory = parent / digest.hexdigest()[:16]
    if not directory.is_dir():
        draft = Path(tempfile.mkdtemp(prefix="draft-", dir=parent))
        try:
            for name, data in sources.items():
                files.replace(draft / name, data, links=Links.ANY, make_mode=0o700, is_durable=False)
            files.rename(draft, directory)
        except OSError:
            if not directory.is_dir():  # another run created it first
                raise
        finally:
            with suppress(OSError):
                files.remove_tree(draft)
    check_private(directory)
    return directory


def is_program_copy(directory: Path) -> bool:
    """Return whether `prepare_program` of any version of Codriver created a directory."""
    return directory.parent.name == COPIES_DIRECTORY and (directory / PACKAGE_NAME).is_dir()


def _read_sources() -> Mapping[str, bytes]:
    """Return the contents of the files to copy, by their relative paths."""
    found = {
        "sitecustomize.py": PROGRAM_DIRECTORY / "sitecustomize.py",
        f"{PACKAGE_NAME}/answer.py": PROGRAM_DIRECTORY / "answer.py",
        **{
            f"{PACKAGE_NAME}/worker/{path.relative_to(WORKER_DIRECTORY).as_posix()}": path
            for path in sorted(WORKER_DIRECTORY.rglob("*.py"))
        },
    }
    return {name: files.read(path, PROGRAM_RULES) for name, path in found.items()}
