"""Kernels that the user names: a connection file on this machine, or a kernel of a Jupyter Server by its URL.

    /run/user/1000/jupyter/kernel-1234.json              a connection file
    https://host/base/api/kernels/ID                     a running kernel
    https://host/base/?notebook=work/a.ipynb             the kernel of an open notebook
    https://host/base/?kernel=python3                    a kernel to start, which ends with Codriver's server

URLs contain no secrets, because they appear in process lists, logs and answers. The token is read from a file or an
environment variable for each connection, so it may change while the server runs.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from codriver import files
from codriver.errors import refused
from codriver.features.jupyter.kernels.session_keys import key_of_notebook
from codriver.files import Links, Rules
from codriver.net.admission import is_loopback
from codriver.repls.kinds import key_of_kernelspec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codriver.errors import RefusedError

CLI_TOKEN: Final = "CODRIVER_KERNEL_TOKEN"  # noqa: S105  # the name of a variable, not a token
"""The variable with the token for a server named only on the command line."""
TOKEN_RULES: Final = Rules(Links.OF_USER, 16 * files.KIBIBYTE, is_secret=True)
PLAIN_HTTP_REFUSED: Final = (
    "{base} is not connected to, as http is not encrypted and it is another machine: whoever is on the way could read "
    "the token, the code and its results. Name it with https://, or the near end of a tunnel (ssh -L) on 127.0.0.1; "
    "where the way there is safe, set plainHttp = true in its [[kernels]] of your own settings"
)
FORMS: Final = "URL/api/kernels/ID, URL/?notebook=PATH or URL/?kernel=SPEC"
_KEYED: Final = re.compile(r"(?:([A-Za-z][\w.-]*)=)?(.*)", re.DOTALL)
_KERNEL: Final = re.compile(r"(.*?)/api/kernels/([\w-]{1,128})(?:/channels)?/?")
_NO_PART_OF_A_BASE: Final = re.compile(r"/(?:lab|tree|notebooks|nbclassic|retro|doc|edit|login)(?:/.*)?\Z")
"""The pages of a server that people see; the server itself is above them."""
_TOKEN: Final = re.compile(r"[!-~]{1,8192}")


class KernelNameError(ValueError):
    """A text names no kernel. The error says why, and never shows the text, which may hold a token."""


@dataclass(frozen=True, slots=True)
class TokenSource:
    """The place of a server's token; without a file or variable the server wants none."""

    file: str | None = None
    variable: str | None = None

    def __str__(self) -> str:
        """Return the place in words."""
        if self.file:
            return f"the file {self.file}"
        return f"the variable {self.variable}" if self.variable else "nowhere, as none is named"

    @property
    def name(self) -> str:
        """Return the name that is in a text in the token's place."""
        return self.variable or "KERNEL_TOKEN"

    @property
    def hint(self) -> str:
        """Return the sentence about a token that is missing or wrong."""
        if self.file or self.variable:
            return f"the token is read from {self}: put the server's token there; it is read anew at the next try"
        return (
            "name the token's place by tokenFile or tokenEnv in [[kernels]] of your own settings, or start codriver "
            f"serve with it in the variable {CLI_TOKEN}"
        )

    def read(self, environ: Mapping[str, str]) -> str | None:
        """Return the token; None without a named place. Waits for a disk.

        Raises:
            RefusedError: it is not there, others may read it, or it is no token.
        """
        if self.file:
            try:
                token = _token_in(files.read_text(Path(self.file).expanduser(), TOKEN_RULES), self.file)
            except FileNotFoundError:
                raise self._unreadable("there is no such file") from None
            except OSError as error:
                raise self._unreadable(error.strerror or type(error).__name__) from None
            except ValueError:
                raise self._unreadable("it holds no text, or no JSON") from None
        elif self.variable:
            token = environ.get(self.variable, "").strip()
            if not token:
                raise self._unreadable("it is not set in the environment that the server was started with")
        else:
            return None
        if not _TOKEN.fullmatch(token):
            raise self._unreadable("what it holds is no token, which is one word of plain characters")
        return token

    def _unreadable(self, cause: str) -> RefusedError:
        """Return the refusal where the token cannot be read from its place."""
        message = f"the token of the Jupyter Server cannot be read from {self}: {cause}"
        return refused("repl-unreachable", message, hint=self.hint)


@dataclass(frozen=True, slots=True)
class KernelUrl:
    """A kernel of a Jupyter Server: by its id, by its open notebook, or to be started from a kernelspec."""

    base: str
    """The server's own URL, without a slash at its end."""
    kernel: str | None = None
    notebook: str | None = None
    spec: str | None = None
    name: str = ""
    """The name that tells kernels of one kernelspec apart: the text after `#`."""

    def __str__(self) -> str:
        """Return the URL as the user writes it."""
        if self.kernel:
            return f"{self.base}/api/kernels/{self.kernel}"
        query = {"notebook": self.notebook} if self.notebook else {"kernel": self.spec or ""}
        name = f"#{self.name}" if self.name else ""
        return f"{self.base}/?{urlencode(query, quote_via=quote, safe='/')}{name}"

    @property
    def address(self) -> str:
        """Return the address of the REPL."""
        return f"jupyter+{self}"

    @property
    def key(self) -> str:
        """Return the session key to suggest: after the notebook or the kernelspec."""
        return (key_of_notebook(self.notebook) if self.notebook else None) or key_of_kernelspec(self.spec or "")

    @property
    def is_unencrypted(self) -> bool:
        """Return whether messages can be read on the way: unencrypted, and to another machine."""
        parts = urlsplit(self.base)
        return parts.scheme == "http" and not is_loopback(parts.hostname or "")


@dataclass(frozen=True, slots=True)
class NamedKernel:
    """A kernel that the user names, with all data needed to reach it."""

    location: KernelUrl | Path
    """The URL, or the path of a connection file."""
    key: str | None = None
    token: TokenSource = field(default_factory=TokenSource)
    env: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """The variables `KERNEL_…` that the server gets for a kernel to start."""
    is_plain_allowed: bool = False
    """Whether the way to the server is safe without encryption."""


def _token_in(text: str, file: str) -> str:
    """The token in a file: the whole text, or the value under `token` in a server's own `jpserver-*.json`.

    Raises:
        ValueError: the file is no JSON.
    """
    if not file.endswith(".json"):
        return text.strip()
    data = json.loads(text)
    token = data.get("token") if isinstance(data, dict) else None
    return token if isinstance(token, str) else ""


def split_key(text: str) -> tuple[str | None, str]:
    """Return the key and the rest of `[KEY=]FILE|URL`."""
    found = _KEYED.fullmatch(text)
    assert found is not None  # noqa: S101  # every text is of this form
    return found[1], found[2]


def read_location(text: str) -> KernelUrl | Path:
    """Return the kernel that a text names.

    Raises:
        KernelNameError: the text names none.
    """
    if "://" in text:
        return read_url(text)
    path = Path(text).expanduser()
    if not path.is_absolute():
        raise KernelNameError("a connection file is named by its absolute path, or with ~")
    return path


def read_url(text: str) -> KernelUrl:
    """Return the kernel that a URL names.

    Raises:
        KernelNameError: the URL names none, or holds a secret.
    """
    try:
        parts = urlsplit(text)
        host, _port = parts.hostname, parts.port
    except ValueError:
        raise KernelNameError("it is no URL that can be read") from None
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    if parts.username is not None or parts.password is not None or "token" in query or "token=" in parts.fragment:
        raise KernelNameError(
            "a URL with a token or a password is not taken, as lists of processes and logs show it: take it out, and "
            f"name its place by tokenFile or tokenEnv in [[kernels]] of your own settings, or put it into {CLI_TOKEN}"
        )
    if parts.scheme not in ("http", "https") or not host or re.search(r"[\s\x00-\x1f]", text):
        raise KernelNameError("a kernel's URL begins with http:// or https:// and a host")
    origin = f"{parts.scheme}://{parts.netloc.lower()}"
    if found := _KERNEL.fullmatch(parts.path):
        return KernelUrl(origin + found[1], kernel=found[2])
    base = origin + _NO_PART_OF_A_BASE.sub("", parts.path.rstrip("/"))
    if notebook := query.get("notebook"):
        return KernelUrl(base, notebook=notebook.lstrip("/"))
    if "kernel" in query:
        return KernelUrl(base, spec=query["kernel"], name=parts.fragment)
    raise KernelNameError(f"it names a server and no kernel of it; the forms are {FORMS}")
