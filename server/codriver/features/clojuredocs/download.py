"""Download the public ClojureDocs export, and cache it in a file until it is too old.

The file has one line per var: `NAMESPACE/NAME`, a tab, and its entry as JSON. An entry can therefore be found without
parsing ten megabytes of JSON. The first line contains the format and the address. The modification time of the file
determines the age of the export.

Source: https://clojuredocs.org/clojuredocs-export.json, an object with `vars`.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TextIO, cast

import anyio
from anyio import to_thread

from codriver import files
from codriver.errors import refused
from codriver.features.clojuredocs.entries import Entry
from codriver.files import FileRules, Links
from codriver.wire.untrusted import mappings_or_empty

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

FORMAT_ID: Final = "codriver-clojuredocs-1"
"""Identifier of the file format, in the first line of the cached file."""
CACHE_FILE_NAME: Final = "clojuredocs.lines"
"""The name of the cached file."""
FETCH_TIMEOUT_S: Final = 20.0
"""Maximum duration of a download. Clients stop waiting for the call that needs it after 30 seconds."""
SILENCE_TIMEOUT_S: Final = 10.0
"""Maximum time to wait for more data during a download."""
MAX_EXPORT_BYTES: Final = 128 * 2**20
"""Maximum size of an export. The actual size is about 10 MB."""
CHUNK_BYTES: Final = 2**18
"""Number of bytes to read at a time."""
RETRY_DELAY_S: Final = 60.0
"""Time after a failed download before the next attempt.

In the meantime, calls do not wait for a download, for example if the machine is offline.
"""
MAX_HEADER_CHARACTERS: Final = 1 << 16
"""Maximum length of the cached file's first line, which contains the address of the source."""
NO_DOWNLOAD_URL: Final = "none"
"""The address that disables downloads."""


class FetchError(Exception):
    """Raised when the export cannot be downloaded or stored."""


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The result of searching the export for a symbol.

    If there is no entry for the symbol, `others` contains vars with the same name in other namespaces.
    """

    entry: Entry | None
    fetched_at: float
    """The time at which the export was downloaded, in seconds since the epoch."""
    others: tuple[str, ...] = ()
    note: str | None = None


class ClojureDocsExport:
    """A cached copy of the ClojureDocs export, which is downloaded again when it is too old."""

    def __init__(self, directory: Path) -> None:
        self._file = directory / CACHE_FILE_NAME
        self._fetching = anyio.Lock()
        self._failed: tuple[str, float, str] | None = None
        """The address, monotonic time and cause of the last failure."""

    async def find(self, symbol: str, *, url: str, max_age_s: float) -> SearchResult:
        """Search the export for a qualified symbol. Download it first if necessary.

        Raises:
            RefusedError: there is no cached export, and none could be downloaded.
        """
        async with self._fetching:
            age_s = await to_thread.run_sync(_cache_age_s, self._file, url)
            failure = None
            if age_s is None or age_s > max_age_s:
                failure = await self._refresh(url)
        if failure is not None and age_s is None:
            raise refused(
                "docs-unavailable",
                f"the ClojureDocs export is not cached and cannot be fetched from {url}: {failure}",
                hint="use symbol_info for the docstring, or try again in a minute. Behind a proxy, set https_proxy, "
                "or set clojuredocsUrl to the URL of a copy that can be reached",
            )
        found = await to_thread.run_sync(_search, self._file, symbol)
        if failure is None:
            return found
        days = round((age_s or 0) / 86400)
        return SearchResult(
            found.entry, found.fetched_at, found.others, f"{days} days old, could not be refreshed: {failure}"
        )

    async def _refresh(self, url: str) -> str | None:
        """Download the export. Return the reason if this fails, and otherwise None."""
        if url == NO_DOWNLOAD_URL:
            return "the setting clojuredocsUrl is none"
        if self._failed and self._failed[0] == url and time.monotonic() - self._failed[1] < RETRY_DELAY_S:
            return self._failed[2]
        try:
            with anyio.fail_after(FETCH_TIMEOUT_S):
                await to_thread.run_sync(download_export, url, self._file, abandon_on_cancel=True)
        except FetchError as error:
            cause = str(error)
        except TimeoutError:
            cause = f"the download took longer than {FETCH_TIMEOUT_S:g} s"
        else:
            self._failed = None
            return None
        self._failed = (url, time.monotonic(), cause)
        return cause


def download_export(url: str, file: Path) -> None:
    """Download the export and store it in `file`.

    Raises:
        FetchError: the export cannot be downloaded, is malformed, or cannot be written.
    """
    import http.client  # noqa: PLC0415  # with the next two, a third of a megabyte for one download a week
    import urllib.error  # noqa: PLC0415
    import urllib.request  # noqa: PLC0415

    if not url.startswith(("http://", "https://")):
        raise FetchError("the URL is neither http nor https")
    deadline = time.monotonic() + FETCH_TIMEOUT_S
    request = urllib.request.Request(url, headers={"User-Agent": "codriver"})  # noqa: S310  # checked above
    data = bytearray()
    try:
        with urllib.request.urlopen(request, timeout=SILENCE_TIMEOUT_S) as answer:  # noqa: S310  # checked above
            while chunk := answer.read1(CHUNK_BYTES):
                data += chunk
                if len(data) > MAX_EXPORT_BYTES:
                    raise FetchError(f"the export has more than {MAX_EXPORT_BYTES} bytes")
                if time.monotonic() > deadline:
                    raise FetchError(f"the download took longer than {FETCH_TIMEOUT_S:g} s")
    except urllib.error.HTTPError as error:
        with error:
            raise FetchError(f"the server answered {error.code} {error.reason}") from error
    except urllib.error.URLError as error:
        raise FetchError(str(error.reason)) from error
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise FetchError(str(error) or type(error).__name__) from error
    _write_cache(file, url, _parse_export(bytes(data)))


def _parse_export(data: bytes) -> list[tuple[str, str]]:
    """Parse an export. Return pairs of a qualified name and its entry as one line of JSON."""
    try:
        listed = json.loads(data)["vars"]
        entries = [(f"{var['ns']}/{var['name']}", json.dumps(_entry_json(var), ensure_ascii=False)) for var in listed]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise FetchError("the content is not a ClojureDocs export") from error
    if not entries:
        raise FetchError("the export is empty")
    return [(name, text) for name, text in entries if not {"\t", "\n"} & set(name)]


def _entry_json(var: Mapping[str, object]) -> dict[str, object]:
    """Return the fields of a var that are included in answers."""
    also = [item["to-var"] for item in mappings_or_empty(var.get("see-alsos"))]
    return {
        "ns": var["ns"],
        "name": var["name"],
        "doc": var.get("doc"),
        "href": var.get("href"),
        "see-alsos": [f"{item['ns']}/{item['name']}" for item in mappings_or_empty(also)],
        "examples": [item["body"] for item in mappings_or_empty(var.get("examples"))],
        "notes": [item["body"] for item in mappings_or_empty(var.get("notes"))],
    }


def _write_cache(file: Path, url: str, entries: Iterable[tuple[str, str]]) -> None:
    """Write the cached file. It is replaced atomically, because other servers may be reading it."""
    lines = [_cache_header(url), *(f"{name}\t{text}\n" for name, text in entries)]
    try:
        data = "".join(lines).encode("utf-8", "replace")
        files.replace(file, data, links=Links.OF_USER, make_mode=files.PRIVATE_DIRECTORY_MODE)
    except OSError as error:
        raise FetchError(f"the export cannot be written to {file.parent}: {error.strerror}") from error


def _cache_header(url: str) -> str:
    """Return the first line of the cached file, which contains its format and the URL of the export."""
    return f"{FORMAT_ID}\t{json.dumps(url)}\n"


def _cache_age_s(file: Path, url: str) -> float | None:
    """Return the age in seconds of the export cached from a URL, or None if it is not cached."""
    try:
        with _opened(file) as lines:
            header = lines.readline(MAX_HEADER_CHARACTERS)
            fetched_at = os.fstat(lines.fileno()).st_mtime
    except (OSError, UnicodeDecodeError):
        return None
    if url == NO_DOWNLOAD_URL:
        return 0.0 if header.startswith(f"{FORMAT_ID}\t") else None
    return max(0.0, time.time() - fetched_at) if header == _cache_header(url) else None


def _opened(file: Path) -> TextIO:
    with files.locate(file, Links.OF_USER) as entry:
        return os.fdopen(entry.open(FileRules(Links.OF_USER, 0)), encoding="utf-8")


def _search(file: Path, symbol: str) -> SearchResult:
    """Search the cached file for a symbol line by line."""
    name = symbol.rpartition("/")[2] or "/"
    others: list[str] = []
    with _opened(file) as lines:
        fetched_at = os.fstat(lines.fileno()).st_mtime
        next(lines)
        for line in lines:
            key = line[: line.index("\t")]
            if key == symbol:
                return SearchResult(_entry(json.loads(line[len(key) + 1 :])), fetched_at)
            if key.endswith(f"/{name}"):
                others.append(key)
    return SearchResult(None, fetched_at, tuple(others))


def _entry(fields: Mapping[str, object]) -> Entry:
    def strings(key: str) -> tuple[str, ...]:
        return tuple(str(text) for text in cast("list[object]", fields[key]))

    doc, href = fields["doc"], fields["href"]
    return Entry(
        name=str(fields["name"]),
        namespace=str(fields["ns"]),
        examples=strings("examples"),
        see_alsos=strings("see-alsos"),
        notes=strings("notes"),
        doc=str(doc) if doc else None,
        href=str(href) if href else None,
    )
