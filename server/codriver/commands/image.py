"""`codriver image`: save the images of an evaluation from the log of a server or of an earlier run.

A server's answer contains a marker in place of each image (`codriver.core.images`). The image itself is then requested
by its log line.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path  # for the annotation alone, and loaded already
from typing import TYPE_CHECKING, Any, Final

import click

from codriver.commands.options import WholeNumberRange, workspace_option
from codriver.commands.runs import run_entries
from codriver.commands.terminal import convert_field_errors, echo, echo_bytes, write_file
from codriver.core.images import DATA_URL_PATTERN, ImageFacts, decode_base64, find_images, parse_image
from codriver.errors import format_count
from codriver.log.control_characters import escape_to_one_line
from codriver.net import client

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from codriver.net.client import Connection


STDOUT_NAME: Final = "-"
"""The value of `-o` for standard output."""
MAX_IMAGES_PER_LINE: Final = 100
"""Maximum number of images requested per log line. A line hardly ever has more than one."""
MAX_TEXT_BYTES: Final = 16 * 2**20
"""Maximum number of bytes to request for one text. This is enough for any image in the log."""
MAX_ROWS: Final = 10_000
"""Maximum number of rows that are requested."""
_IMAGE_CLAUSES: Final = (
    '[?e :output/text ?text] [(clojure.string/includes? ?text "data:image/")] [?e :output/line ?line]'
)
EVALUATION_IMAGES_QUERY: Final = f"[:find ?line :in $ ?id :where [?e :output/evaluation ?id] {_IMAGE_CLAUSES}]"
"""Query for the log lines that contain an image and belong to a given evaluation."""
ALL_IMAGES_QUERY: Final = f"[:find ?line ?id :where {_IMAGE_CLAUSES} [?e :output/evaluation ?id]]"
"""Query for all log lines that contain an image, each with the id of its evaluation."""
TEXT_AT_LINES_QUERY: Final = """[:find ?line ?id ?text :in $ [?line ...]
 :where [?e :output/line ?line] [?e :output/text ?text]
  [(get-else $ ?e :output/evaluation "log") ?id]]"""
"""Query for the texts of the log entries at given lines."""


@dataclass(frozen=True, slots=True)
class Image:
    """An image that an evaluation produced. `number` counts the images of the evaluation from 1."""

    evaluation: str
    number: int
    image: ImageFacts
    content: bytes

    @property
    def file_name(self) -> str:
        """Return a name for a file with the image."""
        return f"{self.evaluation}-{self.number}{self.image.suffix}".replace("/", "-")


@click.command(
    "image",
    short_help="Save the images of an evaluation.",
    epilog="Exit status: 0 listed or written, 1 no image, 2 wrong usage, 3 no server.",
)
@click.argument("evaluation", default="", metavar="[ID]")
@click.option("--number", "-n", type=WholeNumberRange(1), metavar="N", help="Only the Nth image of the evaluation.")
@click.option(
    "--output",
    "-o",
    metavar="FILE",
    help="Where to write the image: a file, a folder for several images, or - for standard output.",
)
@click.option("--run", metavar="RUN", help="An earlier run: -1 for the last one, or an id from `codriver runs`.")
@workspace_option
def image_command(*, evaluation: str, number: int | None, output: str | None, run: str | None, workspace: Path) -> None:
    """Save the images of the evaluation ID, which defaults to the newest evaluation that has images.

    Without --output, images are listed on a terminal and written to a pipe. If there are several, numbers are added to
    their file names.
    """
    workspace = workspace.resolve()
    found = _find_images(workspace, evaluation, run)
    chosen = [listed for listed in found if number in (None, listed.number)]
    if not chosen:
        raise click.ClickException(_no_image(evaluation, len(found)))
    if output == STDOUT_NAME or (output is None and not sys.stdout.isatty()):
        if len(chosen) > 1:
            raise click.UsageError(f"there are {len(chosen)} images. Choose one with -n, or name a folder with -o")
        echo_bytes(chosen[0].content)
    elif output is not None:
        _write(chosen, Path(output), workspace)
    else:
        for listed in chosen:
            echo(
                escape_to_one_line(
                    f"codriver image {listed.evaluation} -n {listed.number} -o FILE: {listed.image.description}"
                )
            )


def _find_images(workspace: Path, evaluation: str, run: str | None) -> list[Image]:
    """Return the images of an evaluation, or of the newest evaluation that has images."""
    if run is not None:
        found = _images_of_entries(entry.to_json() for entry in run_entries(workspace, run))
        chosen = evaluation or (found[-1].evaluation if found else "")
        return [listed for listed in found if listed.evaluation == chosen]
    with client.connect(workspace, name="codriver-image") as connection:
        chosen = evaluation or _newest_with_image(connection)
        return _images_of_evaluation(connection, chosen) if chosen else []


def _no_image(evaluation: str, count: int) -> str:
    if count:
        return f"the evaluation has {format_count(count, 'image')}, and -n counts from 1"
    if evaluation:
        return f"the log has no image from the evaluation {evaluation}. To see the log, run `codriver log`"
    return "the log has no image. Use --run to search an earlier run, as listed by `codriver runs`"


def _write(chosen: Sequence[Image], file: Path, workspace: Path) -> None:
    if file.is_dir():
        paths = [file / listed.file_name for listed in chosen]
    else:
        paths = [file if count == 1 else file.with_stem(f"{file.stem}-{count}") for count in range(1, len(chosen) + 1)]
    for listed, path in zip(chosen, paths, strict=True):
        echo(escape_to_one_line(f"saved: {write_file(path, listed.content, workspace)}"), err=True)


def _newest_with_image(connection: Connection) -> str:
    """Return the id of the evaluation with the newest image, or an empty string if there is no image in the log."""
    rows = _query(connection, ALL_IMAGES_QUERY)
    with convert_field_errors("repl_output_log"):
        return str(max(rows, key=lambda row: int(row[0]))[1]) if rows else ""


def _images_of_evaluation(connection: Connection, evaluation: str) -> list[Image]:
    """Return the images of an evaluation from the server's log, in order."""
    rows = _query(connection, EVALUATION_IMAGES_QUERY, evaluation)
    with convert_field_errors("repl_output_log"):
        lines = sorted(int(row[0]) for row in rows)
    rows = _query(connection, TEXT_AT_LINES_QUERY, lines) if lines else []
    with convert_field_errors("repl_output_log"):
        lines_with_images = sorted((int(line), str(name), str(text)) for line, name, text in rows)
    contents: dict[str, bytes] = {}
    for line, _, text in lines_with_images:
        if any(listed.digest not in contents for listed in find_images(text)):
            arguments = {"query": TEXT_AT_LINES_QUERY, "inputs": [[line]], "maxImages": MAX_IMAGES_PER_LINE}
            _, images = connection.call_with_images("repl_output_log", arguments)
            contents |= {parse_image(kind, data).digest: decode_base64(data) for kind, data in images}
    return _number_images(
        (name, listed, contents.get(listed.digest))
        for _, name, text in lines_with_images
        for listed in find_images(text)
    )


def _images_of_entries(entries: Iterable[Mapping[str, Any]]) -> list[Image]:
    """Return the images in log entries of an earlier run. Truncated images are left out."""
    found = [
        (str(entry.get("evaluation", "log")), data)
        for entry in entries
        for data in DATA_URL_PATTERN.finditer(entry["text"])
    ]
    return _number_images((name, parse_image(data[1], data[2]), decode_base64(data[2])) for name, data in found)


def _number_images(found: Iterable[tuple[str, ImageFacts, bytes | None]]) -> list[Image]:
    counts: dict[str, int] = {}
    images = []
    for name, listed, content in found:
        counts[name] = counts.get(name, 0) + 1
        if content:
            images.append(Image(name, counts[name], listed, content))
    return images


def _query(connection: Connection, query: str, *inputs: object) -> list[Any]:
    arguments = {"query": query, "inputs": list(inputs), "limit": MAX_ROWS, "maxTextBytes": MAX_TEXT_BYTES}
    answer = connection.call("repl_output_log", arguments)
    with convert_field_errors("repl_output_log"):
        rows: list[Any] = answer["result"]
    return rows
