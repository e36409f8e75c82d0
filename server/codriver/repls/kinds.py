"""The table of REPL kinds, which describes the files, protocol and command of each.

It is used by discovery, recipes, `codriver init`, `codriver doctor`, hot reload and the setting `repl`. To support
another kind of REPL with a known protocol, add an entry to `REPL_KINDS`.

Features can declare additional kinds, whose REPLs users start by name. Functions that look up a name receive these
kinds in the argument `added`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from codriver.errors import install_command

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

Launcher = Literal["program", "python-program", "worker", "clojure", "feature"]
"""How a REPL's command is found.

In the order of the values, the command is a program in PATH or `node_modules`, a console script of a Python package,
Codriver's worker in the project's interpreter, the Clojure CLI or `java` with Debian's jars, or a command chosen by the
REPL's feature.
"""

NREPL_PROTOCOL: Final = "nrepl"
"""The protocol of nREPL servers, which exchange bencode over TCP. It is the default for addresses without a protocol.
"""

NREPL_VERSION: Final = "1.3.1"
"""The nREPL version that is added to a Clojure project's classpath. This version can interrupt code on recent JVMs."""


@dataclass(frozen=True, slots=True)
class ReplKind:
    """A kind of REPL, with its files, protocol and command.

    The entries of `REPL_KINDS` are in order of likelihood, which decides between kinds that match equally well.
    """

    title: str
    """The display name."""
    key: str
    """The default session key."""
    dialect: str
    """The dialect that the REPL evaluates when it starts."""
    protocol: str = field(default=NREPL_PROTOCOL, kw_only=True)
    """The protocol, which selects the connector."""
    words: tuple[str, ...] = ()
    """The names accepted by `--repl`, preferred name first."""
    variant: str = ""
    """The text that may follow the name and a colon, as displayed in help texts. Empty if nothing may follow."""
    key_of_variant: Callable[[str], str] | None = None
    """Return the default session key for the text that follows the colon."""

    # Files
    suffixes: tuple[str, ...] = ()
    """The suffixes of source files that the REPL can load."""
    file_dialect: str = ""
    """The dialect of those files, if it differs from `dialect`."""
    distinctive_suffixes: tuple[str, ...] = ()
    """Suffixes that identify a project of this kind when no project file does."""
    marks: tuple[str, ...] = ()
    """Files that mark a directory as a project of this kind, most specific first."""
    needed_packages: tuple[tuple[str, str], ...] = ()
    """Pairs of a project file and a package. A project that depends on the package is also of this kind."""
    precedence: int = 0
    """The order among several projects in one directory. The lowest number comes first."""
    port_files: tuple[str, ...] = ()
    """Files to which the REPL writes its port, relative to the project's directory."""

    # Starting
    programs: tuple[str, ...] = ()
    """Alternative programs, one of which must be installed. Empty for a REPL that Codriver includes."""
    install: str = ""
    """How to install the programs, as text for a hint."""
    launcher: Launcher = "program"
    arguments: tuple[str, ...] = ()
    """The command-line arguments, or the language of a worker."""
    needs_project: bool = False
    """Whether the REPL fails to start in an empty directory."""
    is_slow: bool = False
    """Whether the first start may download dependencies or compile code."""
    notes: tuple[str, ...] = ()
    """Notes for the user who starts the REPL."""
    by_hand: str = ""
    """The command with which a user starts the REPL in a terminal."""

    @property
    def repl(self) -> str:
        """Return the value of the setting `repl` that selects this kind."""
        return self.words[0]


_NREPL_PORT_FILES: Final = (".nrepl-port",)
# CIDER's middleware also serves people's editors. Codriver uses whatever ops it finds.
_CLOJURE_MANUAL_COMMAND: Final = (
    f'clojure -Sdeps \'{{:deps {{nrepl/nrepl {{:mvn/version "{NREPL_VERSION}"}} '
    'cider/cider-nrepl {:mvn/version "0.55.7"}}}\' '
    "-M -m nrepl.cmdline --middleware '[cider.nrepl/cider-middleware]'"
)

PYTHON_KIND: Final = ReplKind(
    "Python", "py", "python", ("python",),
    suffixes=(".py",), distinctive_suffixes=(".py", ".ipynb"), precedence=1,
    marks=("pyproject.toml", "setup.py", "setup.cfg", "requirements.txt", "Pipfile"),
    # For REPLs in running applications, because `.nrepl-port` may belong to another REPL. See `embedded.py`.
    port_files=tuple(f".codriver/app{number}.port" for number in ("", "-2", "-3", "-4")),
    launcher="worker", arguments=("python",), by_hand="codriver serve --repl python",
)  # fmt: skip

REPL_KINDS: tuple[ReplKind, ...] = (
    ReplKind(
        "Clojure with deps.edn", "clj", "clojure", ("clojure", "clj"),
        suffixes=(".clj", ".cljc"), marks=("deps.edn",), port_files=_NREPL_PORT_FILES, programs=("clojure", "clj"),
        install="install it (clojure.org/guides/install_clojure), or on Debian run "
        "`apt install clojure libnrepl-clojure`",
        launcher="clojure", is_slow=True, by_hand=_CLOJURE_MANUAL_COMMAND,
    ),
    ReplKind(
        "Clojure with Leiningen", "clj", "clojure", ("lein",),
        suffixes=(".clj", ".cljc"), marks=("project.clj",), port_files=_NREPL_PORT_FILES, programs=("lein",),
        install="see leiningen.org", arguments=("repl", ":headless"), is_slow=True, by_hand="lein repl :headless",
    ),
    ReplKind(
        "Babashka", "bb", "babashka", ("bb",),
        suffixes=(".clj", ".cljc", ".bb"), marks=("bb.edn",), port_files=_NREPL_PORT_FILES, programs=("bb",),
        install="see babashka.org",
        # With port 0, babashka chooses a free port. Another project may already be using its default port.
        arguments=("nrepl-server", "127.0.0.1:0"), by_hand="bb nrepl-server 127.0.0.1:0",
    ),
    ReplKind(
        "ClojureScript with shadow-cljs", "cljs", "clojure", ("shadow-cljs",),
        suffixes=(".cljs", ".cljc"), file_dialect="clojurescript", marks=("shadow-cljs.edn",),
        precedence=-1,  # its projects may also have a deps.edn
        port_files=(".shadow-cljs/nrepl.port",), programs=("shadow-cljs",),
        install="run `npm install --save-dev shadow-cljs`", arguments=("server",), is_slow=True, needs_project=True,
        notes=("the REPL starts in Clojure. To enter a ClojureScript build, evaluate (shadow/repl :BUILD)",),
        by_hand="npx shadow-cljs server",
    ),
    ReplKind(
        "nbb", "nbb", "nbb", ("nbb",),
        suffixes=(".cljs", ".cljc"), marks=("nbb.edn",), needed_packages=(("package.json", "nbb"),),
        port_files=_NREPL_PORT_FILES, programs=("nbb",),
        install="run `npm install nbb`", arguments=("nrepl-server",), by_hand="npx nbb nrepl-server",
    ),
    ReplKind(
        "Basilisp", "lpy", "basilisp", ("lisp",),
        suffixes=(".lpy", ".cljc"), distinctive_suffixes=(".lpy",), needed_packages=(("pyproject.toml", "basilisp"),),
        install=f"run {install_command('lisp')}",
        launcher="worker", arguments=("lisp",), is_slow=True, by_hand="codriver serve --repl lisp",
    ),
    ReplKind(
        "Basilisp", "lpy", "basilisp", ("basilisp",),
        suffixes=(".lpy", ".cljc"), port_files=_NREPL_PORT_FILES, programs=("basilisp",),
        install="run `pip install basilisp`", launcher="python-program", arguments=("nrepl-server",), is_slow=True,
        notes=("on its first start, Basilisp compiles its core for about 20 s",), by_hand="basilisp nrepl-server",
    ),
    ReplKind(
        "Hy", "hy", "hy", ("hy",),
        suffixes=(".hy",), distinctive_suffixes=(".hy",), needed_packages=(("pyproject.toml", "hy"),), programs=("hy",),
        install="run `pip install hy hy-nrepl`", launcher="python-program", arguments=("-m", "hy_nrepl.server"),
        by_hand="codriver serve --repl hy",
    ),
    PYTHON_KIND,
)  # fmt: skip

NO_REPL_SETTING = "none"
"""The value of the setting `repl` that starts no REPL."""

OTHER_LANGUAGE_SUFFIXES: Final = (
    ".c", ".cc", ".cpp", ".cs", ".cxx", ".d", ".dart", ".erl", ".ex", ".exs", ".f90", ".fs", ".go", ".h", ".hpp", ".hs",
    ".java", ".jl", ".js", ".jsx", ".kt", ".lua", ".m", ".mjs", ".ml", ".nim", ".php", ".pl", ".R", ".r", ".rb", ".rkt",
    ".rs", ".scala", ".swift", ".ts", ".tsx", ".vue", ".zig",
)  # fmt: skip
"""Suffixes of source files in languages that `REPL_KINDS` does not cover."""
OTHER_LANGUAGE_PROJECT_FILES: Final = (
    "CMakeLists.txt", "Cargo.toml", "Gemfile", "Package.swift", "build.gradle", "build.gradle.kts", "build.zig",
    "composer.json", "go.mod", "mix.exs", "package.json", "pom.xml", "pubspec.yaml", "stack.yaml",
)  # fmt: skip
"""Project files of languages that `REPL_KINDS` does not cover."""

_CONNECT_ONLY_PROJECT_FILES: Final = ("build.boot",)
"""Project files of REPLs that Codriver can connect to, but that `init` does not start."""


def kinds_by_word(added: Iterable[ReplKind] = ()) -> Mapping[str, ReplKind]:
    """Return a mapping from each name that `--repl` accepts to its kind."""
    return {word: kind for kind in (*REPL_KINDS, *added) for word in kind.words}


def find_kind(words: str, added: Iterable[ReplKind] = ()) -> ReplKind | None:
    """Return the kind of REPL that a `repl` setting names, or None if the setting is a command line."""
    word, colon, _ = words.strip().partition(":")
    found = kinds_by_word(added).get(word)
    return None if colon and found is not None and not found.variant else found


def kind_of_program(command: str) -> ReplKind | None:
    """Return the first kind of REPL that the program of a command line starts, or None."""
    program = next(iter(command.split()), "")
    return next((kind for kind in REPL_KINDS if program in kind.programs), None)


def display_name(words: str) -> str:
    """Return the display name of the REPL that a `repl` setting selects. A command line is displayed unchanged."""
    found = find_kind(words) or next((kind for kind in REPL_KINDS if kind.repl == words), None)
    return found.title if found else words


def port_file_names() -> tuple[str, ...]:
    """Return the paths of all known port files, relative to a project's directory."""
    return tuple(dict.fromkeys(name for kind in REPL_KINDS for name in kind.port_files))


def session_key_for_port_file(name: str) -> str:
    """Return the session key for a REPL found through this port file, or `nrepl` if several kinds use the file."""
    keys = {kind.key for kind in REPL_KINDS if name in kind.port_files}
    return keys.pop() if len(keys) == 1 else "nrepl"


def is_provisional_key(key: str) -> bool:
    """Return whether a session key may change once its REPL is connected.

    `nrepl` is then replaced with the key of the dialect, and `py` with the name of the application, because only
    applications write a port file of that kind.
    """
    return key in ("nrepl", PYTHON_KIND.key)


MAX_KEY_CHARS: Final = 40
"""Maximum length of a key made from the name of an application."""


def session_key(dialect: str, application: str) -> str:
    """Return the session key for a connected REPL: the name of its application, or the key of its dialect."""
    name = re.sub(r"[^\w.-]+", "-", application).strip("-.")[:MAX_KEY_CHARS]
    return name or session_key_for_dialect(dialect)


def session_key_for_dialect(dialect: str) -> str:
    """Return the session key of the most likely kind with this dialect, or `repl` for an unknown dialect."""
    return next((kind.key for kind in REPL_KINDS if dialect in (kind.dialect, kind.file_dialect)), "repl")


def dialect_for_session_key(key: str, added: Iterable[ReplKind] = ()) -> str | None:
    """Return the dialect of a default session key such as `py`, `py-2` or `py/who`, or None for any other key."""
    name = re.sub(r"-[0-9]+\Z", "", key.partition("/")[0])
    return next((kind.dialect for kind in (*REPL_KINDS, *added) if kind.key == name), None)


def protocol_for_port_file(name: str) -> str:
    """Return the protocol of the REPL that writes this port file. The default is nREPL."""
    return next((kind.protocol for kind in REPL_KINDS if name in kind.port_files), NREPL_PROTOCOL)


def join_address(protocol: str, location: str) -> str:
    """Combine a protocol and a location into an address: `PROTOCOL://LOCATION`, or `HOST:PORT` for nREPL."""
    return location if protocol == NREPL_PROTOCOL else f"{protocol}://{location}"


def split_address(address: str) -> tuple[str, str]:
    """Split an address into its protocol and location."""
    protocol, slashes, location = address.partition("://")
    return (protocol, location) if slashes else (NREPL_PROTOCOL, address)


def project_file_names() -> frozenset[str]:
    """Return the names of files that mark a directory as a project with a REPL."""
    marks = {mark for kind in REPL_KINDS for mark in kind.marks}
    return frozenset(
        {*marks, *_CONNECT_ONLY_PROJECT_FILES, *(file for kind in REPL_KINDS for file, _ in kind.needed_packages)}
    )


def non_python_suffixes() -> tuple[str, ...]:
    """Return the suffixes of all known source files except Python's, including languages without a REPL."""
    return tuple({suffix for kind in REPL_KINDS for suffix in kind.suffixes if kind.dialect != PYTHON_KIND.dialect}) + (
        OTHER_LANGUAGE_SUFFIXES
    )


def loadable_suffixes(dialect: str) -> frozenset[str]:
    """Return the suffixes of source files that a dialect can load, including those of related Lisps.

    The set is empty for an unknown dialect.
    """
    alone = {PYTHON_KIND.dialect, "hy"}
    kin = {dialect} if dialect in alone else {kind.dialect for kind in REPL_KINDS} - alone
    is_known = any(dialect in (kind.dialect, kind.file_dialect) for kind in REPL_KINDS)
    return frozenset(suffix for kind in REPL_KINDS if is_known and kind.dialect in kin for suffix in kind.suffixes)


def describe_session_for_suffix(suffix: str) -> str | None:
    """Describe a session that can load files with this suffix, and how to start it if only one language applies.

    Returns None if no kind of REPL loads such files.
    """
    loading = [kind for kind in REPL_KINDS if suffix in kind.suffixes]
    names = dict.fromkeys(kind.title.partition(" with ")[0] for kind in loading)
    started = f': add "{loading[0].repl}" to repl in codriver.toml' if len(names) == 1 else ""
    return f"a session of {' or '.join(names)}{started}" if names else None


def dialects_by_suffix() -> Mapping[str, tuple[str, ...]]:
    """Return a mapping from each source file suffix to the dialects that can load such files, most likely first."""
    found: dict[str, tuple[str, ...]] = {}
    for kind in REPL_KINDS:
        for suffix in kind.suffixes:
            dialect = kind.file_dialect or kind.dialect
            found[suffix] = tuple(dict.fromkeys((*found.get(suffix, ()), dialect)))
    return found
