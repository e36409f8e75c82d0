"""A git checkout with an environment in which its own packages are installed, and a linked working tree of it."""

import os
import subprocess
import sys
from pathlib import Path

FINDER = """\
import sys
from importlib.machinery import PathFinder
MAPPING = {mapping!r}
class Finder:
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        place = MAPPING.get(name)
        return PathFinder.find_spec(name, [place.rpartition("/")[0]]) if place else None
def install():
    sys.meta_path.append(Finder)
"""
"""A finder like those that setuptools writes, in short form."""


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def git(*arguments: str) -> None:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *identity, *arguments], check=True, capture_output=True)


def linked_tree(main: Path, linked: Path, *, python: str = sys.executable) -> str:
    """Create both: `shop` and `stock` are found in `main`, `wares` where it was installed, and `own` in each tree.

    Return the interpreter of the environment.
    """
    sources = {f"packages/{name}/src/{name}/__init__.py": "" for name in ("shop", "stock", "wares")}
    write(main, {**sources, "src/own/__init__.py": "", "pyproject.toml": "", ".gitignore": ".venv\n"})
    git("init", str(main))
    git("-C", str(main), "add", "-A")
    git("-C", str(main), "commit", "-m", "first")
    git("-C", str(main), "worktree", "add", str(linked))
    subprocess.run([python, "-m", "venv", "--without-pip", str(main / ".venv")], check=True, capture_output=True)
    (installed,) = Path(main / ".venv").glob("lib/python3*/site-packages")
    mapping = {"stock": str(main / "packages/stock/src/stock")}
    write(
        installed,
        {
            "shop.pth": f"{main}/packages/shop/src{os.linesep}{main}/src",
            "__editable___stock_finder.py": FINDER.format(mapping=mapping),
            "stock.pth": "import __editable___stock_finder; __editable___stock_finder.install()",
            "wares/__init__.py": "",
            "wares-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: wares\nVersion: 1\n",
            "wares-1.dist-info/RECORD": "wares/__init__.py,,\n",
            "wares-1.dist-info/direct_url.json": f'{{"url": "{(main / "packages/wares").as_uri()}", "dir_info": {{}}}}',
            "elsewhere/__init__.py": "",
            "elsewhere-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: elsewhere\nVersion: 1\n",
        },
    )
    return str(main / ".venv" / "bin" / "python")
