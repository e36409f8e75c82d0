"""The REST API of a Jupyter Server: list, start, interrupt, restart and delete kernels.

It is the same for Jupyter Server, JupyterHub (where a user's server is `https://hub/user/NAME/`), Kernel Gateway and
Enterprise Gateway. The token is only sent in the header `Authorization`, and only to the named server: redirects are
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
from codriver.log.control_characters import one_line
from codriver.repls.contract.adapter import ReplUnreachableError
from codriver.wire.untrusted import as_map, as_maps

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from codriver.features.jupyter.kernels.named_kernels import TokenSource

CALL_S: Final = 10.0
START_S: Final = 120.0
"""A gateway answers once its kernel runs, and a cluster may first have to find room for it."""
EXCERPT_CHARACTERS: Final = 200
"""The characters shown of a server's refusal."""
OK, REDIRECTS, SERVER_ERRORS = range(200, 300), range(300, 400), range(500, 600)
UNAUTHORIZED, FORBIDDEN, NOT_FOUND = 401, 403, 404
NOT_RUNNING: Final = (424, 503)
"""The answers of a Hub for a user whose server does not run."""


class ServerAnswerError(RefusedError):
    """A Jupyter Server refused a call. `status` is that of HTTP."""

    reason = "repl-unreachable"

    def __init__(self, base: str, status: int, cause: str, *, hint: str) -> None:
        super().__init__(f"the Jupyter Server at {base} {cause}", hint=hint, details={"endpoint": base})
        self.status = status


class TokenRefusedError(ServerAnswerError):
    """The server wants a token, or another one."""


class KernelNotFoundError(ServerAnswerError):
    """The server has no such kernel, or no longer."""


@dataclass(frozen=True, slots=True)
class KernelModel:
    """A kernel in its server's list. `state` is of little use: it stays `starting` until the first client comes."""

    id: str
    spec: str
    state: str
    connections: int


@dataclass(frozen=True, slots=True)
class ServerSession:
    """A notebook or console that is open in a server: its path there, and its kernel."""

    path: str
    kernel: KernelModel


class ServerApi:
    """The calls of one server.

    Each raises, beside what it names: `ReplUnreachableError` where nobody answers in time, `TokenRefusedError`,
    a plain `RefusedError` where no token can be read, and `ServerAnswerError` for what else is refused.
    """

    def __init__(
        self,
        base: str,
        token: TokenSource,
        environ: Mapping[str, str],
        *,
        timeout_s: float = CALL_S,
        add_secret: Callable[[str, str], None] | None = None,
    ) -> None:
        """`timeout_s`: for calls that start no process. `add_secret` gets the token before the token is shown."""
        self.base = base
        self._timeout_s = timeout_s
        self._token = token
        self._environ = environ
        self._add_secret = add_secret
        self._limiter = anyio.CapacityLimiter(4)
        self._tls: ssl.SSLContext | None = None

    async def kernels(self) -> tuple[KernelModel, ...]:
        """Return the running kernels. A Kernel Gateway tells them only if configured to."""
        return tuple(map(_kernel, as_maps(await self._call("GET", "/api/kernels"))))

    async def sessions(self) -> tuple[ServerSession, ...]:
        """Return the open notebooks and consoles. A Kernel Gateway has none."""
        found = as_maps(await self._call("GET", "/api/sessions"))
        return tuple(ServerSession(str(one.get("path", "")), _kernel(as_map(one.get("kernel")))) for one in found)

    async def kernel(self, kernel: str) -> KernelModel:
        """Return one kernel.

        Raises:
            KernelNotFoundError: no kernel has this id.
        """
        return _kernel(as_map(await self._call("GET", _path(kernel))))

    async def start(self, spec: str, env: Mapping[str, str]) -> KernelModel:
        """Return a new kernel of a kernelspec, the server's default one for an empty `spec`.

        A gateway takes only the variables `KERNEL_…` of `env`, and a Jupyter Server none.
        """
        body = {**({"name": spec} if spec else {}), **({"env": dict(env)} if env else {})}
        return _kernel(as_map(await self._call("POST", "/api/kernels", body, timeout_s=START_S)))

    async def interrupt(self, kernel: str) -> None:
        """Interrupt what a kernel runs.

        Raises:
            KernelNotFoundError: no kernel has this id.
        """
        await self._call("POST", f"{_path(kernel)}/interrupt", {})

    async def restart(self, kernel: str) -> None:
        """End the kernel's process and start another under the same id.

        Raises:
            KernelNotFoundError: no kernel has this id.
        """
        try:
            await self._call("POST", f"{_path(kernel)}/restart", {}, timeout_s=START_S)
        except ServerAnswerError as error:
            if error.status in SERVER_ERRORS:  # a Jupyter Server answers 500 for a missing kernel
                await self.kernel(kernel)
            raise

    async def delete(self, kernel: str) -> None:
        """End a kernel; a missing kernel is no failure."""
        with suppress(KernelNotFoundError):
            await self._call("DELETE", _path(kernel))

    def headers(self) -> dict[str, str]:
        """Return the header that shows the token. Waits for a disk."""
        token = self._token.read(self._environ)
        if token and self._add_secret is not None:
            self._add_secret(self._token.name, token)
        return {"Authorization": f"token {token}"} if token else {}

    def tls(self) -> ssl.SSLContext | None:
        """Return the rules for certificates: verified by the system's trust. None for a server without TLS."""
        if self._tls is None and self.base.startswith("https:"):
            self._tls = ssl.create_default_context()
        return self._tls

    def refusal(self, status: int, detail: str, path: str) -> ServerAnswerError:
        """Return the error for an answer that refuses."""
        detail = f" ({one_line(detail[:EXCERPT_CHARACTERS])})" if detail else ""
        if status in (UNAUTHORIZED, FORBIDDEN):
            if status == FORBIDDEN and path in ("/api/kernels", "/api/sessions"):
                cause = f"does not list its kernels, or wants another token: HTTP {status}{detail}"
                hint = f"a Kernel Gateway lists none unless told to: name the kernel's id; else {self._token.hint}"
            else:
                cause = f"wants a token, or another one than it was shown: HTTP {status}{detail}"
                hint = self._token.hint
            return TokenRefusedError(self.base, status, cause, hint=hint)
        if status == NOT_FOUND and path != "/api/kernels":
            return KernelNotFoundError(
                self.base,
                status,
                f"knows no such kernel: HTTP {status}{detail}",
                hint="it was deleted, or the server started anew: name one that runs there, or one to be started",
            )
        if status in REDIRECTS:
            return ServerAnswerError(
                self.base,
                status,
                f"redirects, as a Hub does where the user's server does not run or the token is wrong: HTTP {status}",
                hint=f"start the user's server on the Hub, and it is tried again; if it runs, {self._token.hint}",
            )
        hint = "check the URL: it is the server's own, as far as its path ends before /lab or /tree"
        if status in NOT_RUNNING:
            hint = "a Hub answers so when the user's server does not run: start it there, and it is tried again"
        return ServerAnswerError(self.base, status, f"refuses: HTTP {status}{detail}", hint=hint)

    async def _call(
        self, method: str, path: str, body: Mapping[str, object] | None = None, *, timeout_s: float | None = None
    ) -> object:
        timeout_s = timeout_s or self._timeout_s
        from http.client import HTTPException  # noqa: PLC0415  # a fifth of a MB that few servers need

        exchange = HttpExchange(self.base, timeout_s=timeout_s)
        try:
            with anyio.fail_after(timeout_s):
                status, answer = await anyio.to_thread.run_sync(
                    partial(self._exchange, exchange, method, path, body), abandon_on_cancel=True, limiter=self._limiter
                )
        except TimeoutError:
            cause = f"it did not answer {method} {path} within {timeout_s:g} s"
            raise ReplUnreachableError(self.base, cause) from None
        except (OSError, HTTPException) as error:
            raise ReplUnreachableError(self.base, describe(error)) from None
        finally:
            exchange.abort()
        if status not in OK:
            raise self.refusal(status, _message(answer), path)
        return _json(answer, self.base)

    def _exchange(
        self, exchange: HttpExchange, method: str, path: str, body: Mapping[str, object] | None
    ) -> tuple[int, bytes]:
        headers = {**self.headers(), "Accept": "application/json", "Content-Type": "application/json"}
        detail = None if body is None else json.dumps(body).encode()
        return exchange.run(method, path, headers=headers, body=detail, tls=self.tls())


def describe(error: BaseException) -> str:
    """Return the reason in words why a server was not reached."""
    from http.client import HTTPException  # noqa: PLC0415  # as above

    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"its certificate is not trusted ({error.verify_message}): have the system trust its authority, or name "
            "that by the variable SSL_CERT_FILE"
        )
    if isinstance(error, ssl.SSLError):
        return f"TLS failed ({error.reason or error}): it may speak plain http"
    if isinstance(error, socket.gaierror):
        return "its host name is not known"
    if isinstance(error, ConnectionRefusedError):
        return "nothing listens there"
    if isinstance(error, HTTPException):
        return f"what listens there does not speak HTTP as a Jupyter Server does ({type(error).__name__})"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _path(kernel: str) -> str:
    return f"/api/kernels/{quote(kernel, safe='')}"


def _message(answer: bytes) -> str:
    """Return the reason that a refusal gives: its `message` in JSON."""
    try:
        data = json.loads(answer)
    except (ValueError, RecursionError):
        return ""
    detail = data.get("message") or data.get("reason") if isinstance(data, dict) else None
    return detail if isinstance(detail, str) else ""


def _json(answer: bytes, base: str) -> object:
    if not answer.strip():
        return None
    try:
        data: object = json.loads(answer)
    except (ValueError, RecursionError):
        raise ServerAnswerError(
            base, 200, "answers with something else than JSON", hint="check the URL: it is not that of the server"
        ) from None
    return data


def _kernel(data: Mapping[str, Any]) -> KernelModel:
    connections = data.get("connections")
    return KernelModel(
        str(data.get("id", "")),
        str(data.get("name", "")),
        str(data.get("execution_state", "")),
        connections if isinstance(connections, int) else 0,
    )
