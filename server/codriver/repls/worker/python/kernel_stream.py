"""Send messages from a Jupyter kernel to the client whose request it is handling, from any thread and at any time.

A message is `stdout` output of that request. It consists of a record separator and a JSON object with one field. Other
clients ignore the output of requests that are not theirs.

Source: Jupyter documentation, "Messaging in Jupyter", and RFC 7464.
"""

from __future__ import annotations

import json
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MESSAGE_PREFIX = "\x1e"
"""The first character of a message. A message without any other text is the last one."""


class KernelStream:
    """Sends messages with one field to the client whose request is being handled when the stream is created.

    Raises:
        LookupError: the kernel is not an ipykernel.
    """

    def __init__(self, field: str) -> None:
        self._field = field
        library = sys.modules.get("IPython")
        kernel: Any = getattr(library.get_ipython() if library is not None else None, "kernel", None)
        try:
            self._session, self._socket = kernel.session, kernel.iopub_socket
            self._request = dict(kernel.get_parent())
        except (AttributeError, TypeError):
            raise LookupError("this kernel cannot send messages from threads") from None

    def __call__(self, text: str) -> bool:
        """Send a message, and return True."""
        self._send(json.dumps({self._field: text}))
        return True

    def end(self) -> None:
        """Send the final, empty message."""
        self._send("")

    def _send(self, text: str) -> None:
        content = {"name": "stdout", "text": MESSAGE_PREFIX + text}
        self._session.send(self._socket, "stream", content, parent=self._request, ident=b"stream.stdout")
