"""Pictures of evaluations for the commands: had of a server's log or of an earlier run, saved, and shown inline.

What a server answers to a command has a mark in the place of each picture (`codriver.core.pictures`); the picture
itself is asked for by the line of the log that it stands in.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from codriver.commands.answer_reading import reading
from codriver.commands.output_files import write_file
from codriver.commands.terminal import draw, say
from codriver.core.pictures import DATA, Picture, decoded, marked, picture, pictures_in
from codriver.log.control_characters import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from codriver.net.client import Connection

MOST: Final = 100
"""Pictures that one answer gives; a line of the log hardly ever has more than one."""
WHOLE: Final = 16 * 2**20
"""The longest texts that can be asked for."""
MOST_LINES: Final = 10_000
_DRAWN: Final = '[?e :output/text ?text] [(clojure.string/includes? ?text "data:image/")] [?e :output/line ?line]'
LINES_OF: Final = f"[:find ?line :in $ ?id :where [?e :output/evaluation ?id] {_DRAWN}]"
ALL_LINES: Final = f"[:find ?line ?id :where {_DRAWN} [?e :output/evaluation ?id]]"
TEXTS_AT: Final = """[:find ?line ?id ?text :in $ [?line ...] :where [?e :output/line ?line] [?e :output/text ?text]
  [(get-else $ ?e :output/evaluation "log") ?id]]"""


@dataclass(frozen=True, slots=True)
class Held:
    """A picture of an evaluation, and its bytes. `number`: which of the evaluation's it is, from 1 on."""

    evaluation: str
    number: int
    picture: Picture
    content: bytes

    @property
    def file_name(self) -> str:
        """The name of its file."""
        return f"{self.evaluation}-{self.number}{self.picture.suffix}".replace("/", "-")


def named(text: str, evaluation: str) -> str:
    """The text of an evaluation, with the command that gives a picture in the place of the picture's mark."""
    return marked(text, lambda one: f"<<{one.words}: codriver image {evaluation}>>")


def newest_with_picture(connection: Connection) -> str | None:
    """The evaluation that showed a picture last; None where the log has none."""
    rows = _asked(connection, ALL_LINES)
    with reading("repl_output_log"):
        return str(max(rows, key=lambda row: int(row[0]))[1]) if rows else None


def pictures_of(connection: Connection, evaluation: str) -> list[Held]:
    """The pictures of an evaluation that the log has, in the order in which they came."""
    rows = _asked(connection, LINES_OF, evaluation)
    with reading("repl_output_log"):
        lines = sorted(int(row[0]) for row in rows)
    return pictures_at(connection, lines)


def pictures_at(connection: Connection, lines: Sequence[int]) -> list[Held]:
    """The pictures in these lines of the log, in their order."""
    rows = _asked(connection, TEXTS_AT, list(lines)) if lines else []
    with reading("repl_output_log"):
        texts = sorted((int(line), str(name), str(text)) for line, name, text in rows)
    contents: dict[str, bytes] = {}
    for line, _, text in texts:
        if any(one.digest not in contents for one in pictures_in(text)):
            asked = {"query": TEXTS_AT, "inputs": [[line]], "maxImages": MOST}
            _, images = connection.call_with_images("repl_output_log", asked)
            contents |= {picture(kind, data).digest: decoded(data) for kind, data in images}
    return _numbered((name, one, contents.get(one.digest)) for _, name, text in texts for one in pictures_in(text))


def pictures_of_entries(entries: Iterable[Mapping[str, Any]]) -> list[Held]:
    """The pictures in entries that still have their data, as those of an earlier run have; what was cut is left out."""
    found = [(str(entry.get("evaluation", "log")), data) for entry in entries for data in DATA.finditer(entry["text"])]
    return _numbered((name, picture(data[1], data[2]), decoded(data[2])) for name, data in found)


def _numbered(found: Iterable[tuple[str, Picture, bytes | None]]) -> list[Held]:
    counts: dict[str, int] = {}
    held = []
    for name, one, content in found:
        counts[name] = counts.get(name, 0) + 1
        if content:
            held.append(Held(name, counts[name], one, content))
    return held


def save(pictures: Iterable[Held], folder: Path, workspace: Path) -> None:
    """Write the pictures into a folder, which is made if missing, and say where."""
    for one in pictures:
        say(one_line(f"saved: {write_file(folder / one.file_name, one.content, workspace)}"), err=True)


def show(pictures: Sequence[Held]) -> bool:
    """Show the pictures on the terminal, each below a line on it; whether it could."""
    from codriver.commands.pictures.inline_pictures import encoded, way_of_terminal  # noqa: PLC0415  # few answers have pictures

    way = way_of_terminal() if pictures else None
    if way is None:
        return False
    for one in pictures:
        shown = encoded(way, one.picture.kind, one.content)
        how = f"shown by {way}" if shown else f"{way} cannot show it; -o saves it"
        say(one_line(f"codriver image {one.evaluation} -n {one.number}: {one.picture.words} ({how})"), err=True)
        if shown:
            draw(f"{shown}\n")
    return True


def show_or_save(
    connection: Connection, evaluation: str, folder: Path | None, workspace: Path, *, can_show: bool = True
) -> None:
    """Save the pictures of an evaluation where a folder is given, and show them where the terminal can."""
    can_show &= sys.stdout.isatty()
    held = pictures_of(connection, evaluation) if folder or can_show else []
    if folder is not None:
        save(held, folder, workspace)
    if can_show:
        show(held)


def tell_of_answer(images: Iterable[tuple[str, str]], name: str, folder: Path | None, workspace: Path) -> None:
    """Say which pictures came beside an answer, each as its kind and its base64, and save them where a folder is given.

    `name`: the evaluation that they are of, else of what else.
    """
    held = _numbered((name, picture(kind, data), decoded(data)) for kind, data in images)
    if folder is not None:
        save(held, folder, workspace)
        return
    for one in held:
        say(one_line(f"beside it, a picture, {one.picture.words}: --images DIR saves it"), err=True)


def _asked(connection: Connection, query: str, *inputs: object) -> list[Any]:
    asked = {"query": query, "inputs": list(inputs), "limit": MOST_LINES, "maxTextBytes": WHOLE}
    answer = connection.call("repl_output_log", asked)
    with reading("repl_output_log"):
        rows: list[Any] = answer["result"]
    return rows
