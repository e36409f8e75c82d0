"""Parse the front matter of a `SKILL.md`, which is YAML between two `---` lines.

The core schema of YAML 1.2 is used, as clients in JavaScript and Go do, so `on` and `2026-01-31` are strings. A client
compares the object with its own parse of the file. Anything that two parsers could interpret differently is therefore
an error: repeated keys, keys that are not strings, aliases, and values that JSON cannot represent.

Source: Agent Skills specification; MCP Skills extension, frontmatter; YAML 1.2.2, section 10.3.
"""

from __future__ import annotations

import math
import re
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_FRONT_MATTER_BYTES: Final = 8 * 1024
"""Maximum size of front matter. Parsing takes at most 0.2 s, and descriptions have at most 1,024 characters."""
MAX_NESTING_DEPTH: Final = 16
"""Maximum depth of nested mappings and lists."""
MAX_EXACT_INTEGER: Final = 2**53
"""Largest integer that is accepted. Larger ones are not exact in JavaScript."""
MAX_NAME_CHARACTERS: Final = 64
MAX_DESCRIPTION_CHARACTERS: Final = 1024
"""Maximum length of a description. Clients read all descriptions first. Source: Agent Skills specification."""
NAME_PATTERN: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_FRONT_MATTER_PATTERN: Final = re.compile(
    rb"(?:\xef\xbb\xbf)?---[ \t]*\r?\n(.*?)(?:(?<=\n)|\r?\n)---[ \t]*(?:\r?\n|\Z)", re.DOTALL
)
_MAX_CACHED: Final = 256
"""Maximum number of cached front matters, enough for all available skills in most projects."""


class FrontMatterError(ValueError):
    """Raised when a `SKILL.md` has no valid front matter. The message is a sentence about the file."""


@lru_cache(maxsize=_MAX_CACHED)
def read_front_matter(guide: bytes) -> Mapping[str, Any]:
    """Return the front matter of a `SKILL.md` as a JSON object.

    Raises:
        FrontMatterError: the front matter is missing or invalid, or lacks a valid `name` or `description`.
    """
    found = _FRONT_MATTER_PATTERN.match(guide)
    if found is None:
        raise FrontMatterError("SKILL.md does not start with front matter, which is enclosed in two --- lines")
    if len(found.group(1)) > MAX_FRONT_MATTER_BYTES:
        raise FrontMatterError(f"SKILL.md has more than {MAX_FRONT_MATTER_BYTES:,} bytes of front matter")
    try:
        text = found.group(1).decode("utf-8")
    except UnicodeDecodeError as error:
        raise FrontMatterError("SKILL.md is not UTF-8") from error
    fields = _parse(text)
    name, description = fields.get("name"), fields.get("description")
    if not isinstance(name, str) or not NAME_PATTERN.fullmatch(name) or len(name) > MAX_NAME_CHARACTERS:
        raise FrontMatterError(
            f"SKILL.md needs a name of at most {MAX_NAME_CHARACTERS} lower-case letters, digits and single hyphens "
            "between them"
        )
    if not isinstance(description, str) or not description.strip():
        raise FrontMatterError("SKILL.md has no description")
    if len(description) > MAX_DESCRIPTION_CHARACTERS:
        raise FrontMatterError(f"SKILL.md has a description of more than {MAX_DESCRIPTION_CHARACTERS:,} characters")
    return fields


def _parse(text: str) -> dict[str, Any]:
    import yaml  # noqa: PLC0415  # importing it would take a tenth of the server's start

    try:
        value = yaml.load(text, _create_loader())  # noqa: S506  # a safe loader, with fewer types
    except yaml.MarkedYAMLError as error:
        where = f" in line {error.problem_mark.line + 2}" if error.problem_mark else ""
        raise FrontMatterError(f"SKILL.md has front matter that is not YAML: {error.problem}{where}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise FrontMatterError(
            f"SKILL.md has front matter that cannot be read: {' '.join(str(error).split())}"
        ) from error
    if not isinstance(value, dict):
        raise FrontMatterError("SKILL.md has front matter that is not a mapping")
    fields: dict[str, Any] = _to_json(value)
    return fields


@cache
def _create_loader() -> Any:
    """Return a loader for the core schema of YAML 1.2."""
    import yaml  # noqa: PLC0415

    class Loader(yaml.SafeLoader):  # type: ignore[misc]  # the library has no types
        """Loads JSON values, and rejects syntax that parsers may interpret differently."""

        yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012  # the library requires this form

        depth = 0

        def compose_node(self, parent: Any, index: Any) -> Any:
            problem = "an alias is not allowed" if self.check_event(yaml.AliasEvent) else ""
            if self.depth > MAX_NESTING_DEPTH:
                problem = f"the value is nested more than {MAX_NESTING_DEPTH} levels deep"
            if problem:
                raise yaml.composer.ComposerError(None, None, problem, self.peek_event().start_mark)
            self.depth += 1
            try:
                return super().compose_node(parent, index)
            finally:
                self.depth -= 1

        def construct_mapping(self, node: Any, deep: bool = False) -> dict[str, Any]:  # noqa: FBT001, FBT002
            pairs = [(key, self.construct_object(key, deep=True), value) for key, value in node.value]
            fields: dict[str, Any] = {}
            for key, name, value in pairs:
                if not isinstance(name, str) or name in fields:
                    problem = f"the key {name!r} is repeated" if isinstance(name, str) else "a key is not a string"
                    raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
                fields[name] = self.construct_object(value, deep=deep)
            return fields

    def construct_integer(_create_loader: Any, node: Any) -> int:
        return int(node.value, 0) if node.value[:2] in ("0o", "0x") else int(node.value)

    def construct_float(_create_loader: Any, node: Any) -> float:
        return float(node.value.replace(".inf", "inf").replace(".nan", "nan"))

    plain = (
        ("null", r"~|null|Null|NULL|", "~nN\0"),
        ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
        ("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", "-+0123456789"),
        ("float", r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", "-+.0123456789"),
        ("float", r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)", "-+."),
    )
    for kind, pattern, first in plain:
        letters = [letter.replace("\0", "") for letter in first]
        Loader.add_implicit_resolver(f"tag:yaml.org,2002:{kind}", re.compile(rf"(?:{pattern})\Z"), letters)
    Loader.add_constructor("tag:yaml.org,2002:int", construct_integer)
    Loader.add_constructor("tag:yaml.org,2002:float", construct_float)
    return Loader


def _to_json(value: Any) -> Any:
    """Return a copy of a loaded value that can be represented in JSON."""
    if isinstance(value, dict):
        return {_to_json(key): _to_json(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_to_json(item) for item in value]
    if isinstance(value, str):
        try:
            return value.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError as error:
            raise FrontMatterError("SKILL.md has front matter that contains half of a surrogate pair") from error
    is_whole = isinstance(value, int) and abs(value) <= MAX_EXACT_INTEGER
    if value is None or is_whole or (isinstance(value, float) and math.isfinite(value)):
        return value
    raise FrontMatterError(f"SKILL.md has front matter with a value that some clients cannot read: {value!r}")
