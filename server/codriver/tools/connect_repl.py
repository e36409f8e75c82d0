"""`connect_repl`: connect to a REPL listening on this machine.

Only loopback addresses whose listener belongs to the server's user are accepted. Other addresses have to be configured
by a human, in the settings or on the command line.
"""

from __future__ import annotations

import re
import socket
from typing import TYPE_CHECKING, Final

import anyio
from pydantic import Field

from codriver.core.actions import AddRepl, DropRepl
from codriver.core.state import Origin
from codriver.errors import refused
from codriver.net.kernel_sockets import UnsupportedQueryError, find_peer_listener, listener_distrust_reason
from codriver.tools.calls.answer import STRINGS_SCHEMA, Answer, answer_schema
from codriver.tools.calls.arguments import UNLISTED_KEY, Arguments
from codriver.tools.calls.gate import CHECK_INTERVAL_S
from codriver.tools.calls.session_choice import resolve_session
from codriver.tools.calls.tool import Tool

if TYPE_CHECKING:
    from codriver.core.state import Repl
    from codriver.tools.calls.call import Call


ADDRESS_PATTERN: Final = re.compile(r"(?:nrepl://)?(?:(?P<host>localhost|127\.0\.0\.1|\[::1\]):)?(?P<port>\d{1,5})/?")
"""Matches the address of an nREPL server on this machine."""
MAX_PORT: Final = 65_535
"""Highest TCP port number."""
CONNECT_TIMEOUT_S: Final = 2.0
"""Time limit for a local listener to accept a connection, in seconds."""
NO_LISTENER_REASON: Final = "nothing is listening at this address"
"""The reason why a connection failed if no program accepts connections at the address."""
START_HINT: Final = "Start an nREPL server there, or pass the port of one that is running."
REMOTE_HINT: Final = "ask your human to start the server with --nrepl HOST:PORT or to set nrepl in the settings"
"""Hint on how a human can connect to another machine."""


class ConnectArguments(Arguments):
    """The arguments of the tool `connect_repl`."""

    address: str = Field(description='As "localhost:7888".')
    repl_session_key: str | None = Field(None, pattern=r"^[\w-]{1,40}$", json_schema_extra={UNLISTED_KEY: True})
    """Key of the new session, if no other session has it."""
    timeout_ms: int = Field(25_000, ge=100, le=600_000, json_schema_extra={UNLISTED_KEY: True})


async def connect_repl(call: Call, arguments: ConnectArguments) -> Answer:
    """Connect to a REPL on this machine, and wait until its session is ready."""
    address = loopback_address(arguments.address)
    known = _find_repl_at(call, address)
    if known is None or known.phase != "connected":
        if why := await anyio.to_thread.run_sync(_find_objection, address):
            hint = START_HINT if why.startswith(NO_LISTENER_REASON) else REMOTE_HINT
            raise refused("repl-unreachable", f"nothing was sent to {address}: {why}", hint=hint)
        port = address.rpartition(":")[2]
        origin = Origin("address", address, named_by="connect_repl")
        key = arguments.repl_session_key
        found = AddRepl(f"address:{address}", key or f"nrepl-{port}", origin, address, keyed=key is not None)
        call.dispatch(found)
        with anyio.move_on_after(arguments.timeout_ms / 1000):
            while (known := _find_repl_at(call, address)) is not None and known.phase == "connecting":
                await anyio.sleep(CHECK_INTERVAL_S)
    known = _find_repl_at(call, address)
    if known is None or known.phase != "connected":
        note = known.note if known is not None else None
        if known is not None:
            call.dispatch(DropRepl(known.id))
        raise refused(
            "repl-unreachable",
            f"could not connect to {address}: {note or 'the server did not answer in time'}",
            hint="Check that an nREPL server is listening at this address, and call again.",
        )
    target = resolve_session(call.state, known.key)
    fields: dict[str, object] = {"sessionKey": target.key, "dialect": known.dialect}
    notes = [
        f"to use this session, pass replSessionKey {target.key!r}",
        *(known.profile.notes if known.profile else ()),
    ]
    return Answer({**fields, "notes": notes})


def loopback_address(text: str) -> str:
    """Convert a caller's text to `HOST:PORT` on this machine.

    Raises:
        RefusedError: the text is not an address, or not one on this machine.
    """
    found = ADDRESS_PATTERN.fullmatch(text.strip())
    if found is None or not 0 < int(found["port"]) <= MAX_PORT:
        raise refused(
            "bad-arguments",
            f"{text!r} is not the address of an nREPL server on this machine",
            hint=f'Pass "localhost:PORT". For another machine, {REMOTE_HINT}.',
        )
    host = found["host"] or "127.0.0.1"
    return f"{'127.0.0.1' if host == 'localhost' else host}:{int(found['port'])}"


def _find_repl_at(call: Call, address: str) -> Repl | None:
    """Return the REPL that is configured or connected at an address, or None."""
    repls = call.state.repls.values()
    return next((repl for repl in repls if repl.address == address and not repl.origin.is_discovered_only), None)


def _find_objection(address: str) -> str | None:
    """Explain why nothing may be sent to an address, or return None if its listener belongs to this user.

    Connects to the address, so it blocks.
    """
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), CONNECT_TIMEOUT_S) as connection:
            try:
                listener = find_peer_listener(connection)
            except UnsupportedQueryError:
                listener = None
            return listener_distrust_reason(listener, None)
    except OSError as error:
        return f"{NO_LISTENER_REASON} ({error.strerror or error})"


TOOL = Tool(
    name="connect_repl",
    title="Connect to a REPL",
    description="Connect to an nREPL server that is running on this machine. replSessionKey names the session.",
    arguments=ConnectArguments,
    output=answer_schema(sessionKey="string", dialect="string", notes=STRINGS_SCHEMA),
    run=connect_repl,
    setting="enable_mcp_repl_evaluation",
    open_world=True,
    search_hint="attach to a running nREPL by host and port",
)
