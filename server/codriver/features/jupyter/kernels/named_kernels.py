"""Connect to kernels that the user named: by a connection file on this machine, or by a URL on a Jupyter Server.

    /run/user/1000/jupyter/kernel-1234.json              a connection file
    https://host/base/api/kernels/ID                     a running kernel
    https://host/base/?notebook=work/a.ipynb             the kernel of an open notebook
    https://host/base/?kernel=python3                    a kernel to start, which ends with Codriver's server

URLs contain no secrets, because they appear in process lists, logs and answers. The token is read from a file or an
environment variable for each connection, so it may change while the server is running.
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
from codriver.features.jupyter.kernel_kind import session_key_for_kernelspec, session_key_for_notebook
from codriver.files import FileRules, Links
from codriver.net.admission import is_loopback

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codriver.errors import RefusedError

CLI_TOKEN_VARIABLE: Final = "CODRIVER_KERNEL_TOKEN"  # noqa: S105  # the name of a variable, not a token
"""Environment variable with the token for a server that is named only on the command line."""
TOKEN_RULES: Final = FileRules(Links.OF_USER, 16 * files.KIBIBYTE, is_secret=True)
PLAIN_HTTP_REFUSED_TEMPLATE: Final = (
    "Codriver does not connect to {base}, because it is another machine and http is not encrypted. Others on the "
    "network could read the token, the code and its results. Use https://, or the local end of a tunnel (ssh -L) on "
    "127.0.0.1. If the network is safe, set plainHttp = true in the [[kernels]] table in your user settings"
)
NAME_FORMS: Final = "URL/api/kernels/ID, URL/?notebook=PATH or URL/?kernel=SPEC"
_KEY_AND_LOCATION: Final = re.compile(r"(?:([A-Za-z][\w.-]*)=)?(.*)", re.DOTALL)
"""Matches an optional session key with `=`, and a location."""
_KERNEL_PATH: Final = re.compile(r"(.*?)/api/kernels/([\w-]{1,128})(?:/channels)?/?")
"""Matches the path of a URL that names a running kernel."""
_PAGE_PATH: Final = re.compile(r"/(?:lab|tree|notebooks|nbclassic|retro|doc|edit|login)(?:/.*)?\Z")
"""Matches the path of a web page on a server. The server's base URL precedes it."""
_TOKEN_PATTERN: Final = re.compile(r"[!-~]{1,8192}")
"""Matches valid tokens: printable ASCII characters without spaces."""


class KernelNameError(ValueError):
    """Raised when a string does not name a kernel.

    The message does not contain the string, which may include a token.
    """


@dataclass(frozen=True, slots=True)
class TokenSource:
    """The file or environment variable that contains a server's token. Both are None if the server needs no token."""

    file: str | None = None
    variable: str | None = None

    def __str__(self) -> str:
        """Describe the file or variable."""
        if self.file:
            return f"the file {self.file}"
        return f"the variable {self.variable}" if self.variable else "no file or variable"

    @property
    def name(self) -> str:
        """Return the token's placeholder in redacted text."""
        return self.variable or "KERNEL_TOKEN"

    @property
    def hint(self) -> str:
        """Return a hint about a missing or wrong token."""
        if self.file or self.variable:
            return f"the token is read from {self} for each attempt, so put the server's token there"
        return (
            "set tokenFile or tokenEnv in [[kernels]] in your user settings, or start codriver serve with the token in "
            f"the variable {CLI_TOKEN_VARIABLE}"
        )

    def read(self, environ: Mapping[str, str]) -> str | None:
        """Read the token. Return None if there is no file or variable. Blocks.

        Raises:
            RefusedError: the file or variable is missing, is readable by other users, or contains no token.
        """
        if self.file:
            try:
                token = _parse_token(files.read_text(Path(self.file).expanduser(), TOKEN_RULES), self.file)
            except FileNotFoundError:
                raise self._refusal("the file does not exist") from None
            except OSError as error:
                raise self._refusal(error.strerror or type(error).__name__) from None
            except ValueError:
                raise self._refusal("the file is not valid JSON text") from None
        elif self.variable:
            token = environ.get(self.variable, "").strip()
            if not token:
                raise self._refusal("the variable was not set when the server started")
        else:
            return None
        if not _TOKEN_PATTERN.fullmatch(token):
            raise self._refusal("the value is not a valid token. A token consists of ASCII characters without spaces")
        return token

    def _refusal(self, cause: str) -> RefusedError:
        """Return the error for a token that cannot be read."""
        message = f"the token of the Jupyter Server cannot be read from {self}: {cause}"
        return refused("repl-unreachable", message, hint=self.hint)


@dataclass(frozen=True, slots=True)
class KernelUrl:
    """The URL of a kernel on a Jupyter Server.

    The kernel is identified by its id or an open notebook, or is started from a kernelspec.
    """

    base: str
    """The base URL of the server, without a slash at the end."""
    kernel: str | None = None
    notebook: str | None = None
    spec: str | None = None
    name: str = ""
    """The text after `#` in the URL, which distinguishes kernels with the same kernelspec."""

    def __str__(self) -> str:
        """Return the URL as users write it."""
        if self.kernel:
            return f"{self.base}/api/kernels/{self.kernel}"
        query = {"notebook": self.notebook} if self.notebook else {"kernel": self.spec or ""}
        name = f"#{self.name}" if self.name else ""
        return f"{self.base}/?{urlencode(query, quote_via=quote, safe='/')}{name}"

    @property
    def address(self) -> str:
        """Return the REPL address of the kernel."""
        return f"jupyter+{self}"

    @property
    def key(self) -> str:
        """Return a session key for the kernel, derived from the name of its notebook or kernelspec."""
        return (session_key_for_notebook(self.notebook) if self.notebook else None) or session_key_for_kernelspec(
            self.spec or ""
        )

    @property
    def is_unencrypted(self) -> bool:
        """Return whether messages are sent to another machine over plain HTTP."""
        parts = urlsplit(self.base)
        return parts.scheme == "http" and not is_loopback(parts.hostname or "")


@dataclass(frozen=True, slots=True)
class NamedKernel:
    """A kernel configured by the user, and the information needed to connect to it."""

    location: KernelUrl | Path
    """The URL or the path of a connection file."""
    key: str | None = None
    token: TokenSource = field(default_factory=TokenSource)
    env: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """The `KERNEL_…` variables that are sent to the server when it starts the kernel."""
    is_plain_allowed: bool = False
    """Whether unencrypted connections to the server are allowed."""


def _parse_token(text: str, file: str) -> str:
    """Return the token in a text file, or in the field `token` of a JSON file that a Jupyter Server wrote.

    Raises:
        ValueError: the file is not JSON.
    """
    if not file.endswith(".json"):
        return text.strip()
    data = json.loads(text)
    token = data.get("token") if isinstance(data, dict) else None
    return token if isinstance(token, str) else ""


def split_key(text: str) -> tuple[str | None, str]:
    """Split `[KEY=]FILE|URL` into the key and the rest. The key is None if it is missing."""
    match = _KEY_AND_LOCATION.fullmatch(text)
    assert match is not None  # noqa: S101  # the pattern matches every text
    return match[1], match[2]


def parse_location(text: str) -> KernelUrl | Path:
    """Parse the path of a connection file or the URL of a kernel.

    Raises:
        KernelNameError: the text is neither.
    """
    if "://" in text:
        return parse_url(text)
    path = Path(text).expanduser()
    if not path.is_absolute():
        raise KernelNameError("the path of a connection file has to be absolute or start with ~")
    return path


def parse_url(text: str) -> KernelUrl:
    """Parse the URL of a kernel.

    Raises:
        KernelNameError: the text is not the URL of a kernel, or contains a secret.
    """
    try:
        parts = urlsplit(text)
        host, _port = parts.hostname, parts.port
    except ValueError:
        raise KernelNameError("the URL is invalid") from None
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    if parts.username is not None or parts.password is not None or "token" in query or "token=" in parts.fragment:
        raise KernelNameError(
            "a URL must not contain a token or a password, because it would appear in process lists and logs. Remove "
            "it, and set tokenFile or tokenEnv in [[kernels]] in your user settings, or the variable "
            f"{CLI_TOKEN_VARIABLE}"
        )
    if parts.scheme not in ("http", "https") or not host or re.search(r"[\s\x00-\x1f]", text):
        raise KernelNameError("a kernel's URL has to start with http:// or https:// and a host")
    origin = f"{parts.scheme}://{parts.netloc.lower()}"
    if match := _KERNEL_PATH.fullmatch(parts.path):
        return KernelUrl(origin + match[1], kernel=match[2])
    base = origin + _PAGE_PATH.sub("", parts.path.rstrip("/"))
    if notebook := query.get("notebook"):
        return KernelUrl(base, notebook=notebook.lstrip("/"))
    if "kernel" in query:
        return KernelUrl(base, spec=query["kernel"], name=parts.fragment)
    raise KernelNameError(f"the URL names a server but no kernel. Use {NAME_FORMS}")
