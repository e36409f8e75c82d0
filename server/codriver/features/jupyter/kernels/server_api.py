"""The REST API of a Jupyter Server: list, start, interrupt, restart and delete kernels.

It is the same for Jupyter Server, JupyterHub (where a user's server is `https://hub/user/NAME/`), Kernel Gateway and
Enterprise Gateway. The token is sent only in the header `Authorization`, and only to the named server. Redirects are
not followed. Source: jupyter_server, "REST API".
"""

from __future__ import annotations

import json
import socket
import ssl
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import anyio

from codriver.errors import RefusedError
from codriver.features.jupyter.kernels.http_exchange import HttpExchange
from codriver.log.control_characters import escape_to_one_line
from codriver.repls.contract.adapter import ReplUnreachableError
from codriver.wire.untrusted import mapping_or_empty, mappings_or_empty

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from codriver.features.jupyter.kernels.named_kernels import TokenSource

REQUEST_TIMEOUT_S: Final = 10.0
"""Maximum duration of a request."""
START_TIMEOUT_S: Final = 120.0
"""Maximum duration of a request that starts a process. A gateway responds once its kernel is running, and a cluster may
have to find resources first.
"""
MAX_EXCERPT_CHARACTERS: Final = 200
"""Maximum number of characters of a server's error message to display."""
OK, REDIRECTS, SERVER_ERRORS = range(200, 300), range(300, 400), range(500, 600)
"""Ranges of HTTP statuses."""
UNAUTHORIZED, FORBIDDEN, NOT_FOUND = 401, 403, 404
SERVER_NOT_RUNNING_STATUSES: Final = (424, 503)
"""Statuses with which JupyterHub responds if the user's server is not running."""


class ServerAnswerError(RefusedError):
    """Raised when a Jupyter Server refuses a request. `status` is the HTTP status code."""

    reason = "repl-unreachable"

    def __init__(self, base: str, status: int, cause: str, *, hint: str) -> None:
        super().__init__(f"the Jupyter Server at {base} {cause}", hint=hint, details={"endpoint": base})
        self.status = status


class TokenRefusedError(ServerAnswerError):
    """Raised when a server requires a token or rejects the one that was sent."""


class KernelNotFoundError(ServerAnswerError):
    """Raised when a server has no kernel with the requested id."""


@dataclass(frozen=True, slots=True)
class KernelModel:
    """A kernel as listed by a server.

    `state` is not reliable. It remains `starting` until the first client connects.
    """

    id: str
    spec: str
    state: str
    connections: int


@dataclass(frozen=True, slots=True)
class ServerSession:
    """A notebook or console that is open on a server, with its kernel.

    `path` is relative to the server's root directory.
    """

    path: str
    kernel: KernelModel


class ServerApi:
    """A client for the REST API of one Jupyter Server.

    In addition to the documented exceptions, all requests may raise `ReplUnreachableError` if the server does not
    respond in time, `TokenRefusedError`, `RefusedError` if the token cannot be read, or another `ServerAnswerError`.
    """

    def __init__(
        self,
        base: str,
        token: TokenSource,
        environ: Mapping[str, str],
        *,
        timeout_s: float = REQUEST_TIMEOUT_S,
        add_secret: Callable[[str, str], None] | None = None,
    ) -> None:
        """Create a client.

        `timeout_s` applies to requests that start no process. `add_secret` is called with the token before the token is
        sent.
        """
        self.base = base
        self._timeout_s = timeout_s
        self._token = token
        self._environ = environ
        self._add_secret = add_secret
        self._limiter = anyio.CapacityLimiter(4)
        self._tls: ssl.SSLContext | None = None

    async def kernels(self) -> tuple[KernelModel, ...]:
        """Return the running kernels. A Kernel Gateway lists them only if its configuration allows it."""
        return tuple(map(_parse_kernel, mappings_or_empty(await self._request("GET", "/api/kernels"))))

    async def sessions(self) -> tuple[ServerSession, ...]:
        """Return the open notebooks and consoles. The result is always empty for a Kernel Gateway."""
        rows = mappings_or_empty(await self._request("GET", "/api/sessions"))
        return tuple(
            ServerSession(str(row.get("path", "")), _parse_kernel(mapping_or_empty(row.get("kernel")))) for row in rows
        )

    async def kernel(self, kernel: str) -> KernelModel:
        """Return the kernel with this id.

        Raises:
            KernelNotFoundError: no kernel has this id.
        """
        return _parse_kernel(mapping_or_empty(await self._request("GET", _kernel_path(kernel))))

    async def start(self, spec: str, env: Mapping[str, str]) -> KernelModel:
        """Start a kernel and return it. An empty `spec` selects the server's default kernelspec.

        `env` is used only by a Kernel Gateway, which accepts variables that start with `KERNEL_`.
        """
        body = {**({"name": spec} if spec else {}), **({"env": dict(env)} if env else {})}
        return _parse_kernel(
            mapping_or_empty(await self._request("POST", "/api/kernels", body, timeout_s=START_TIMEOUT_S))
        )

    async def interrupt(self, kernel: str) -> None:
        """Interrupt the code that a kernel is running.

        Raises:
            KernelNotFoundError: no kernel has this id.
        """
        await self._request("POST", f"{_kernel_path(kernel)}/interrupt", {})

    async def restart(self, kernel: str) -> None:
        """Restart a kernel's process. The kernel's id does not change.

        Raises:
            KernelNotFoundError: no kernel has this id.
        """
        try:
            await self._request("POST", f"{_kernel_path(kernel)}/restart", {}, timeout_s=START_TIMEOUT_S)
        except ServerAnswerError as error:
            if error.status in SERVER_ERRORS:  # a Jupyter Server responds with 500 if the kernel does not exist
                await self.kernel(kernel)
            raise

    async def delete(self, kernel: str) -> None:
        """Shut down a kernel, if it exists."""
        with suppress(KernelNotFoundError):
            await self._request("DELETE", _kernel_path(kernel))

    def headers(self) -> dict[str, str]:
        """Return the request headers, which contain the token if there is one. Blocks while the token is read."""
        token = self._token.read(self._environ)
        if token and self._add_secret is not None:
            self._add_secret(self._token.name, token)
        return {"Authorization": f"token {token}"} if token else {}

    def tls_context(self) -> ssl.SSLContext | None:
        """Return a TLS context that uses the system's trust store, or None if the server's URL is not HTTPS."""
        if self._tls is None and self.base.startswith("https:"):
            self._tls = ssl.create_default_context()
        return self._tls

    def error_from_status(self, status: int, detail: str, path: str) -> ServerAnswerError:
        """Return the error for an unsuccessful response."""
        detail = f" ({escape_to_one_line(detail[:MAX_EXCERPT_CHARACTERS])})" if detail else ""
        if status in (UNAUTHORIZED, FORBIDDEN):
            if status == FORBIDDEN and path in ("/api/kernels", "/api/sessions"):
                cause = f"does not list its kernels, or requires a different token: HTTP {status}{detail}"
                hint = (
                    "for a Kernel Gateway, which may list no kernels, use the kernel's id. Otherwise, "
                    f"{self._token.hint}"
                )
            else:
                cause = f"requires a token, or a different one: HTTP {status}{detail}"
                hint = self._token.hint
            return TokenRefusedError(self.base, status, cause, hint=hint)
        if status == NOT_FOUND and path != "/api/kernels":
            return KernelNotFoundError(
                self.base,
                status,
                f"does not have this kernel: HTTP {status}{detail}",
                hint="the kernel was deleted, or the server was restarted. Name a running kernel, or one to start",
            )
        if status in REDIRECTS:
            return ServerAnswerError(
                self.base,
                status,
                f"redirects (HTTP {status}), as a Hub does if the user's server is not running or the token is wrong",
                hint=f"start the user's server on the Hub. Codriver retries. If it is running, {self._token.hint}",
            )
        hint = "check the URL, and use only the part before /lab or /tree"
        if status in SERVER_NOT_RUNNING_STATUSES:
            hint = (
                "a Hub responds this way if the user's server is not running. Start it on the Hub, and Codriver will "
                "connect to it"
            )
        return ServerAnswerError(self.base, status, f"refused the request: HTTP {status}{detail}", hint=hint)

    async def _request(
        self, method: str, path: str, body: Mapping[str, object] | None = None, *, timeout_s: float | None = None
    ) -> object:
        timeout_s = timeout_s or self._timeout_s
        from http.client import HTTPException  # noqa: PLC0415  # a fifth of a MB that few servers need

        exchange = HttpExchange(self.base, timeout_s=timeout_s)
        try:
            with anyio.fail_after(timeout_s):
                status, response = await anyio.to_thread.run_sync(
                    partial(self._exchange, exchange, method, path, body), abandon_on_cancel=True, limiter=self._limiter
                )
        except TimeoutError:
            cause = f"the server did not respond to {method} {path} within {timeout_s:g} s"
            raise ReplUnreachableError(self.base, cause) from None
        except (OSError, HTTPException) as error:
            raise ReplUnreachableError(self.base, describe_error(error)) from None
        finally:
            exchange.abort()
        if status not in OK:
            raise self.error_from_status(status, _error_message(response), path)
        return _parse_json(response, self.base)

    def _exchange(
        self, exchange: HttpExchange, method: str, path: str, body: Mapping[str, object] | None
    ) -> tuple[int, bytes]:
        headers = {**self.headers(), "Accept": "application/json", "Content-Type": "application/json"}
        content = None if body is None else json.dumps(body).encode()
        return exchange.run(method, path, headers=headers, body=content, tls=self.tls_context())


def describe_error(error: BaseException) -> str:
    """Describe the reason why a server could not be reached."""
    from http.client import HTTPException  # noqa: PLC0415  # as above

    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"the server's certificate is not trusted ({error.verify_message}). Add its authority to the system's "
            "trust store, or set the variable SSL_CERT_FILE"
        )
    if isinstance(error, ssl.SSLError):
        return f"TLS failed ({error.reason or error}). The server may use plain http"
    if isinstance(error, socket.gaierror):
        return "the host name cannot be resolved"
    if isinstance(error, ConnectionRefusedError):
        return "nothing is listening at this address"
    if isinstance(error, HTTPException):
        return f"the program listening there does not respond like a Jupyter Server ({type(error).__name__})"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _kernel_path(kernel: str) -> str:
    return f"/api/kernels/{quote(kernel, safe='')}"


def _error_message(response: bytes) -> str:
    """Return the `message` or `reason` from the JSON of an unsuccessful response."""
    try:
        data = json.loads(response)
    except (ValueError, RecursionError):
        return ""
    detail = data.get("message") or data.get("reason") if isinstance(data, dict) else None
    return detail if isinstance(detail, str) else ""


def _parse_json(response: bytes, base: str) -> object:
    if not response.strip():
        return None
    try:
        data: object = json.loads(response)
    except (ValueError, RecursionError):
        raise ServerAnswerError(
            base,
            200,
            "responded with something other than JSON",
            hint="check the URL, because another program may be listening there",
        ) from None
    return data


def _parse_kernel(data: Mapping[str, Any]) -> KernelModel:
    connections = data.get("connections")
    return KernelModel(
        str(data.get("id", "")),
        str(data.get("name", "")),
        str(data.get("execution_state", "")),
        connections if isinstance(connections, int) else 0,
    )
