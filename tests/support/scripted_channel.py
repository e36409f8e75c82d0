"""A channel whose messages a test writes, to cover what no real kernel does on demand."""

import asyncio
from contextlib import asynccontextmanager

import anyio

from codriver.errors import ReplDisconnectedError
from codriver.features.jupyter.kernels.channel import Channel
from codriver.features.jupyter.kernels.messages import Message

INFO = {"implementation": "scripted", "language_info": {"name": "script"}}


class ScriptedChannel(Channel):
    """Records what is sent in `sent`, as (socket, type, content, id); `say` makes the kernel send something."""

    session = "us"
    address = "scripted"
    lost_messages = 0

    def __init__(self, *, implementation="scripted", answers=True):
        self.sent = []
        self.subshells = {}
        self.answers = answers
        self.info = {**INFO, "implementation": implementation}
        self.kernel_session = "kernel-1"
        self.cause = None
        self.over = anyio.Event()
        self.on_message = None

    @asynccontextmanager
    async def open(self, on_message):
        self.on_message = on_message
        yield self

    def post(self, socket, msg_type, content, *, metadata=None, subshell=None):
        if self.cause:
            raise ReplDisconnectedError(self.cause)
        identity = f"us-{len(self.sent)}"
        self.sent.append((socket, msg_type, dict(content), identity))
        self.subshells[identity] = subshell
        if msg_type == "kernel_info_request" and self.answers:
            self._later(lambda: self.answer(identity, msg_type, self.info, socket=socket))
        return identity

    def _later(self, act):
        asyncio.get_running_loop().call_soon(act)

    def answer(self, parent, request_type, content, *, socket="shell"):
        """Send all messages that answer a request: busy, the reply, idle."""
        self.state("busy", parent, request_type)
        self.deliver(socket, request_type.replace("_request", "_reply"), content, parent, request_type)
        self.state("idle", parent, request_type)

    def state(self, state, parent, request_type="execute_request", session="us"):
        self.deliver("iopub", "status", {"execution_state": state}, parent, request_type, session)

    def deliver(self, socket, kind, content, parent="", request_type="execute_request", session="us"):
        self.on_message(
            Message(
                socket,
                kind,
                session=self.kernel_session,
                content=content,
                parent_id=parent,
                parent_type=request_type if parent else "",
                parent_session=session if parent else "",
            )
        )

    async def wait_closed(self):
        await self.over.wait()
        return self.cause

    def close(self, cause):
        self.cause = cause
        self.over.set()
