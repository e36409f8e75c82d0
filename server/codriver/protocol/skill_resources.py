"""The Skills extension: skills with their files, digests and sizes, and the directories of the files.

Digests and sizes are those of the bytes that `resources/read` returns: the content of the file, redacted if it is text.
A file that is not UTF-8 is returned unchanged. Everything is read from disk when it is requested, so entries are never
older than the answer.

Source: MCP Skills extension (SEP-2640), stable specification.
"""

from __future__ import annotations

import base64
import hashlib
from bisect import bisect_right
from typing import TYPE_CHECKING, Any, Final

from codriver.errors import RefusedError
from codriver.protocol.error_messages import INVALID_PARAMS, RequestRefusedError
from codriver.skills import (
    DEPENDENCY_PREFIX,
    GUIDE_FILE,
    URI_PREFIX,
    FrontMatterError,
    Skill,
    SkillLibrary,
    TooManyFilesError,
    read_front_matter,
    sort_key,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from codriver.log.redaction import Redactor

    Fields = dict[str, Any]


SKILLS_EXTENSION: Final = "io.modelcontextprotocol/skills"
EXTENSION_CAPABILITY: Final = {SKILLS_EXTENSION: {"directoryRead": True}}
"""The member of the server's capabilities that declares the extension."""
LIST, GET, READ_DIRECTORY = "skills/list", "skills/get", "resources/directory/read"
LIST_TTL_MS: Final = 1000
"""Time in milliseconds for which a client may cache a list. Changed files are not announced immediately."""
MAX_SKILLS_PER_PAGE: Final = 50
"""Maximum number of skills in one answer. A skill has up to 512 files."""
MAX_ENTRIES_PER_PAGE: Final = 200
"""Maximum number of directory entries in one answer."""
DIRECTORY_MEDIA_TYPE: Final = "inode/directory"
BINARY_MEDIA_TYPE: Final = "application/octet-stream"
TEXT_MEDIA_TYPE: Final = "text/plain"
MEDIA_TYPES: Final = {
    "css": "text/css",
    "csv": "text/csv",
    "gif": "image/gif",
    "html": "text/html",
    "jpeg": "image/jpeg",
    "jpg": "image/jpeg",
    "json": "application/json",
    "md": "text/markdown",
    "pdf": "application/pdf",
    "png": "image/png",
    "py": "text/x-python",
    "svg": "image/svg+xml",
    "toml": "application/toml",
    "txt": "text/plain",
    "xml": "application/xml",
    "yaml": "application/yaml",
    "yml": "application/yaml",
}


class SkillResources:
    """The skills of a server in the form in which clients receive them.

    All methods read from disk, so they have to be called in a thread.
    """

    def __init__(self, library: SkillLibrary, redactor: Redactor) -> None:
        self._library = library
        self._redactor = redactor

    def list_guides(self, hidden: Collection[str]) -> list[Fields]:
        """Return the guides of the skills in the form of `resources/list`, without the `hidden` skills."""
        found = []
        for skill in self._library.visible_skills(hidden):
            try:
                found.append(self._resource(skill, GUIDE_FILE))
            except FrontMatterError:
                continue
        return found

    def read(self, uri: str) -> tuple[str, str | bytes]:
        """Return the media type and the content of a file. The content is a string, or bytes if it is not text.

        Raises:
            RefusedError: there is no such file, or it must not be read.
        """
        path, content = self._library.read(uri)
        text = self._text(content)
        kind = MEDIA_TYPES.get(_suffix(path), BINARY_MEDIA_TYPE if text is None else TEXT_MEDIA_TYPE)
        return kind, content if text is None else text

    def list_skills(self, cursor: str | None, hidden: Collection[str]) -> Fields:
        """Return a page of the skills, with the digests that a client needs to verify their files.

        Raises:
            RequestRefusedError: the cursor is unknown.
        """
        skills = self._library.visible_skills(hidden)
        last = None if cursor is None else sort_key(_decode_cursor(cursor, LIST))
        start = _position([sort_key(skill.id) for skill in skills], last)
        entries: list[Fields] = []
        for skill in (page := skills[start : start + MAX_SKILLS_PER_PAGE]):
            try:
                entries.append(self._entry(skill))
            except (OSError, FrontMatterError, TooManyFilesError):
                continue  # it has changed since the last check, and the next one reports it
        more = {"nextCursor": _encode_cursor(page[-1].id, LIST)} if start + MAX_SKILLS_PER_PAGE < len(skills) else {}
        return {"skills": entries, **more}

    def get_skill(self, uri: str) -> Fields:
        """Return a skill by the URI of its guide. It need not be listed.

        Raises:
            RequestRefusedError: there is no skill with this URI.
        """
        try:
            skill, path = self._library.find(uri)
            if path == GUIDE_FILE:
                return {"skill": self._entry(skill)}
        except (RefusedError, OSError, FrontMatterError, TooManyFilesError) as error:
            text = f"{error.message}: {error.hint}" if isinstance(error, RefusedError) else f"{uri}: {error}"
            raise RequestRefusedError(INVALID_PARAMS, text, {"uri": uri}) from error
        text = f"{uri} is not the URI of a skill, which ends in /{GUIDE_FILE}"
        raise RequestRefusedError(INVALID_PARAMS, text, {"uri": uri})

    def read_directory(self, uri: str, cursor: str | None) -> Fields:
        """Return a page of the entries of a skill's directory, or of the skills of a dependency.

        Raises:
            RequestRefusedError: there is no such directory, or the cursor is unknown.
        """
        try:
            children = self._children(uri)
        except (RefusedError, OSError, TooManyFilesError) as error:
            text = f"{error.message}: {error.hint}" if isinstance(error, RefusedError) else f"{uri}: {error}"
            raise RequestRefusedError(INVALID_PARAMS, text, {"uri": uri}) from error
        addresses = [str(child["uri"]) for child in children]
        start = _position(addresses, None if cursor is None else _decode_cursor(cursor, READ_DIRECTORY))
        end = start + MAX_ENTRIES_PER_PAGE
        more = {"nextCursor": _encode_cursor(addresses[end - 1], READ_DIRECTORY)} if end < len(children) else {}
        return {"resources": children[start:end], **more}

    def _children(self, uri: str) -> list[Fields]:
        prefix = uri.removeprefix(URI_PREFIX) + "/"
        if uri.startswith(URI_PREFIX + DEPENDENCY_PREFIX) and "/" not in prefix[:-1]:
            of_dependency = [skill for skill in self._library.skills() if skill.id.startswith(prefix)]
            if of_dependency:
                return sorted((_directory(skill.address()) for skill in of_dependency), key=_address)
        skill, path = self._library.find(uri)
        tree = skill.folder.tree()
        if path and path not in tree.folders:
            raise RequestRefusedError(INVALID_PARAMS, f"{uri} is not the URI of a skill's folder", {"uri": uri})
        directories = [_directory(skill.address(directory)) for directory in tree.folders if _parent(directory) == path]
        files = [self._resource(skill, file) for file in tree.files if _parent(file) == path]
        return sorted([*directories, *files], key=_address)

    def _entry(self, skill: Skill) -> Fields:
        """Return the entry of a skill, with all digests computed from a single reading of its files.

        Raises:
            OSError, FrontMatterError, TooManyFilesError: the skill can no longer be used.
        """
        resources = []
        guide = b""
        for path in skill.folder.tree().files:
            content = self._read_served_file(skill, path)
            if path == GUIDE_FILE:
                guide = content
            digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
            resources.append({"uri": skill.address(path), "digest": digest, "size": len(content)})
        return {"uri": skill.uri, "frontmatter": read_front_matter(guide), "resources": resources}

    def _resource(self, skill: Skill, path: str) -> Fields:
        """Return the entry of a file in a list of resources.

        The media type is omitted if it depends on the content.
        """
        if path == GUIDE_FILE:
            about = read_front_matter(self._redact(skill.guide))
            named = {"name": about["name"], "description": about["description"]}
        else:
            named = {"name": path.rpartition("/")[2]}
        known = MEDIA_TYPES.get(_suffix(path))
        return {"uri": skill.address(path), **named, **({"mimeType": known} if known else {})}

    def _read_served_file(self, skill: Skill, path: str) -> bytes:
        """Return the content of a file as clients receive it.

        Raises:
            OSError: the file no longer exists or cannot be read.
        """
        content = skill.folder.read(path)
        if content is None:
            raise FileNotFoundError(path)
        return self._redact(content)

    def _redact(self, content: bytes) -> bytes:
        text = self._text(content)
        return content if text is None else text.encode()

    def _text(self, content: bytes) -> str | None:
        """Decode a file and redact secrets in its text, or return None if the file is not text."""
        try:
            return self._redactor(content.decode("utf-8"))
        except UnicodeDecodeError:
            return None


def _suffix(path: str) -> str:
    return path.rpartition(".")[2].lower()


def _directory(address: str) -> Fields:
    return {"uri": address, "name": address.rpartition("/")[2], "mimeType": DIRECTORY_MEDIA_TYPE}


def _address(resource: Fields) -> str:
    return str(resource["uri"])


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _position(keys: Sequence[Any], last: Any) -> int:
    """Return the index at which the page after the key `last` starts, even if that key no longer exists."""
    return 0 if last is None else bisect_right(keys, last)


def _encode_cursor(key: str, method: str) -> str:
    """Return the cursor of the page that starts after a key."""
    return base64.urlsafe_b64encode(f"{method} {key}".encode()).decode()


def _decode_cursor(cursor: str, method: str) -> str:
    """Return the key after which the page that a cursor refers to starts.

    Raises:
        RequestRefusedError: no answer to this method contained the cursor.
    """
    try:
        given, separator, key = base64.urlsafe_b64decode(cursor).decode().partition(" ")
    except ValueError:
        given = separator = key = ""
    if given != method or not separator:
        raise RequestRefusedError(
            INVALID_PARAMS,
            "unknown cursor. Pass nextCursor from the previous page, or omit cursor to get the first page",
        )
    return key
