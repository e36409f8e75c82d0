"""The table of REPL kinds: one entry each, with files, protocol and command, for discovery, recipes, init and doctor.

Discovery, recipes, `codriver init` and `doctor`, hot reload and the settings' words for REPLs read the table. A new
kind of a known protocol is one entry of `KINDS`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

Launcher = Literal["program", "python-program", "worker", "clojure", "jupyter"]
"""The source of a command: a program in PATH or `node_modules`, a program of Python packages, Codriver's own worker in
the project's interpreter, the Clojure CLI, else Debian's jars, or a kernelspec.
"""

NREPL: Final = "nrepl"
"""The protocol of REPLs that speak bencode over TCP; an address without a protocol has this one."""

JUPYTER: Final = "jupyter"
"""The protocol of Jupyter kernels, whose place is the path of a connection file; and the word that starts one."""

NREPL_VERSION: Final = "1.3.1"
"""The nREPL that is put on a Clojure project's classpath; it interrupts on new JVMs too."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of REPL. The order of the table breaks ties: the likelier of two kinds comes first."""

    title: str
    """The kind's name for people."""
    key: str
    """The session key to suggest."""
    dialect: str
    """The dialect that it speaks when it starts."""
    protocol: str = field(default=NREPL, kw_only=True)
    """The protocol: the word of a connector in `codriver.app.wiring`."""
    words: tuple[str, ...] = ()
    """The words for the kind after `--repl`, the usual one first."""

    # Files
    suffixes: tuple[str, ...] = ()
    """Endings of the source files that it can load."""
    file_dialect: str = ""
    """The dialect of the files; empty if the REPL starts in that dialect."""
    distinctive_suffixes: tuple[str, ...] = ()
    """The endings of files that show such a project if nothing else does."""
    marks: tuple[str, ...] = ()
    """Files that make a folder such a project, the most telling first."""
    needed_packages: tuple[tuple[str, str], ...] = ()
    """A project's file and a package: a project that needs the package is one of this kind too."""
    precedence: int = 0
    """Among projects in one folder, the lower number goes first."""
    port_files: tuple[str, ...] = ()
    """The files in which the REPL writes its port, relative to a project's folder."""

    # Starting
    programs: tuple[str, ...] = ()
    """Programs, one of which has to be installed; none for a REPL that comes with Codriver."""
    install: str = ""
    """The way to install the programs."""
    launcher: Launcher = "program"
    arguments: tuple[str, ...] = ()
    """The words after the program in its command; of a worker, the name of its language."""
    needs_project: bool = False
    """True of a REPL that does not start in an empty folder."""
    is_slow: bool = False
    """Whether its first start may fetch dependencies or compile."""
    notes: tuple[str, ...] = ()
    """Sentences for the person who starts the REPL."""
    by_hand: str = ""
    """The command by which a user starts the REPL."""

    @property
    def repl(self) -> str:
        """Return the text for the setting `repl`."""
        return self.words[0]


_NREPL_PORT: Final = (".nrepl-port",)
# The middleware of CIDER has the ops for people's editors as well; Codriver uses the ops that it finds.
_CLOJURE_BY_HAND: Final = (
    f'clojure -Sdeps \'{{:deps {{nrepl/nrepl {{:mvn/version "{NREPL_VERSION}"}} '
    'cider/cider-nrepl {:mvn/version "0.55.7"}}}\' '
    "-M -m nrepl.cmdline --middleware '[cider.nrepl/cider-middleware]'"
)

PYTHON: Final = Kind(
    "Python", "py", "python", ("python",),
    suffixes=(".py",), distinctive_suffixes=(".py", ".ipynb"), precedence=1,
    marks=("pyproject.toml", "setup.py", "setup.cfg", "requirements.txt", "Pipfile"),
    # For REPLs in running applications, as `.nrepl-port` is another REPL's; see `embedded.py`.
    port_files=tuple(f".codriver/app{number}.port" for number in ("", "-2", "-3", "-4")),
    launcher="worker", arguments=("python",), by_hand="codriver serve --repl python",
)  # fmt: skip

KINDS: tuple[Kind, ...] = (
    Kind(
        "Clojure with deps.edn", "clj", "clojure", ("clojure", "clj"),
        suffixes=(".clj", ".cljc"), marks=("deps.edn",), port_files=_NREPL_PORT, programs=("clojure", "clj"),
        install="install it (clojure.org/guides/install_clojure), or on Debian run "
        "`apt install clojure libnrepl-clojure`",
        launcher="clojure", is_slow=True, by_hand=_CLOJURE_BY_HAND,
    ),
    Kind(
        "Clojure with Leiningen", "clj", "clojure", ("lein",),
        suffixes=(".clj", ".cljc"), marks=("project.clj",), port_files=_NREPL_PORT, programs=("lein",),
        install="see leiningen.org", arguments=("repl", ":headless"), is_slow=True, by_hand="lein repl :headless",
    ),
    Kind(
        "Babashka", "bb", "babashka", ("bb",),
        suffixes=(".clj", ".cljc", ".bb"), marks=("bb.edn",), port_files=_NREPL_PORT, programs=("bb",),
        install="see babashka.org",
        # Port 0 lets babashka choose: its fixed default may be taken by another project.
        arguments=("nrepl-server", "127.0.0.1:0"), by_hand="bb nrepl-server 127.0.0.1:0",
    ),
    Kind(
        "ClojureScript with shadow-cljs", "cljs", "clojure", ("shadow-cljs",),
        suffixes=(".cljs", ".cljc"), file_dialect="clojurescript", marks=("shadow-cljs.edn",),
        precedence=-1,  # its projects may have a deps.edn too
        port_files=(".shadow-cljs/nrepl.port",), programs=("shadow-cljs",),
        install="run `npm install --save-dev shadow-cljs`", arguments=("server",), is_slow=True, needs_project=True,
        notes=("the REPL starts in Clojure: evaluate (shadow/repl :BUILD) to enter a ClojureScript build",),
        by_hand="npx shadow-cljs server",
    ),
    Kind(
        "nbb", "nbb", "nbb", ("nbb",),
        suffixes=(".cljs", ".cljc"), marks=("nbb.edn",), needed_packages=(("package.json", "nbb"),),
        port_files=_NREPL_PORT, programs=("nbb",),
        install="run `npm install nbb`", arguments=("nrepl-server",), by_hand="npx nbb nrepl-server",
    ),
    Kind(
        "Basilisp", "lpy", "basilisp", ("lisp",),
        suffixes=(".lpy", ".cljc"), distinctive_suffixes=(".lpy",), needed_packages=(("pyproject.toml", "basilisp"),),
        install="run `pip install 'basilisp>=0.5.1,<0.6'`",
        launcher="worker", arguments=("lisp",), is_slow=True, by_hand="codriver serve --repl lisp",
    ),
    Kind(
        "Basilisp", "lpy", "basilisp", ("basilisp",),
        suffixes=(".lpy", ".cljc"), port_files=_NREPL_PORT, programs=("basilisp",),
        install="run `pip install basilisp`", launcher="python-program", arguments=("nrepl-server",), is_slow=True,
        notes=("Basilisp compiles its core for about 20 s at its first start",), by_hand="basilisp nrepl-server",
    ),
    Kind(
        "Hy", "hy", "hy", ("hy",),
        suffixes=(".hy",), distinctive_suffixes=(".hy",), needed_packages=(("pyproject.toml", "hy"),), programs=("hy",),
        install="run `pip install hy hy-nrepl`", launcher="python-program", arguments=("-m", "hy_nrepl.server"),
        by_hand="codriver serve --repl hy",
    ),
    PYTHON,
    # After Python's own REPL: without a wish for a kernel nobody gets one, and `init` suggests none.
    Kind(
        "Jupyter kernel", "jup", "python", (JUPYTER,), protocol=JUPYTER,
        install="run `pip install ipykernel` in the project's environment",
        launcher="jupyter", needs_project=True, by_hand="codriver serve --repl jupyter",
    ),
)  # fmt: skip

NO_REPL = "none"
"""The word for starting no REPL at all."""

OTHER_SUFFIXES: Final = (
    ".c", ".cc", ".cpp", ".cs", ".cxx", ".d", ".dart", ".erl", ".ex", ".exs", ".f90", ".fs", ".go", ".h", ".hpp", ".hs",
    ".java", ".jl", ".js", ".jsx", ".kt", ".lua", ".m", ".mjs", ".ml", ".nim", ".php", ".pl", ".R", ".r", ".rb", ".rkt",
    ".rs", ".scala", ".swift", ".ts", ".tsx", ".vue", ".zig",
)  # fmt: skip
"""Endings of source files in languages without a kind here."""
OTHER_PROJECT_FILES: Final = (
    "CMakeLists.txt", "Cargo.toml", "Gemfile", "Package.swift", "build.gradle", "build.gradle.kts", "build.zig",
    "composer.json", "go.mod", "mix.exs", "package.json", "pom.xml", "pubspec.yaml", "stack.yaml",
)  # fmt: skip
"""Files of projects in languages without a kind here."""

_OTHER_MARKS: Final = ("build.boot",)
"""Files of projects whose REPL may run, but is not started by `init`."""


def by_word() -> Mapping[str, Kind]:
    """Return every kind by each of its words."""
    return {word: kind for kind in KINDS for word in kind.words}


def kind_of(words: str) -> Kind | None:
    """Return the kind that the words after `--repl` name; None for a command line.

    `jupyter:SPEC` names a kernelspec.
    """
    word, colon, _spec = words.strip().partition(":")
    return by_word().get(word) if not colon or word == JUPYTER else None


def title_of(words: str) -> str:
    """The name for people of the REPL that the words after `--repl` name; for a command line the words themselves."""
    found = kind_of(words) or next((kind for kind in KINDS if kind.repl == words), None)
    return found.title if found else words


def port_files() -> tuple[str, ...]:
    """Return every place of a port file, relative to a project's directory."""
    return tuple(dict.fromkeys(name for kind in KINDS for name in kind.port_files))


def key_of_port_file(name: str) -> str:
    """Return the session key for the REPL of a port file: `nrepl` if several kinds write such a file."""
    keys = {kind.key for kind in KINDS if name in kind.port_files}
    return keys.pop() if len(keys) == 1 else "nrepl"


def is_provisional(key: str) -> bool:
    """Return whether the key of a port file's REPL waits for what the connection shows.

    `nrepl` becomes the key of the dialect. Only applications have a port file of the kind Python, and an application's
    REPL is named after its program.
    """
    return key in ("nrepl", PYTHON.key)


MOST_KEY_CHARS: Final = 40
"""Maximum length of a key made from the name of an application."""


def key_of(dialect: str, application: str) -> str:
    """Return the session key for a REPL by what its connection shows: the application's name, or the dialect's key."""
    name = re.sub(r"[^\w.-]+", "-", application).strip("-.")[:MOST_KEY_CHARS]
    return name or key_of_dialect(dialect)


def key_of_dialect(dialect: str) -> str:
    """The session key for a REPL of a dialect: the key of its likeliest kind; `repl` for an unknown dialect."""
    return next((kind.key for kind in KINDS if dialect in (kind.dialect, kind.file_dialect)), "repl")


def dialect_of_key(key: str) -> str | None:
    """The dialect of a session by its key, such as `py`, `py-2` or `py/who`; None for a user's own key."""
    name = re.sub(r"-[0-9]+\Z", "", key.partition("/")[0])
    return next((kind.dialect for kind in KINDS if kind.key == name), None)


def protocol_of_port_file(name: str) -> str:
    """Return the protocol of a port file's REPL: nREPL, unless a kind says otherwise."""
    return next((kind.protocol for kind in KINDS if name in kind.port_files), NREPL)


def address_of(protocol: str, location: str) -> str:
    """Return the address of a REPL: `PROTOCOL://PLACE`, for nREPL only `HOST:PORT`."""
    return location if protocol == NREPL else f"{protocol}://{location}"


def split_address(address: str) -> tuple[str, str]:
    """Return the protocol and the place that an address names."""
    protocol, slashes, location = address.partition("://")
    return (protocol, location) if slashes else (NREPL, address)


def project_marks() -> frozenset[str]:
    """Return files that make a directory a project whose REPL is likely to be started."""
    marks = {mark for kind in KINDS for mark in kind.marks}
    return frozenset({*marks, *_OTHER_MARKS, *(file for kind in KINDS for file, _ in kind.needed_packages)})


def suffixes_of_others() -> tuple[str, ...]:
    """Return the endings of all source files that are not Python's, those of languages without a kind included."""
    return tuple({suffix for kind in KINDS for suffix in kind.suffixes if kind.dialect != PYTHON.dialect}) + (
        OTHER_SUFFIXES
    )


def suffixes_of(dialect: str) -> frozenset[str]:
    """The endings of source files that a dialect loads: with its family's, if it has one; none if unknown."""
    alone = {PYTHON.dialect, "hy"}
    kin = {dialect} if dialect in alone else {kind.dialect for kind in KINDS} - alone
    is_known = any(dialect in (kind.dialect, kind.file_dialect) for kind in KINDS)
    return frozenset(suffix for kind in KINDS if is_known and kind.dialect in kin for suffix in kind.suffixes)


def session_for(suffix: str) -> str | None:
    """The session that loads files of this ending, in words, with the way to start it if only one language has it.

    None for an ending without a kind.
    """
    loading = [kind for kind in KINDS if suffix in kind.suffixes]
    names = dict.fromkeys(kind.title.partition(" with ")[0] for kind in loading)
    started = f': add "{loading[0].repl}" to repl in codriver.toml' if len(names) == 1 else ""
    return f"a session of {' or '.join(names)}{started}" if names else None


def dialects_by_suffix() -> Mapping[str, tuple[str, ...]]:
    """Return the dialects that can load a source file, by its ending, the likeliest first."""
    found: dict[str, tuple[str, ...]] = {}
    for kind in KINDS:
        for suffix in kind.suffixes:
            dialect = kind.file_dialect or kind.dialect
            found[suffix] = tuple(dict.fromkeys((*found.get(suffix, ()), dialect)))
    return found
