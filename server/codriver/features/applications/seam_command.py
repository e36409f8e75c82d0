"""`codriver seam`: make the package `codriver_seam` available to an application, by its path or as a copy.

The exit status is 1 if a copy would replace a file that Codriver did not write.
"""

from __future__ import annotations

from pathlib import Path  # noqa: TC003  # for the annotation alone, and loaded already

import click

from codriver.commands.options import DIRECTORY
from codriver.commands.terminal import echo

LINES = """\
    import codriver_seam
    codriver_seam.start_repl(True)  # or app.debug, or nothing, with CODRIVER_SEAM=1 in the environment"""


@click.group("seam", short_help="Give an application the seam, through which agents see its state.")
def seam_command() -> None:
    """Give an application the package codriver_seam, through which agents see its state and evaluate in it.

    It needs no installation: `path` prints a folder for PYTHONPATH or a classpath, and `copy` copies it into a project.
    """


@seam_command.command("path", short_help="Print the folder for PYTHONPATH or the classpath.")
@click.argument("language", type=click.Choice(["python", "clojure"]))
def path_command(*, language: str) -> None:
    """Print the folder for PYTHONPATH or the classpath, and nothing else.

    \b
    PYTHONPATH="$(codriver seam path python)" flask --app shop run --debug
    nbb -cp "$(codriver seam path clojure):src" page.cljs

    The one for Python is among your caches, and holds codriver_seam alone: no dependency of Codriver's comes with it.
    """  # noqa: D301  # click knows a paragraph that it leaves as it is by the character itself
    from codriver.features.applications import seam_copy  # noqa: PLC0415  # not needed for `--help`

    echo(str(seam_copy.python_path() if language == "python" else seam_copy.CLOJURE))


@seam_command.command("copy", short_help="Copy the seam into DIR/codriver_seam.")
@click.argument("folder", metavar="DIR", type=DIRECTORY)
def copy_command(*, folder: Path) -> None:
    """Copy the seam, with the REPL that start_repl starts, into DIR/codriver_seam. It supports Python 3.8 and later.

    Use it for a project whose Python is older than 3.11 or has no pip. Run it again to update the copy. Files that
    Codriver did not write, or that were changed, are never replaced: then nothing is copied.
    """
    from codriver.features.applications import seam_copy  # noqa: PLC0415  # as above

    copied = seam_copy.copy_seam(folder)
    written = f"{len(copied.written)} file{'s' * (len(copied.written) != 1)} written"
    removed = f", {len(copied.removed)} of an earlier version removed" if copied.removed else ""
    echo(f"{copied.package}: {written}, {len(copied.same)} there already{removed}")
    echo(f"Where {copied.package.parent} is on the application's sys.path, these two lines are enough:")
    echo(LINES)
    echo(f"For Clojure, the classpath gets {copied.package / 'clojure'}.")
