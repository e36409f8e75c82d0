"""The command `codriver seam`: print the path of the package `codriver_seam`, or copy it into a project.

The exit status is 1 if a copy would replace a file that Codriver did not write.
"""

from __future__ import annotations

from pathlib import Path  # noqa: TC003  # click commands import it anyway

import click

from codriver.commands.options import DIRECTORY_TYPE
from codriver.commands.terminal import echo
from codriver.errors import format_count

USAGE = """\
    import codriver_seam
    codriver_seam.start_repl(True)  # or app.debug, or no argument if the environment has CODRIVER_SEAM=1"""


@click.group("seam", short_help="Add the seam to an application so that agents can see its state.")
def seam_command() -> None:
    """Give an application the package codriver_seam, through which agents see its state and evaluate code in it.

    The package needs no installation. `path` prints a folder for PYTHONPATH or the classpath, and `copy` copies the
    package into a project.
    """


@seam_command.command("path", short_help="Print the folder for PYTHONPATH or the classpath.")
@click.argument("language", type=click.Choice(["python", "clojure"]))
def path_command(*, language: str) -> None:
    """Print the folder for PYTHONPATH or the classpath, and nothing else.

    \b
    PYTHONPATH="$(codriver seam path python)" flask --app shop run --debug
    nbb -cp "$(codriver seam path clojure):src" page.cljs

    The folder for Python is in your cache and contains only codriver_seam, without Codriver's dependencies.
    """  # noqa: D301  # click does not wrap a paragraph that starts with this character
    from codriver.features.applications import seam_copy  # noqa: PLC0415  # not needed for `--help`

    echo(str(seam_copy.python_path() if language == "python" else seam_copy.CLOJURE_DIRECTORY))


@seam_command.command("copy", short_help="Copy the seam into DIR/codriver_seam.")
@click.argument("folder", metavar="DIR", type=DIRECTORY_TYPE)
def copy_command(*, folder: Path) -> None:
    """Copy the seam, with the REPL that start_repl starts, into DIR/codriver_seam. It supports Python 3.8 and later.

    Use it for a project whose Python is older than 3.11 or has no pip. Run it again to update the copy. It never
    replaces files that were changed or that Codriver did not write. In that case, nothing is copied.
    """
    from codriver.features.applications import seam_copy  # noqa: PLC0415  # as above

    copied = seam_copy.copy_seam(folder)
    written = f"{format_count(len(copied.written), 'file')} written"
    removed = f", {len(copied.removed)} from an earlier version removed" if copied.removed else ""
    echo(f"{copied.package}: {written}, {len(copied.unchanged)} unchanged{removed}")
    echo(f"If {copied.package.parent} is on the application's sys.path, add these two lines:")
    echo(USAGE)
    echo(f"For Clojure, add {copied.package / 'clojure'} to the classpath.")
