"""Redact secrets in text that enters or leaves the log.

A secret is the value of an environment variable whose name ends in `_KEY`, `_SECRET`, `_TOKEN` or `_PASSWORD`, if it
has at least 8 characters. It is replaced by `<<redacted:NAME>>`. It is also recognized in the forms in which languages
print it within a string, with quotes, backslashes and non-ASCII characters escaped once or twice, and if it is
percent-encoded or escaped for HTML or a shell. Other forms, such as base64 or reversed text, are not recognized.

A multi-line value, such as a PEM key, is often printed line by line, by a diff or by Python's `pprint`. So each of its
lines of at least 20 characters is a secret too, unless it is a BEGIN or END line, `key: word`, or `key: URL`. A shorter
line of at least 8 characters, such as the last one of a key, is a secret unless it is an ordinary word, such as the
name of a section. In a line of the form `key: value`, only the value is a secret, provided that it is long enough.

An application in a REPL may declare values of its state as sensitive. They are redacted from that moment until the REPL
is gone. They are stored only in memory.
"""

from __future__ import annotations

import json
import re
from functools import cached_property
from itertools import chain, count
from typing import TYPE_CHECKING
from urllib.parse import quote, quote_plus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    _Group = tuple[str, tuple[str, ...]]

SECRET_NAME_ENDINGS = ("_KEY", "_SECRET", "_TOKEN", "_PASSWORD")
"""Endings of the names of environment variables whose values are secrets."""
SECRET_KEY_ENDINGS = tuple(ending[1:] for ending in SECRET_NAME_ENDINGS)
"""If a secret contains a line `key: word` whose key has one of these endings, the word is a secret, too."""
MIN_SECRET_CHARACTERS = 8
"""Minimum length of a secret. Shorter values, such as "true" and "dev", occur in ordinary text."""
MIN_SECRET_LINE_CHARACTERS = 20
"""Minimum length of a line of a secret for it to be redacted on its own. A shorter line may be an ordinary word."""
LINE_END_PATTERN = re.compile(r"[\r\n]+|(?:\\r)?\\n")
r"""Matches line endings within a value, including `\n` as two characters, which some configuration files require."""
BEGIN_OR_END_MARK = re.compile(r"-{4,5} ?(?:BEGIN|END) [A-Z0-9 ]+ ?-{4,5}")
"""Matches the first or last line of a key or certificate in PEM format."""
KEY_AND_VALUE_PATTERN = re.compile(r"""["']?(?P<key>[\w.-]+)["']?\s*(?:[:=]|=>)\s*(?P<value>\S.*)""")
"""Matches a name and its value, as in settings files, code and printed maps."""
WORD_PATTERN = re.compile(r"[A-Za-z][A-Za-z_.-]*")
"""Matches letters that may form a word."""
_WORD_PARTS = r"(?:[A-Z]?[a-z]{3,}|[A-Z]{2,}|[A-Z]?[a-z]+(?![A-Za-z]))+"
ORDINARY_WORD_PATTERN = re.compile(rf"\W*{_WORD_PARTS}(?:[_.-]{_WORD_PARTS})*\W*")
"""Matches an ordinary word with any punctuation: `[default]`, `DB_HOST:` and `googleApis`, but not `kLmNoPqRsT`."""
PLAIN_URL_PATTERN = re.compile(
    r"[a-z][a-z0-9+.-]*://[^\s@?]+", re.IGNORECASE
)  # a URL with a user or a query may contain a secret
"""Matches a URL without credentials and without a query."""

NOT_IN_NAMES, MAX_NAME = re.compile(r"[^\w.* -]"), 60
"""Characters that are removed from the names of an application's strings, and the maximum length of a name."""

_NAMED_ESCAPES = {"\\": r"\\", "\n": r"\n", "\t": r"\t", "\r": r"\r", "\f": r"\f", "\b": r"\b"}
"""Characters that most languages escape with a letter, and their escapes."""
_ESCAPABLE_QUOTES = ("", '"', "'", "`")
"""Quotes that may be escaped in a string. The empty string means that none is escaped."""
UNESCAPED_TEXT_PATTERN = re.compile(r"[ !#-&(-.0-\[\]-_a-~]*")
"""Matches text that needs no escaping in a string: ASCII without control characters, quotes, slash and backslash."""


MAX_SENSITIVE, MAX_SENSITIVE_CHARACTERS = 1000, 256 * 1024
"""Maximum number of sensitive strings per REPL, and of their characters. The newest are retained."""


class _Secrets:
    """An immutable set of secrets to search for.

    `marks` contains the replacement for each printed form of a secret. `groups` contains a pair for each secret: a
    substring that all its printed forms share, and the forms.
    """

    def __init__(self, named: Sequence[tuple[str, str]], known: Mapping[str, _Group]) -> None:
        """Create the set from pairs of name and secret. If a secret occurs repeatedly, the first name is used.

        `known` contains groups that were computed earlier, by secret.
        """
        lines = [(name, line) for name, secret in named for line in secret_line_parts(secret)]
        self.by_secret: dict[str, _Group] = {}
        self.marks: dict[str, str] = {}
        for name, secret in (*named, *lines):
            if secret not in self.by_secret:
                self.by_secret[secret] = known.get(secret) or (_common_substring(secret), printed_forms(secret))
                for form in self.by_secret[secret][1]:
                    self.marks.setdefault(form, f"<<redacted:{name}>>")
        for name, secret in reversed(named):
            self.marks[secret] = f"<<redacted:{name}>>"  # takes precedence over an equal form of another
        self.groups = tuple(self.by_secret.values())

    @cached_property
    def beginnings(self) -> Mapping[str, tuple[tuple[str, int, tuple[str, ...]], ...]]:
        """Return an index for determining whether a string ends with the beginning of a secret.

        The key is the last character of the text. The value contains the printed forms with this character, in one
        group for each first letter: the letter, the length of the longest form, and the forms.
        """
        return _index_beginnings(sorted(self.marks, key=len, reverse=True))

    def find_forms(self, text: str) -> list[str]:
        """Return the printed forms of secrets that occur in the text, longest first."""
        found = [form for chunk, forms in self.groups if chunk in text for form in forms if form in text]
        return sorted(found, key=len, reverse=True) if found else found

    def redact(self, text: str) -> str:
        """Return the text with every printed form of a secret replaced by a marker like `<<redacted:API_KEY>>`."""
        forms = self.find_forms(text)
        return _compile_alternatives(forms).sub(lambda match: self.marks[match[0]], text) if forms else text


def _compile_alternatives(forms: Sequence[str]) -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, forms)))


class Redactor:
    """Replaces secrets in text with markers such as `<<redacted:API_KEY>>`. Thread-safe.

    The secrets are those from the environment, and strings that applications in REPLs declare sensitive.
    """

    def __init__(self, secrets: Mapping[str, str]) -> None:
        """Create a redactor for secrets by variable name.

        If two names have the same value, the first in sort order is used.
        """
        self._by_name = dict(secrets)
        self._sensitive: dict[str, dict[str, str]] = {}
        """The strings that each REPL's application declared sensitive, newest last, each with its name."""
        self._from_environment = self._secrets = _Secrets(sorted(secrets.items()), {})
        """The secrets from the environment alone. `_secrets` also includes those that applications declared."""

    def add_secret(self, name: str, secret: str) -> None:
        """Start redacting a secret, including in streams that are open.

        If another secret has this name, the name gets a number.
        """
        if len(secret) < MIN_SECRET_CHARACTERS or secret in self._by_name.values():
            return
        names = chain((name,), (f"{name}_{number}" for number in count(2)))
        free = next(candidate for candidate in names if candidate not in self._by_name)
        self._by_name = {**self._by_name, free: secret}
        self._from_environment = _Secrets(sorted(self._by_name.items()), self._from_environment.by_secret)
        self._collect_secrets()

    def add_sensitive_strings(self, repl: str, sensitive: Iterable[tuple[str, str]]) -> None:
        """Redact named strings that the application in a REPL declares sensitive, until `remove_sensitive_strings`.

        Strings that are too short or contain no letter or digit are ignored.
        """
        by_text = dict(self._sensitive.get(repl, {}))
        for name, text in sensitive:
            if len(text) >= MIN_SECRET_CHARACTERS and any(map(str.isalnum, text)):
                by_text.pop(text, None)
                by_text[text] = NOT_IN_NAMES.sub("", name)[:MAX_NAME]
        size = sum(map(len, by_text))
        while len(by_text) > MAX_SENSITIVE or size > MAX_SENSITIVE_CHARACTERS:
            oldest = next(iter(by_text))
            size -= len(oldest)
            del by_text[oldest]
        self._sensitive = {**self._sensitive, repl: by_text}
        self._collect_secrets()

    def remove_sensitive_strings(self, repl: str) -> None:
        """Stop redacting the strings that the application in a REPL has declared sensitive."""
        if repl in self._sensitive:
            self._sensitive = {name: by_text for name, by_text in self._sensitive.items() if name != repl}
            self._collect_secrets()

    def _collect_secrets(self) -> None:
        sensitive = [(name, text) for by_text in self._sensitive.values() for text, name in by_text.items()]
        named = [*sorted(self._by_name.items()), *sensitive]
        self._secrets = _Secrets(named, self._secrets.by_secret) if sensitive else self._from_environment

    @property
    def secrets(self) -> _Secrets:
        """Return the secrets that are currently removed from text."""
        return self._secrets

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> Redactor:
        """Create a redactor for the environment variables whose names mark them as secrets."""
        return cls(
            {
                name: value
                for name, value in environ.items()
                if name.upper().endswith(SECRET_NAME_ENDINGS) and len(value) >= MIN_SECRET_CHARACTERS
            }
        )

    def __call__(self, text: str) -> str:
        """Redact all secrets in a string.

        If two secrets overlap, the one that starts first is replaced, or the longer one if they start together.
        """
        for chunk, _ in self._secrets.groups:
            if chunk in text:
                return self._secrets.redact(text)
        return text

    def redact_json(self, value: object, *, shows_sensitive: bool = False) -> object:
        """Return a copy of a JSON value with secrets redacted in all strings, including keys. Tuples become lists.

        With `shows_sensitive`, strings that applications declared sensitive are not redacted.
        """
        return _redact_value(value, self._from_environment if shows_sensitive else self._secrets)

    def may_contain_secret(self, printed: str) -> bool:
        """Return whether a string may contain a secret in any printed form. False means that it certainly does not.

        This is much faster than redacting, so check a whole printed value before redacting each of its parts.
        """
        return any(chunk in printed for chunk, _ in self._secrets.groups)

    def new_stream_redactor(self) -> StreamRedactor:
        """Return a redactor for one stream of text that is received in chunks."""
        return StreamRedactor(self)


def _redact_value(value: object, secrets: _Secrets) -> object:
    if isinstance(value, str):
        return secrets.redact(value)
    if isinstance(value, dict):
        return {_redact_value(key, secrets): _redact_value(item, secrets) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_redact_value(item, secrets) for item in value]
    return value


class StreamRedactor:
    """Redacts secrets in a stream, even if they are split between chunks.

    The end of a chunk is withheld if it could be the beginning of a secret, until the next chunk or `flush`. All other
    text is returned immediately. The withheld text is never longer than the longest secret.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._withheld = ""

    @property
    def _secrets(self) -> _Secrets:
        return self._redactor.secrets

    def feed(self, chunk: str) -> str:
        """Add a chunk, and return the redacted text that can be output already."""
        text = self._withheld + chunk if self._withheld else chunk
        forms = self._secrets.find_forms(text)
        if not forms:
            undecided = self._find_beginning(text, 0)
            self._withheld = text[undecided:]
            return text[:undecided] if self._withheld else text
        done: list[str] = []
        position = 0
        for match in _compile_alternatives(forms).finditer(text):
            undecided = self._find_beginning(text, position)
            if undecided <= match.start():  # more text may complete a longer secret that starts no later
                break
            done += text[position : match.start()], self._secrets.marks[match[0]]
            position = match.end()
        undecided = self._find_beginning(text, position)
        self._withheld = text[undecided:]
        done.append(text[position:undecided])
        return "".join(done)

    def flush(self) -> str:
        """Return the withheld text. Call this at the end of the stream, or if no chunk was received for some time."""
        withheld, self._withheld = self._withheld, ""
        return self._secrets.redact(withheld) if withheld else ""

    def _find_beginning(self, text: str, start: int) -> int:
        """Return the first position where the rest of the text could begin a secret, or the length of the text."""
        first = len(text)
        for letter, longest, forms in self._secrets.beginnings.get(text[-1:], ()):
            position = text.find(letter, max(start, len(text) - longest + 1), first)
            while position >= 0:
                rest = text[position:]
                if any(form.startswith(rest) and len(form) > len(rest) for form in forms):
                    first = position
                    break
                position = text.find(letter, position + 1, first)
        return first


def _index_beginnings(forms: Sequence[str]) -> dict[str, tuple[tuple[str, int, tuple[str, ...]], ...]]:
    """Build the index for `_Secrets.beginnings`."""
    by_newest: dict[str, dict[str, list[str]]] = {}
    for form in forms:
        for newest in set(form[:-1]):
            by_newest.setdefault(newest, {}).setdefault(form[0], []).append(form)
    return {
        newest: tuple([(letter, len(found[0]), tuple(found)) for letter, found in by_letter.items()])
        for newest, by_letter in by_newest.items()
    }


def secret_line_parts(secret: str) -> tuple[str, ...]:
    """Return the lines of a secret that must be redacted on their own. A `key: value` line is reduced to its value."""
    lines = LINE_END_PATTERN.split(secret)
    found = [_secret_part(line.strip()) for line in lines] if len(lines) > 1 else []
    return tuple(
        dict.fromkeys([part for part in found if len(part) >= MIN_SECRET_CHARACTERS and _common_substring(part)])
    )


def _secret_part(line: str) -> str:
    """Return the part of a line that must be redacted, or "" if the line is an ordinary word, a marker or a URL."""
    matched = KEY_AND_VALUE_PATTERN.fullmatch(line)
    value = matched["value"].rstrip(",;").strip("\"' ") if matched else line
    if BEGIN_OR_END_MARK.fullmatch(value.strip("\"', ")):
        return ""
    if matched is None:
        return line if len(line) >= MIN_SECRET_LINE_CHARACTERS or not ORDINARY_WORD_PATTERN.fullmatch(line) else ""
    is_named_secret = matched["key"].upper().endswith(SECRET_KEY_ENDINGS)
    if not is_named_secret and (WORD_PATTERN.fullmatch(value) or PLAIN_URL_PATTERN.fullmatch(value)):
        return ""
    if len(value) >= MIN_SECRET_CHARACTERS:
        return value
    return line if len(line) >= MIN_SECRET_LINE_CHARACTERS or is_named_secret else ""


# How several languages print a character within a string, except for quotes.


def _escape_python(character: str) -> str:
    return repr(character)[1:-1]


def _escape_python_ascii(character: str) -> str:
    return ascii(character)[1:-1]


def _escape_python_bytes(character: str) -> str:
    return repr(_original_bytes(character))[2:-1]


def _escape_json(character: str) -> str:
    return character if character == '"' else json.dumps(character, ensure_ascii=False)[1:-1]


def _escape_json_ascii(character: str) -> str:
    return character if character == '"' else json.dumps(character)[1:-1]


def _escape_json_ascii_upper(character: str) -> str:
    return re.sub(r"[0-9a-f]{4}", lambda match: match[0].upper(), _escape_json_ascii(character))


def _escape_json_slash(character: str) -> str:
    return r"\/" if character == "/" else _escape_json(character)


def _escape_json_ascii_slash(character: str) -> str:
    return r"\/" if character == "/" else _escape_json_ascii(character)


def _escape_clojure(character: str) -> str:
    return _NAMED_ESCAPES.get(character, character)


def _escape_javascript(character: str) -> str:
    named = _NAMED_ESCAPES.get(character, character)
    return named if named.isprintable() or not character.isascii() else f"\\x{ord(character):02X}"


_ESCAPE_FUNCTIONS: tuple[Callable[[str], str], ...] = (
    _escape_python,
    _escape_python_ascii,
    _escape_python_bytes,
    _escape_json,
    _escape_json_ascii,
    _escape_json_ascii_upper,
    _escape_json_slash,
    _escape_json_ascii_slash,
    _escape_clojure,
    _escape_javascript,
)
"""Functions that write a secret as it may be printed in strings of various languages."""


def printed_forms(secret: str) -> tuple[str, ...]:
    """Return the forms in which a secret may be printed, longest first, including the secret itself.

    A secret may be escaped once or twice in a string, or encoded for a URL, HTML or a shell.
    """
    once = {secret, _original_bytes(secret).decode("utf-8", "replace")}
    if not secret.isalnum() or not secret.isascii():
        once |= _escaped_forms(secret)
        once |= _percent_encoded_forms(secret)
        text = secret.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        quoted = text.replace('"', "&quot;")
        once |= {text, quoted.replace("'", "&#x27;"), quoted.replace("'", "&#39;")}  # `html` takes half a MB
        once |= {secret.replace("'", "'\"'\"'"), secret.replace("'", r"'\''")}
    twice = {form for printed in once for form in _escaped_forms(printed)}
    return tuple(sorted(once | twice, key=lambda form: (-len(form), form)))


def _escaped_forms(text: str) -> set[str]:
    if UNESCAPED_TEXT_PATTERN.fullmatch(text):
        return {text}
    special = [character for character in set(text) if not (character.isascii() and character.isalnum())]
    quotes = [quoted for quoted in _ESCAPABLE_QUOTES if quoted in text]
    forms = set()
    for printer in _ESCAPE_FUNCTIONS:
        table = {ord(character): printer(character) for character in special}
        for quoted in quotes:
            forms.add(text.translate({**table, ord(quoted): f"\\{quoted}"} if quoted else table))
    return forms


def _percent_encoded_forms(secret: str) -> set[str]:
    raw = _original_bytes(secret)
    # In order: everything, a path, a form, JavaScript's encodeURIComponent, JavaScript's encodeURI.
    forms = {
        quote(raw, safe=""),
        quote(raw),
        quote_plus(raw),
        quote(raw, safe="!'()*"),
        quote(raw, safe=";,/?:@&=+$!'()*#"),
    }
    return forms | {re.sub("%[0-9A-F]{2}", lambda match: match[0].lower(), form) for form in forms}


def _original_bytes(text: str) -> bytes:
    """Return the bytes of an environment variable, even if they are not valid UTF-8."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # an unpaired surrogate, which Windows allows
        return text.encode("utf-8", "surrogatepass")


def _common_substring(secret: str) -> str:
    """Return the longest substring of a secret that is the same in all printed forms, or "" if there is none."""
    return max(re.findall("[A-Za-z0-9]+", secret), key=len, default="")
