"""`codriver image`: the pictures of an evaluation, shown in the terminal or written to files.

Exit status: 0 shown, listed or written, 1 there is none, 2 wrong usage, 3 no server.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from codriver.commands.held_pictures import Held, newest_with_picture, pictures_of, pictures_of_entries, save, show
from codriver.commands.log import run_entries
from codriver.commands.options import Whole, workspace_option
from codriver.commands.output_files import write_file
from codriver.commands.terminal import say, say_bytes
from codriver.log.control_characters import one_line
from codriver.net import client

STDOUT = "-"


@click.command(
    "image",
    short_help="Show or save the pictures of an evaluation.",
    epilog="Exit status: 0 shown, listed or written, 1 there is none, 2 wrong usage, 3 no server.",
)
@click.argument("evaluation", default="", metavar="[ID]")
@click.option("--number", "-n", type=Whole(1), metavar="N", help="The Nth picture of it alone.")
@click.option(
    "--output", "-o", metavar="FILE", help="Write there: a file, a folder for all of them, or - for standard output."
)
@click.option("--run", metavar="RUN", help="Of an earlier run: -1 for the last, or as `codriver runs` says.")
@workspace_option
def image_command(*, evaluation: str, number: int | None, output: str | None, run: str | None, workspace: Path) -> None:
    """Show the pictures of the evaluation ID, of the newest that has one by default, or write them to files.

    A terminal shows them that knows kitty's protocol, iTerm2's, or sixels: it is asked. Elsewhere they are listed, and
    --output writes them as they came; the second and later pictures of an evaluation get a number in their names.
    """
    workspace = workspace.resolve()
    held = _held(workspace, evaluation, run)
    chosen = [one for one in held if number in (None, one.number)]
    if not chosen:
        raise click.ClickException(_nothing(evaluation, len(held)))
    if output == STDOUT or (output is None and not sys.stdout.isatty()):
        if len(chosen) > 1:
            raise click.UsageError(f"there are {len(chosen)} pictures: choose one with -n, or name a folder with -o")
        say_bytes(chosen[0].content)
    elif output is not None:
        _write(chosen, Path(output), workspace)
    elif not show(chosen):
        for one in chosen:
            say(one_line(f"codriver image {one.evaluation} -n {one.number}: {one.picture.words}"))
        say("this terminal shows no pictures (kitty, iTerm2 and those with sixels do): -o FILE writes them", err=True)


def _held(workspace: Path, evaluation: str, run: str | None) -> list[Held]:
    """The pictures of the evaluation, or of the newest that has any."""
    if run is not None:
        held = pictures_of_entries(entry.to_json() for entry in run_entries(workspace, run))
        wanted = evaluation or (held[-1].evaluation if held else "")
        return [one for one in held if one.evaluation == wanted]
    with client.connect(workspace, name="codriver-image") as connection:
        wanted = evaluation or newest_with_picture(connection) or ""
        return pictures_of(connection, wanted) if wanted else []


def _nothing(evaluation: str, count: int) -> str:
    if count:
        return f"the evaluation has {count} {'picture' if count == 1 else 'pictures'}: -n counts from 1"
    if evaluation:
        return f"the log has no picture of an evaluation {evaluation}: `codriver log` shows what it has"
    return "the log has no picture; --run looks in an earlier run, as `codriver runs` lists them"


def _write(chosen: list[Held], file: Path, workspace: Path) -> None:
    if file.is_dir():
        save(chosen, file, workspace)
        return
    for count, one in enumerate(chosen, 1):
        path = file if count == 1 else file.with_stem(f"{file.stem}-{count}")
        say(one_line(f"saved: {write_file(path, one.content, workspace)}"), err=True)
