"""Kernels of Jupyter Servers that one Codriver server uses.

A kernel that is reached by its connection file is restarted by the Jupyter Server that started it, if that runs on this
machine.

Only kernels that Codriver started are deleted when its server ends. A lost connection does not end such a kernel: the
next connection attaches to it again. If Codriver's server is killed, the Jupyter Server's culling is responsible for
the kernel.
"""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import anyio

from codriver.errors import CodriverError, refused
from codriver.features.jupyter.kernels.connection_files import CODRIVER_PREFIX, LOOPBACK, RuntimeDirectory
from codriver.features.jupyter.kernels.jupyter_paths import runtime_directory
from codriver.features.jupyter.kernels.named_kernels import (
    PLAIN_HTTP_REFUSED,
    KernelNameError,
    KernelUrl,
    NamedKernel,
    TokenSource,
    read_url,
)
from codriver.features.jupyter.kernels.server_api import KernelNotFoundError, ServerApi
from codriver.features.jupyter.kernels.server_sessions import is_alive

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping
    from contextlib import AbstractAsyncContextManager

    from codriver.features.jupyter.kernels.channel import CatchUp, Channel, OnMessage
    from codriver.repls.contract.adapter import Adapter, Connector
    from codriver.repls.contract.adapter_values import Listener

SERVER_PROTOCOLS: Final = ("jupyter+http", "jupyter+https")
"""The protocols of Jupyter Servers' kernels, in the address of a REPL."""
FILES: Final = "jupyter"
"""The protocol of kernels reached by their connection file."""
FAREWELL_S: Final = 5.0
LOCAL_SERVER_S: Final = 2.0
"""The time for a server on this machine to tell whether a kernel is its own."""

logger = logging.getLogger(__name__)


class ServerKernels:
    """The kernels of Jupyter Servers that our server may use. Lives as long as that."""

    def __init__(
        self,
        environ: Mapping[str, str],
        add_secret: Callable[[str, str], None],
        catch_up: CatchUp,
        named: Callable[[], Iterable[NamedKernel]],
    ) -> None:
        """`add_secret` gets each token, with a name for it, before a server sees the token.

        `catch_up` waits until a kernel's messages are stored, if they come faster than they are stored. `named` returns
        the kernels that the user names now: their tokens, and the variables for their start.
        """
        self._environ = environ
        self._catch_up = catch_up
        self._add_secret = add_secret
        self._named = named
        self._started: dict[str, tuple[ServerApi, str]] = {}
        """The kernels started for us, by address."""
        self._led_to: dict[str, str] = {}
        """The ids of kernels named without their id, by address."""

    def ids(self) -> frozenset[str]:
        """Return the ids of kernels named without them: by a notebook, or as kernels to start."""
        return frozenset(self._led_to.values())

    def connectors(self) -> Mapping[str, Connector]:
        """Return the connectors of such kernels, by protocol. See `codriver.repls.contract.adapter.Connector`."""
        return {
            FILES: self._connect_by_file,
            **{protocol: partial(self._connect, protocol) for protocol in SERVER_PROTOCOLS},
        }

    async def end(self) -> None:
        """Delete the kernels that were started for us."""
        started, self._started = self._started, {}
        async with anyio.create_task_group() as tasks:
            for api, kernel in started.values():
                tasks.start_soon(_delete, api, kernel)

    def _connect_by_file(
        self, address: str, *, listener: Listener, workspace: Path | None, is_remote: bool, found_by: Path | None = None
    ) -> AbstractAsyncContextManager[Adapter]:
        from codriver.features.jupyter.kernels.jupyter_adapter import connect  # noqa: PLC0415  # many workspaces have no kernel

        del is_remote  # the connection file tells the kernel's place
        return connect(partial(self._open_file, Path(address), found_by), listener=listener, workspace=workspace)

    @asynccontextmanager
    async def _open_file(self, file: Path, found_by: Path | None, on_message: OnMessage) -> AsyncIterator[Channel]:
        from codriver.features.jupyter.kernels.zmq_channel import open_zmq  # noqa: PLC0415  # as above

        async with open_zmq(str(file), on_message, found_by=found_by, catch_up=self._catch_up) as channel:
            kernel = file.stem.removeprefix("kernel-")
            if (api := await self._server_of(file, kernel)) is not None:
                channel.restart_kernel = partial(api.restart, kernel)
            yield channel

    async def _server_of(self, file: Path, kernel: str) -> ServerApi | None:
        """Return the server of this user on this machine that started the kernel of a connection file."""
        if file.name.startswith(CODRIVER_PREFIX) or not file.name.startswith("kernel-"):
            return None
        for base, token in await anyio.to_thread.run_sync(_local_servers, self._environ):
            api = ServerApi(base, token, self._environ, timeout_s=LOCAL_SERVER_S, add_secret=self._add_secret)
            with suppress(CodriverError):
                await api.kernel(kernel)
                return api
        return None

    def _connect(
        self,
        protocol: str,
        address: str,
        *,
        listener: Listener,
        workspace: Path | None,
        is_remote: bool,
        found_by: Path | None = None,
    ) -> AbstractAsyncContextManager[Adapter]:
        del workspace, is_remote, found_by  # the kernel's server is asked for the kernel in any case
        return self._connected(f"{protocol.removeprefix('jupyter+')}://{address}", listener)

    @asynccontextmanager
    async def _connected(self, text: str, listener: Listener) -> AsyncIterator[Adapter]:
        from codriver.features.jupyter.kernels.jupyter_adapter import connect  # noqa: PLC0415  # as above
        from codriver.features.jupyter.kernels.server_channel import open_server_channel  # noqa: PLC0415  # as above

        try:
            url = read_url(text)
        except KernelNameError as error:  # of our own making, so never seen
            raise CodriverError(str(error)) from None
        by_address = {one.location.address: one for one in self._named() if isinstance(one.location, KernelUrl)}
        named = by_address.get(url.address) or NamedKernel(url)
        if url.is_unencrypted and not named.is_plain_allowed:
            warning, _, hint = PLAIN_HTTP_REFUSED.format(base=url.base).partition(". ")
            raise refused("repl-unreachable", warning, hint=hint, details={"endpoint": url.base})
        api = ServerApi(url.base, await self._token(url, named), self._environ, add_secret=self._add_secret)
        kernel = await self._find(url, named, api)
        if not url.kernel:
            self._led_to[url.address] = kernel
        async with connect(partial(open_server_channel, api, kernel), listener=listener) as adapter:
            yield adapter

    async def _token(self, url: KernelUrl, named: NamedKernel) -> TokenSource:
        """Return the place of the token: as named, else in the file of a server of this user on this machine."""
        if named.token != TokenSource() or urlsplit(url.base).hostname not in LOOPBACK:
            return named.token
        return await anyio.to_thread.run_sync(_token_of_local, url.base, self._environ)

    async def _find(self, url: KernelUrl, named: NamedKernel, api: ServerApi) -> str:
        """Return the id of the kernel; a kernel named for a start is started."""
        if url.kernel:
            return url.kernel
        if url.notebook:
            sessions = {session.path: session.kernel.id for session in await api.sessions()}
            if url.notebook not in sessions:
                paths = ", ".join(sorted(sessions)) or "none"
                raise refused(
                    "repl-unreachable",
                    f"the notebook {url.notebook} is not open at {url.base}; open are: {paths}",
                    hint="open it there with a kernel, or correct the path, which counts from the server's own folder",
                )
            return sessions[url.notebook]
        if url.address in self._started:
            try:
                return (await api.kernel(self._started[url.address][1])).id
            except KernelNotFoundError:
                del self._started[url.address]
        started = await api.start(url.spec or "", named.env)
        self._started[url.address] = api, started.id
        logger.info("started the kernel %s at %s", started.id, url.base)
        return started.id


async def _delete(api: ServerApi, kernel: str) -> None:
    try:
        with anyio.fail_after(FAREWELL_S):
            await api.delete(kernel)
    except (CodriverError, TimeoutError) as error:
        logger.warning("the kernel %s at %s may run on, as it could not be deleted: %s", kernel, api.base, error)


def _local_servers(environ: Mapping[str, str]) -> list[tuple[str, TokenSource]]:
    """Return the servers of this user on this machine: their URLs, and the places of their tokens."""
    servers = [one for one in RuntimeDirectory(runtime_directory(environ)).contents().servers if is_alive(one)]
    return [
        (one.url.rstrip("/"), TokenSource(str(one.path)) if one.token else TokenSource())
        for one in servers
        if urlsplit(one.url).hostname in LOOPBACK
    ]


def _token_of_local(base: str, environ: Mapping[str, str]) -> TokenSource:
    """Return the file with the token of a server of this user, by its port."""
    port = urlsplit(base).port
    token_sources = (token for url, token in _local_servers(environ) if urlsplit(url).port == port)
    return next((token for token in token_sources if token.file), TokenSource())


def describe_silence(address: str, seconds: float) -> str | None:
    """Describe the address of a kernel that has not answered for some seconds, if its server has to start it."""
    if "/?" not in address:
        return None
    return f"{address} has started no kernel for {seconds:g} s: on a cluster that may take some minutes"
