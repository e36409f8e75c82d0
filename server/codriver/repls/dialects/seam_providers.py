"""Providers: the code that asks the application in a REPL about itself, as data; a row for each seam and language.

A provider is found by its *sentinel*, an expression whose value is the session id of the application's seam, or nil.
*Forms* ask the provider, one for each accessor of the contract. In a form, `$args` and `$origin` are literals of all
arguments and of the caller, `$name` of the accessor; any other `$word` is a literal of that argument, nil for a missing
one. All are texts in the notation of the language, which the form reads and never evaluates. The texts at an
application's sensitive paths are asked for before code runs that may show them.

An application's events come in the output of a REPL under the id of the subscribing form: each frame is a line of JSON
behind a record separator; only our own REPLs have a field for frames. Output comes in pieces that end anywhere, and
other output may come between. Source: RFC 7464, and `codriver_seam.streams`.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anyio

import codriver
from codriver.errors import CodriverError
from codriver.repls import dialects
from codriver.repls.contract.adapter_values import Reported, SensitiveSeen
from codriver.repls.dialects import re_frame

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator

    from codriver.repls.contract.adapter_values import Listener


ANY: Final = "*"
"""The accessor whose form serves every accessor that has no form itself."""
_NAME: Final = re.compile(r"\$([a-zA-Z]+)")
_PYTHON: Final = frozenset({"basilisp", "hy", "python"})
"""Dialects that run in Python, and print and read strings as Python does."""
_LOADS: Final = re.compile(r"\b(?:require|requiring-resolve|use|import|load|load-file|reload|refresh)\b")
"""Words in code that may load an application."""
_WORD: Final = re.compile(r"[A-Za-z][\w-]*")
_JSON: Final = {
    **{
        one.name: one.as_json
        for one in (
            dialects.CLOJURE, dialects.BABASHKA, dialects.NBB, dialects.CLOJURESCRIPT, dialects.BASILISP, dialects.HY,
        )
    },
    "python": "__import__('json').dumps({})".format,
}  # fmt: skip
"""Functions that return code for the value of an expression as a JSON string, by dialect."""

Fields = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Provider:
    """An implementation of the seam, with forms for some dialects."""

    name: str
    dialects: frozenset[str]
    sentinel: str
    accessors: Mapping[str, str]
    """By accessor of the contract, its form."""
    bands: Mapping[str, str] = field(default_factory=dict)
    """By accessor, an expression that is true if its form can be evaluated; asked together with the sentinel."""
    read: Callable[[str, object], Fields] | None = None
    """Makes the contract's answer to an accessor from the data of its form; None if the form itself gives the answer as
    JSON.
    """
    is_json: bool = False
    """Whether its forms give their data as JSON already."""
    words: re.Pattern[str] | None = None
    """A pattern for code that makes the seam appear."""


@dataclass(frozen=True, slots=True)
class Found:
    """A provider found in a REPL."""

    provider: Provider
    session_id: str
    lacking: frozenset[str] = frozenset()
    """Accessors whose forms this version of the provider cannot evaluate."""


_CODRIVER_SEAM: Final = re.compile(r"codriver[._/]seam")
_RE_FRAME: Final = re.compile(r"re-frame")
_SEAM: Final = '(.get (.-modules (python/__import__ "sys")) "codriver_seam")'
FILE: Final = Path(codriver.__file__).resolve().parents[1] / "codriver_seam" / "__init__.py"
"""The package with which Python applications expose their state to Codriver. It is installed next to `codriver`."""
CLOJURE_FILE: Final = FILE.parent / "clojure" / "codriver" / "seam.cljc"
"""The namespace with which Clojure applications expose their state to Codriver."""
CONTRACT: Final = 1
"""The version of the seam's contract that Codriver reads."""
UNSUPPORTED_LANGUAGE_HINT: Final = "codriver has no seam for its language: look at the application by evaluating code"
NO_APPLICATION: Final = "no application in it shows itself"


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps that install the seam in an application of one dialect: code to evaluate, and a file to load."""

    module: str
    function: str
    """A function of the seam's module, by its name in the language; if the name is known, the seam was imported."""
    install: str
    frame: str
    file: Path = FILE

    @property
    def code(self) -> str:
        """Return the code of both steps. Running it twice is harmless."""
        return f"{self.install} {self.frame}"


_CLOJURE: Final = Steps(
    "codriver.seam", "install!", "(codriver.seam/install! true)", "(codriver.seam/watch-atom! :app db)", CLOJURE_FILE
)
STEPS: Final[Mapping[str, Steps]] = {
    "python": Steps(
        "codriver_seam", "install", "import codriver_seam as seam; seam.install(True);",
        "seam.frame('app', get=lambda: state)",
    ),
    "hy": Steps(
        "codriver_seam", "install", "(import codriver_seam) (codriver_seam.install True)",
        '(codriver_seam.frame "app" (fn [] state))',
    ),
    "basilisp": Steps(
        "codriver_seam", "install", "(import codriver_seam) (codriver_seam/install true)",
        '(codriver_seam/frame "app" (fn [] @db))',
    ),
    **dict.fromkeys(("clojure", "babashka", "nbb"), _CLOJURE),
}  # fmt: skip
"""The steps that install the seam, by dialect."""


def _way(dialect: str, steps: Steps) -> str:
    if dialect == "python":
        return f"{NO_APPLICATION}: evaluate {steps.code}; where the import fails, load_file {steps.file} first"
    return f"{NO_APPLICATION}: load_file {steps.file}, then evaluate {steps.code}"


WAYS: Final[Mapping[str, str]] = {dialect: _way(dialect, steps) for dialect, steps in STEPS.items()}
"""Instructions for installing the seam in an application, by dialect."""
_LOAD_PACKAGE_CODE: Final = (
    "import importlib.util as u, sys; n = 'codriver_seam'; s = u.spec_from_file_location(n, {file!r}); "
    "n in sys.modules or s.loader.exec_module(sys.modules.setdefault(n, u.module_from_spec(s)))"
)
"""Python code that loads the package into a process without it on `sys.path`, and leaves `sys.path` unchanged."""
_EXECUTE: Final[Mapping[str, str]] = {
    "basilisp": "(python/exec {code} (python/dict))",
    "hy": "(exec {code} {{}})",
    "python": "exec({code}, {{}})",
}
"""Code that executes Python code, by dialect."""


def _framework(name: str, dialect: str) -> Provider:
    """Return the provider that calls a framework's functions directly, with forms that return data."""
    return Provider(
        name,
        frozenset({dialect}),
        re_frame.SENTINELS[name, dialect],
        re_frame.forms(name, dialect),
        read=re_frame.read,
        is_json=True,
        words=_RE_FRAME,
    )


PROVIDERS: Final = (
    Provider(
        "codriver",
        frozenset({"clojure", "babashka", "nbb"}),
        "(some-> (resolve 'codriver.seam/session-id) deref deref)",
        {ANY: "(codriver.seam/call $name $args $origin)"},
        words=_CODRIVER_SEAM,
    ),
    *(_framework(name, dialect) for name, dialect in re_frame.SENTINELS),
    Provider(
        "codriver",
        frozenset({"basilisp"}),
        f'(python/getattr {_SEAM} "session_id" nil)',
        {
            ANY: '(.call (python/__import__ "codriver_seam") $name $args $origin)',
            # Its server gives each evaluation an output of its own, apart from Python's.
            "subscribe": """(let [out *out*] (.call (python/__import__ "codriver_seam") $name $args $origin
 (fn [text] (.write out (str (python/chr 30) text "\\n")) (.flush out) nil)))""",
        },
        words=_CODRIVER_SEAM,
    ),
    Provider(
        "codriver",
        frozenset({"hy"}),
        '(getattr (.get (. (__import__ "sys") modules) "codriver_seam") "session_id" None)',
        {ANY: '(.call (__import__ "codriver_seam") $name $args $origin)'},
        words=_CODRIVER_SEAM,
    ),
    Provider(
        "codriver",
        frozenset({"python"}),
        'getattr(__import__("sys").modules.get("codriver_seam"), "session_id", None)',
        {ANY: '__import__("codriver_seam").call($name, $args, $origin)'},
        words=_CODRIVER_SEAM,
    ),
)
"""All providers, in the order in which they are tried."""


def search_expression(dialect: str) -> str | None:
    """Return the code that searches for all providers of a dialect at once, or None if it has none.

    Its value is a string with JSON, which `found` reads.
    """
    rows = [[one.sentinel, *one.bands.values()] for one in _of(dialect)]
    between = ", " if dialect == "python" else " "
    listed = between.join([f"[{between.join(row)}]" for row in rows])
    return _JSON[dialect](f"[{listed}]") if rows else None


def found(dialect: str, answer: object) -> Found | None:
    """Return the first provider that the value of the search reports as present."""
    for provider, row in zip(_of(dialect), answer if isinstance(answer, list) else (), strict=False):
        if isinstance(row, list) and row and row[0]:
            lacking = frozenset(name for name, can in zip(provider.bands, row[1:], strict=False) if not can)
            return Found(provider, str(row[0]), lacking)
    return None


def may_load_application(dialect: str, code: str) -> bool:
    """Return whether code may have loaded an application, based on the words in it."""
    providers = _of(dialect)
    return bool(providers) and bool(
        _LOADS.search(code) or any(provider.words is not None and provider.words.search(code) for provider in providers)
    )


SENSITIVE: Final = "sensitive"
"""The accessor for the values at sensitive paths. Only the redactor may use them."""
CHUNK_CHARACTERS: Final = 4096
"""Length of the chunks into which a long sensitive value is split for the redactor."""
MAX_CHUNKS: Final = 16
STREAMING: Final = frozenset({"subscribe", "unsubscribe", "subscriptions"})
"""The accessors of the band `stream`."""


def is_seam_package(dialect: str, file: Path) -> bool:
    """Return whether a file is Codriver's seam package and the dialect runs in Python, and so can load it."""
    return dialect in _PYTHON and file == FILE


def seam_package_code(dialect: str, file: str | None) -> str | None:
    """Return code that loads the seam package into a REPL that cannot load Python files.

    Returns None for any other file or dialect.
    """
    if file != str(FILE) or dialect not in _EXECUTE:
        return None
    return _EXECUTE[dialect].format(code=quoted(dialect, _LOAD_PACKAGE_CODE.format(file=file)))


def provider_of(name: str, dialect: str) -> Provider:
    """Return the provider called `name` for a dialect.

    The default is Codriver's provider for Python, which is also used for unknown REPLs.
    """
    return next((one for one in _of(dialect) if one.name == name), PROVIDERS[-1])


def refusal(provider: Provider, accessor: str, lacking: Collection[str] = ()) -> Fields | None:
    """Return the contract's refusal of an accessor without a form, or None if the accessor has one.

    A provider that does not push events lacks the band `stream`. Its trace can be requested instead.
    """
    if accessor not in lacking and (accessor in provider.accessors or ANY in provider.accessors):
        return None
    if accessor in STREAMING:
        hint = f"the seam {provider.name} pushes no events: ask inspect_app for trace with a filter since"
        return {"ok": False, "reason": "band-missing", "hint": hint}
    able = ", ".join(sorted(provider.accessors.keys() - {*lacking, ANY}))
    return {"ok": False, "reason": "no-such-accessor", "hint": f"the seam {provider.name} has: {able}"}


def reports_sensitive(provider: Provider) -> bool:
    """Return whether a provider is Codriver's seam, which reports sensitive values to the redactor."""
    return ANY in provider.accessors


def sensitive_values(answer: Fields) -> tuple[tuple[str, str], ...]:
    """Return the values at sensitive paths in a seam's answer, each with a name. Long values are split into chunks."""
    rows = answer.get("texts")
    found = [(str(name), str(text)) for name, text in rows] if isinstance(rows, list) else []
    return tuple((name, text[start : start + CHUNK_CHARACTERS]) for name, text in found for start in _starts(len(text)))


def _starts(length: int) -> list[int]:
    """Return the start of each chunk of a value.

    The last chunk is as long as the others and may overlap, because short chunks are not searched for.
    """
    last = min(length, MAX_CHUNKS * CHUNK_CHARACTERS) - CHUNK_CHARACTERS
    return [*range(0, last, CHUNK_CHARACTERS), last] if last > 0 else [0]


def finished_subscriptions(accessor: str, arguments: Fields, answer: Fields, known: Collection[str]) -> set[str]:
    """Return the subscriptions among `known` that have finished according to a call of an accessor and its answer."""
    if accessor == "unsubscribe":
        return {str(arguments.get("subId"))}.intersection(known)
    if accessor != "subscriptions" or not answer["ok"]:
        return set()
    return set(known) - {str(row["id"]) for row in answer["subs"]}


def form(provider: Provider, dialect: str, accessor: str, arguments: Fields, origin: Fields | None = None) -> str:
    """Return the code that calls an accessor. `origin` identifies the caller of a change.

    Raises:
        KeyError: the provider has no form for the accessor. `refusal` describes that case.
    """
    code = provider.accessors.get(accessor) or provider.accessors[ANY]
    words = {"name": accessor, "args": notation(dialect, arguments), "origin": notation(dialect, origin)}
    nothing = "None" if dialect in _PYTHON - {"basilisp"} else "nil"

    def literal(match: re.Match[str]) -> str:
        word = match[1]
        if word in words:
            return quoted(dialect, words[word])
        value = arguments.get(word)
        if value is None:
            return nothing
        return quoted(dialect, value if isinstance(value, str) else notation(dialect, value))

    code = _NAME.sub(literal, code)
    return _JSON[dialect](code) if provider.read and not provider.is_json else code


def notation(dialect: str, value: object) -> str:
    """Return data as text that code of a dialect can read: JSON for dialects that run in Python, EDN for others."""
    return json.dumps(value, ensure_ascii=False) if dialect in _PYTHON else edn(value)


def edn(value: object) -> str:
    """Convert JSON data to EDN. The keys of an object become keywords.

    Source: https://github.com/edn-format/edn, "Built-in elements".
    """
    if value is None:
        return "nil"
    if isinstance(value, Mapping):
        keys = {key: f":{key}" if _WORD.fullmatch(key) else json.dumps(key) for key in value}
        return "{" + " ".join([f"{keys[key]} {edn(one)}" for key, one in value.items()]) + "}"
    if isinstance(value, list | tuple):
        return "[" + " ".join([edn(one) for one in value]) + "]"
    return json.dumps(value)


def quoted(dialect: str, text: str) -> str:
    """Return a text as a string literal of a dialect."""
    if dialect == "python":
        return repr(text)
    # Node's servers count a request in characters where it comes in pieces; ASCII is safe from that.
    return json.dumps(text, ensure_ascii=dialect not in _PYTHON)


def unquoted(dialect: str, printed: str) -> str:
    """Return the string that a dialect printed as a literal.

    Raises:
        ValueError: the text is not a string literal.
        SyntaxError: the text is not a string literal.
    """
    # Clojure leaves control characters in a printed string as they are; JSON refuses them.
    return str(ast.literal_eval(printed) if dialect in _PYTHON else json.loads(printed, strict=False))


def answer(provider: Provider, accessor: str, text: str) -> str:
    """Convert the JSON text that a provider's form returned to the contract's answer as JSON."""
    if provider.read is None:
        return text
    return json.dumps(provider.read(accessor, json.loads(text, strict=False)), ensure_ascii=False)


def _of(dialect: str) -> tuple[Provider, ...]:
    return tuple(provider for provider in PROVIDERS if dialect in provider.dialects)


MARK: Final = "\x1e"
LINE_CHARACTERS: Final = 2**20
"""Maximum length of a frame. A batch of events is about a tenth of that."""


EVENTS: Final = "app-events"
"""The name of the reports that contain a frame of events."""


class FrameReader:
    """A parser that separates the frames of one subscription from ordinary output. No character is lost."""

    def __init__(self) -> None:
        self.subscription: str | None = None
        """The id of the reader's subscription, once known: frames of others are ordinary output."""
        self._partial = ""
        """The received part of a line that may become a frame."""

    def feed(self, text: str) -> Iterator[str | Reported]:
        """Yield the frames that a chunk completes as reports, and the ordinary output around them."""
        text, self._partial = self._partial + text, ""
        while text:
            plain, mark, rest = text.partition(MARK)
            if plain:
                yield plain
            line, newline, text = rest.partition("\n")
            if MARK in line:
                # A frame has no separator inside: the line before was broken off.
                broken, _, partial = line.partition(MARK)
                yield MARK + broken
                text = f"{MARK}{partial}{newline}{text}"
            elif newline:
                yield self._frame(line) or f"{MARK}{line}\n"
            elif len(line) > LINE_CHARACTERS:
                yield mark + line
            else:
                self._partial = mark + line

    def _frame(self, line: str) -> Reported | None:
        try:
            frame = json.loads(line) if len(line) <= LINE_CHARACTERS else None
        except (ValueError, RecursionError):
            return None
        if not isinstance(frame, dict) or not isinstance(frame.get("events"), list):
            return None
        return Reported(EVENTS, line) if self.subscription in (None, frame.get("sub")) else None


CHECK_S: Final = 1.0
"""The time that an evaluation waits for the checks before and after it."""


async def learn_sensitive(call: Callable[[str, str], Awaitable[str]], listener: Listener) -> None:
    """Request the values at sensitive paths from a seam, and pass them to the redactor.

    Never raises, and waits at most `CHECK_S`.
    """
    with suppress(CodriverError, ValueError), anyio.move_on_after(CHECK_S):
        answer = json.loads(await call(SENSITIVE, "{}"))
        listener(None, SensitiveSeen(sensitive_values(answer)))
