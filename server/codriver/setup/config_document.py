"""A client's settings file as a text in which one entry can be looked up, set and removed."""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING, Any

from codriver.setup import jsonc
from codriver.setup.clients import NAME_KEY
from codriver.setup.jsonc import FileFaultError

if TYPE_CHECKING:
    from collections.abc import Iterator

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


def foreign_key(client: Client, text: str) -> str | None:
    """The key at the top of the file that another client reads, so that ours has no place there; None when all is well.

    Raises:
        FileFaultError: the client could not read this file.
    """
    return next((key for key in client.foreign if key in _data(client, text)), None)


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
    block = client.render(launch, name)
    tries = _table_swaps(text, keys, block) if find_entry(client, text, name) is not None else [_joined(text, block)]
    entry = client.entry(launch, name)
    good = (changed for changed in tries if _is_changed_to(changed, text, keys, entry))
    return next(good, None) or _toml_replaced(text, keys, entry)


def remove_entry(client: Client, text: str, name: str) -> str:
    """`text` without the entry of that name, and without what is empty then around it; all else as it was."""
    keys = (*client.entry_path(), name)
    if find_entry(client, text, name) is None:
        return text
    if not client.is_toml:
        return jsonc.without_entry(text, keys)
    good = (changed for changed in _table_swaps(text, keys, "") if _is_changed_to(changed, text, keys, None))
    changed = next(good, None)
    return _toml_replaced(text, keys, None) if changed is None else changed


def is_left_over(client: Client, text: str) -> bool:
    """Whether nothing is in the file but what the template itself brings around an entry."""
    if client.is_toml:
        return not text.strip()
    try:
        root = jsonc.parse(text, comments=False)
    except FileFaultError:
        return False  # somebody's comment is worth keeping
    around = jsonc.parse(jsonc.without_entry(client.template, (*client.entry_path(), NAME_KEY)))
    return root is not None and around is not None and root.value == around.value


def _data(client: Client, text: str) -> Any:
    if client.is_toml:
        try:
            return tomllib.loads(text.removeprefix("\ufeff"))
        except (ValueError, RecursionError) as error:  # no TOML, numbers too long to read, nesting too deep
            line, column = _toml_place(text, str(error))
            raise FileFaultError(str(error).split(" (at ")[0], line, column) from error
    root = jsonc.parse(text, comments=client.comments, trailing_commas=client.trailing_commas)
    if root is None:
        return {}
    if not isinstance(root.value, dict):
        raise FileFaultError("here should be an object", *jsonc.line_and_column(text, root.start))
    return root.value


def _toml_place(text: str, message: str) -> tuple[int, int]:
    """The place that tomllib tells at the end of its message: `(at line 3, column 5)` or `(at end of document)`."""
    numbers = [
        int(word) for word in message.rpartition("(at ")[2].replace(",", " ").rstrip(")").split() if word.isdigit()
    ]
    return (numbers[0], numbers[1]) if len(numbers) == 2 else jsonc.line_and_column(text, len(text))


def _table_swaps(text: str, keys: tuple[str, ...], block: str) -> Iterator[str]:
    """`text` with `block` in the place of the table `[a.b]` and of those below it, for each line that may begin it.

    It goes by lines, so that comments behind the table, which are about the next one, stay as they are. A line inside
    a text of several lines can look like a header, so the caller takes the first version that is right.
    """
    name = r"\s*\.\s*".join(rf"[\"']?{re.escape(key)}[\"']?" for key in keys)
    header = re.compile(rf"\s*\[\s*{name}\s*(\.[^\]]*)?\]")
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = text.splitlines(keepends=True)
    for start in (number for number, line in enumerate(lines) if header.match(line)):
        end = start + 1
        while end < len(lines) and (header.match(lines[end]) or not re.match(r"\s*\[\[?\s*[\w\"'-]", lines[end])):
            end += 1
        while not lines[end - 1].split("#")[0].strip():
            end -= 1
        has_gap = not block and start and not lines[start - 1].strip()
        head = lines[: start - 1] if has_gap else lines[:start]
        yield "".join([*head, block.replace("\n", newline), *lines[end:]])


def _is_changed_to(changed: str, text: str, keys: tuple[str, ...], entry: Any) -> bool:
    """Whether `changed` says what `text` does, but for the entry at `keys`, which is `entry`, or none."""
    try:
        new, old = (tomllib.loads(version.removeprefix("\ufeff")) for version in (changed, text))
    except (ValueError, RecursionError):  # as above
        return False
    _taken(old, keys)
    return bool(_taken(new, keys) == entry and new == old)


def _taken(document: dict[str, Any], keys: tuple[str, ...]) -> Any:
    """The entry at `keys`, taken out of the document with the tables that are empty without it; None if not there."""
    first, *rest = keys
    if not rest:
        return document.pop(first, None)
    inner = document.get(first)
    taken = _taken(inner, tuple(rest)) if isinstance(inner, dict) else None
    if inner == {}:
        del document[first]
    return taken


def _toml_replaced(text: str, keys: tuple[str, ...], entry: Any) -> str:
    """`text` with another entry at `keys`, or none, in whatever way it is written there.

    Raises:
        FileFaultError: it is written in a way that cannot be changed and keep the rest.
    """
    import tomlkit  # noqa: PLC0415  # only one client has TOML, and most runs have nothing to replace there

    table_name = ".".join(keys[:-1])
    fault = FileFaultError(f"write {table_name} as [{table_name}.NAME] tables, so that one can be changed", 1, 1)
    document = tomlkit.parse(text.removeprefix("\ufeff"))
    holder: Any = document
    for key in keys[:-1]:
        holder = holder.setdefault(key, {})
        if not isinstance(holder, dict):
            raise fault
    if entry is None:
        del holder[keys[-1]]
    else:
        if not isinstance(holder.get(keys[-1]), dict):
            holder[keys[-1]] = {}
        table = holder[keys[-1]]
        for key in [key for key in table if key not in entry]:
            del table[key]
        table.update(entry)
    changed = ("\ufeff" if text.startswith("\ufeff") else "") + tomlkit.dumps(document)
    if not _is_changed_to(changed, text, keys, entry):
        raise fault
    return changed


def _joined(text: str, block: str) -> str:
    """`block` behind `text`, an empty line between, in the line ending of `text`."""
    newline = "\r\n" if "\r\n" in text else "\n"
    head = text.rstrip()
    block = block.replace("\n", newline)
    return f"{head}{newline}{newline}{block}" if head.strip("\ufeff") else f"{head}{block}"
