"""Connections to the servers of REPLs, made over TCP where somebody listens who may."""

from __future__ import annotations

import asyncio
import errno
import socket
from typing import TYPE_CHECKING

import anyio

from codriver.net.tcp_transport import TcpTransport
from codriver.repls.contract.errors import ReplUnreachableError
from codriver.repls.contract.found_listener import check_listener

if TYPE_CHECKING:
    from codriver.repls.contract.adapter_values import Endpoint


async def connect(endpoint: Endpoint, *, timeout_s: float) -> TcpTransport:
    """A connection to whoever listens at `endpoint`. Hand it to its owner before anything else is awaited.

    Raises:
        ReplUnreachableError: nobody listens, or the way there is closed.
        StrangeListenerError: a file led there, and the listener is another user's, or nobody can tell.
    """
    loop = asyncio.get_running_loop()
    try:
        with anyio.fail_after(timeout_s):
            _, transport = await loop.create_connection(TcpTransport, endpoint.host, endpoint.port)
    except TimeoutError:
        raise ReplUnreachableError(endpoint, f"it did not take the connection within {timeout_s:g} s") from None
    except OSError as error:
        raise ReplUnreachableError(endpoint, _say(error)) from error
    transport.pause_reading()  # what comes meanwhile is for whoever the connection is handed to
    try:
        await check_listener(transport.socket, endpoint)
    except BaseException:
        transport.abort()
        raise
    transport.resume_reading()
    return transport


def _say(error: OSError) -> str:
    """Why a connection was refused, in words."""
    if isinstance(error, socket.gaierror):
        return "its host name is not known"
    # When several addresses were tried asyncio makes one error of all, whose text alone tells the causes.
    if error.errno == errno.ECONNREFUSED or f"[Errno {errno.ECONNREFUSED}]" in str(error):
        return "nothing listens there"
    return str(error) or type(error).__name__
