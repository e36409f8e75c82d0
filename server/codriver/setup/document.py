"""A client's settings file as a text in which one entry can be looked up, set and removed."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Any

from codriver.setup import jsonc
from codriver.setup.clients import NAME_KEY
from codriver.setup.jsonc import FileFaultError

if TYPE_CHECKING:
    from codriver.setup.clients import Client, Launch


def find_entry(client: Client, text: str, name: str) -> Any:
    """The entry of that name as data; None when there is none.

    Raises:
        FileFaultError: the client could not read this file.
    """
    node = _data(client, text)
    for key in (*client.entry_path(), name):
        if not isinstance(node, dict) or key not in node:
            return None
        node = node[key]
    return node


def set_entry(client: Client, text: str, launch: Launch, name: str) -> str:
    """`text` with the entry; all else as it was.

    Raises:
        FileFaultError: the file has another shape than the client's documentation says.
    """
    keys = (*client.entry_path(), name)
    if not client.is_toml:
        if jsonc.parse(text) is None:
            return _joined(text, client.render(launch, name))
        return jsonc.with_member(text, keys, client.entry(launch, name))
    if find_entry(client, text, name) is not None:
        changed = _toml_replaced(text, keys, client.entry(launch, name))
    else:
        changed = _joined(text, client.render(launch, name))
    try:
        tomllib.loads(changed.removeprefix("\ufeff"))
    except tomllib.TOMLDecodeError as error:
        table = ".".join(client.entry_path())
        raise FileFaultError(f"write {table} as [{table}.NAME] tables, so that one can be added", 1, 1) from error
    return changed


def remove_entry(client: Client, text: str, name: str) -> str:
    """`text` without the entry of that name; all else as it was."""
    keys = (*client.entry_path(), name)
    if find_entry(client, text, name) is None:
        return text
    return _toml_replaced(text, keys, None) if client.is_toml else jsonc.without_member(text, keys)


def is_left_over(client: Client, text: str) -> bool:
    """Whether nothing is in the file but what the template itself brings around an entry."""
    if client.is_toml:
        return not text.strip()
    try:
        root = jsonc.parse(text, comments=False)
    except FileFaultError:
        return False  # somebody's comment is worth keeping
    around = jsonc.parse(jsonc.without_member(client.template, (*client.entry_path(), NAME_KEY)))
    return root is not None and around is not None and root.value == around.value


def _data(client: Client, text: str) -> Any:
    if client.is_toml:
        try:
            return tomllib.loads(text.removeprefix("\ufeff"))
        except tomllib.TOMLDecodeError as error:
            line, column = _toml_place(text, str(error))
            raise FileFaultError(str(error).split(" (at ")[0], line, column) from error
    root = jsonc.parse(text, comments=client.comments, trailing_commas=client.trailing_commas)
    if root is None:
        return {}
    if not isinstance(root.value, dict):
        raise FileFaultError("here should be an object", *jsonc.place(text, root.start))
    return root.value


def _toml_place(text: str, message: str) -> tuple[int, int]:
    """The place that tomllib tells at the end of its message: `(at line 3, column 5)` or `(at end of document)`."""
    numbers = [
        int(word) for word in message.rpartition("(at ")[2].replace(",", " ").rstrip(")").split() if word.isdigit()
    ]
    return (numbers[0], numbers[1]) if len(numbers) == 2 else jsonc.place(text, len(text))


def _toml_replaced(text: str, keys: tuple[str, ...], entry: Any) -> str:
    """`text` with another entry at `keys`, or none."""
    import tomlkit  # noqa: PLC0415  # only one client has TOML, and most runs have nothing to replace there

    document = tomlkit.parse(text)
    holder: Any = document
    for key in keys[:-1]:
        holder = holder[key]
    if entry is None:
        del holder[keys[-1]]
    else:
        table = holder[keys[-1]]
        for key in [key for key in table if key not in entry]:
            del table[key]
        table.update(entry)
    return tomlkit.dumps(document)


def _joined(text: str, block: str) -> str:
    """`block` behind `text`, an empty line between, in the line ending of `text`."""
    newline = "\r\n" if "\r\n" in text else "\n"
    head = text.rstrip()
    block = block.replace("\n", newline)
    return f"{head}{newline}{newline}{block}" if head.strip("\ufeff") else f"{head}{block}"
