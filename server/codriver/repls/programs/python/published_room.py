"""Room in an ipykernel for short messages that it has published and that nobody has taken yet, such as prints."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

SHORT_BYTES = 2048
MOST_SHORT = 32_768
"""Above this ZeroMQ drops what is short, by itself from 1,000 on: on a busy machine nobody may read for seconds."""


def give_room() -> None:
    """Have the kernel keep more of what is short, and of the rest what it kept before. Again it is harmless."""
    try:
        thread = sys.modules["IPython"].get_ipython().kernel.iopub_socket.io_thread
        thread.schedule(lambda: _widen(thread.socket))  # its sockets are for this thread alone
    except (AttributeError, KeyError):
        return


def _widen(socket: Any) -> None:
    if "send_multipart" in vars(socket) or not 0 < socket.sndhwm < MOST_SHORT:
        return
    send, before = socket.send_multipart, socket.sndhwm
    now = [before]

    def send_multipart(parts: Sequence[bytes], *args: Any, **kwargs: Any) -> Any:
        room = MOST_SHORT if sum(map(len, parts)) <= SHORT_BYTES else before
        if now[0] != room:
            socket.sndhwm = now[0] = room
        return send(parts, *args, **kwargs)

    socket.send_multipart = send_multipart
