"""Kernels on Jupyter Servers that one Codriver server uses.

A kernel that is reached through its connection file is restarted by the Jupyter Server that started it, if that server
is on this machine.

Only kernels that Codriver started are deleted when its server ends. A lost connection does not end such a kernel, and
the next connection attaches to it again. If Codriver's server is killed, it is left to the Jupyter Server to cull the
kernel.
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
from codriver.features.jupyter.kernel_kind import JUPYTER_PROTOCOL
from codriver.features.jupyter.kernels.connection_files import CODRIVER_PREFIX, LOOPBACK_HOSTS, RuntimeDirectory
from codriver.features.jupyter.kernels.jupyter_paths import runtime_directory
from codriver.features.jupyter.kernels.named_kernels import (
    PLAIN_HTTP_REFUSED_TEMPLATE,
    KernelNameError,
    KernelUrl,
    NamedKernel,
    TokenSource,
    parse_url,
)
from codriver.features.jupyter.kernels.server_api import KernelNotFoundError, ServerApi
from codriver.features.jupyter.kernels.server_sessions import is_alive
from codriver.repls.contract.evaluation_extensions import NO_HOOKS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping
    from contextlib import AbstractAsyncContextManager

    from codriver.features.jupyter.kernels.channel import CatchUp, Channel, OnMessage
    from codriver.repls.contract.adapter import Adapter, Connector
    from codriver.repls.contract.evaluation_extensions import AdapterHooks
    from codriver.repls.contract.events import Listener

SERVER_PROTOCOLS: Final = ("jupyter+http", "jupyter+https")
"""Protocols in REPL addresses for kernels that are reached through a Jupyter Server."""
DELETE_TIMEOUT_S: Final = 5.0
"""Maximum time to delete a kernel when Codriver's server ends."""
LOCAL_SERVER_TIMEOUT_S: Final = 2.0
"""Maximum time to wait for each server on this machine in the search for the server that started a kernel."""

logger = logging.getLogger(__name__)


class ServerKernels:
    """Connects to kernels on Jupyter Servers, and owns the kernels that Codriver has started there."""

    def __init__(
        self,
        environ: Mapping[str, str],
        add_secret: Callable[[str, str], None],
        catch_up: CatchUp,
        named: Callable[[], Iterable[NamedKernel]],
        hooks: AdapterHooks = NO_HOOKS,
    ) -> None:
        """Create an instance that owns no kernels yet.

        `add_secret` is called with each token and its name before the token is sent. `catch_up` waits until earlier
        messages are stored, if they are received faster than they can be stored. `named` returns the kernels that the
        user has named, with their tokens and variables. `hooks` contains what features add to adapters.
        """
        self._hooks = hooks
        self._environ = environ
        self._catch_up = catch_up
        self._add_secret = add_secret
        self._named = named
        self._started: dict[str, tuple[ServerApi, str]] = {}
        """The kernels that Codriver started, by address."""
        self._ids_by_address: dict[str, str] = {}
        """The ids of kernels that are named by a notebook or kernelspec, by address."""

    def ids(self) -> frozenset[str]:
        """Return the ids of connected kernels that the user named by a notebook or a kernelspec."""
        return frozenset(self._ids_by_address.values())

    def connectors(self) -> Mapping[str, Connector]:
        """Return the connector for each protocol, by its name."""
        return {
            JUPYTER_PROTOCOL: self._connect_by_file,
            **{protocol: partial(self._connect, protocol) for protocol in SERVER_PROTOCOLS},
        }

    async def end(self) -> None:
        """Delete the kernels that Codriver has started."""
        started, self._started = self._started, {}
        async with anyio.create_task_group() as tasks:
            for api, kernel in started.values():
                tasks.start_soon(_delete, api, kernel)

    def _connect_by_file(
        self, address: str, *, listener: Listener, workspace: Path | None, is_remote: bool, found_by: Path | None = None
    ) -> AbstractAsyncContextManager[Adapter]:
        from codriver.features.jupyter.kernels.jupyter_adapter import connect  # noqa: PLC0415  # many workspaces have no kernel

        del is_remote  # the connection file contains the kernel's host
        carrier = partial(self._open_file, Path(address), found_by)
        return connect(carrier, listener=listener, workspace=workspace, hooks=self._hooks)

    @asynccontextmanager
    async def _open_file(self, file: Path, found_by: Path | None, on_message: OnMessage) -> AsyncIterator[Channel]:
        from codriver.features.jupyter.kernels.zmq_channel import open_zmq  # noqa: PLC0415  # as above

        async with open_zmq(str(file), on_message, found_by=found_by, catch_up=self._catch_up) as channel:
            kernel = file.stem.removeprefix("kernel-")
            if (api := await self._find_server(file, kernel)) is not None:
                channel.restart_kernel = partial(api.restart, kernel)
            yield channel

    async def _find_server(self, file: Path, kernel: str) -> ServerApi | None:
        """Return the Jupyter Server on this machine that started a kernel, or None if there is none.

        `file` is the kernel's connection file, and `kernel` is the kernel's id.
        """
        if file.name.startswith(CODRIVER_PREFIX) or not file.name.startswith("kernel-"):
            return None
        for base, token in await anyio.to_thread.run_sync(_local_servers, self._environ):
            api = ServerApi(base, token, self._environ, timeout_s=LOCAL_SERVER_TIMEOUT_S, add_secret=self._add_secret)
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
        del workspace, is_remote, found_by  # the server provides the kernel in any case
        return self._connect_url(f"{protocol.removeprefix('jupyter+')}://{address}", listener)

    @asynccontextmanager
    async def _connect_url(self, text: str, listener: Listener) -> AsyncIterator[Adapter]:
        from codriver.features.jupyter.kernels.jupyter_adapter import connect  # noqa: PLC0415  # as above
        from codriver.features.jupyter.kernels.server_channel import open_server_channel  # noqa: PLC0415  # as above

        try:
            url = parse_url(text)
        except KernelNameError as error:  # impossible, because Codriver wrote the address
            raise CodriverError(str(error)) from None
        kernels = self._named()
        named_by_address = {named.location.address: named for named in kernels if isinstance(named.location, KernelUrl)}
        named = named_by_address.get(url.address) or NamedKernel(url)
        if url.is_unencrypted and not named.is_plain_allowed:
            warning, _, hint = PLAIN_HTTP_REFUSED_TEMPLATE.format(base=url.base).partition(". ")
            raise refused("repl-unreachable", warning, hint=hint, details={"endpoint": url.base})
        api = ServerApi(url.base, await self._token_source(url, named), self._environ, add_secret=self._add_secret)
        kernel = await self._find_or_start(url, named, api)
        if not url.kernel:
            self._ids_by_address[url.address] = kernel
        carrier = partial(open_server_channel, api, kernel)
        async with connect(carrier, listener=listener, hooks=self._hooks) as adapter:
            yield adapter

    async def _token_source(self, url: KernelUrl, named: NamedKernel) -> TokenSource:
        """Return the source to read the token from.

        If the user named no source, use the file of a server run by this user on this machine.
        """
        if named.token != TokenSource() or urlsplit(url.base).hostname not in LOOPBACK_HOSTS:
            return named.token
        return await anyio.to_thread.run_sync(_local_token_source, url.base, self._environ)

    async def _find_or_start(self, url: KernelUrl, named: NamedKernel, api: ServerApi) -> str:
        """Return the id of the kernel at a URL.

        If the URL names a kernelspec, start the kernel unless Codriver has already started it.
        """
        if url.kernel:
            return url.kernel
        if url.notebook:
            sessions = {session.path: session.kernel.id for session in await api.sessions()}
            if url.notebook not in sessions:
                paths = ", ".join(sorted(sessions)) or "none"
                raise refused(
                    "repl-unreachable",
                    f"the notebook {url.notebook} is not open at {url.base}. Open notebooks: {paths}",
                    hint="open the notebook on the server with a kernel, or correct the path, which is relative to "
                    "the server's directory",
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
        with anyio.fail_after(DELETE_TIMEOUT_S):
            await api.delete(kernel)
    except (CodriverError, TimeoutError) as error:
        logger.warning(
            "the kernel %s at %s may still be running, because it could not be deleted: %s", kernel, api.base, error
        )


def _local_servers(environ: Mapping[str, str]) -> list[tuple[str, TokenSource]]:
    """Return the base URL and token source of each server run by this user on this machine."""
    contents = RuntimeDirectory(runtime_directory(environ)).contents()
    servers = [server for server in contents.servers if is_alive(server)]
    return [
        (server.url.rstrip("/"), TokenSource(str(server.path)) if server.token else TokenSource())
        for server in servers
        if urlsplit(server.url).hostname in LOOPBACK_HOSTS
    ]


def _local_token_source(base: str, environ: Mapping[str, str]) -> TokenSource:
    """Return the token file of the server run by this user at a URL's port, or an empty source."""
    port = urlsplit(base).port
    token_sources = (token for url, token in _local_servers(environ) if urlsplit(url).port == port)
    return next((token for token in token_sources if token.file), TokenSource())


def describe_start_delay(address: str, seconds: float) -> str | None:
    """Return a note that the server has not started the kernel at `address` yet.

    Return None if the kernel at this address is not one that the server starts on demand.
    """
    if "/?" not in address:
        return None
    return f"{address} has not started a kernel after {seconds:g} s. On a cluster, this may take a few minutes"
