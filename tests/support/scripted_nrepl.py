"""An nREPL server that does what a test tells it to, including faults. It evaluates nothing.

`ScriptedNrepl.answers` maps an op, or ``("eval", code)``, to what is sent back: a list of dictionaries (completed
with the request's id and session), of tuples of them (sent as one packet), of bytes sent unchanged, and of `CLOSE`,
`SILENCE` and numbers (seconds to wait).
"""

from contextlib import asynccontextmanager

import anyio
from anyio.abc import SocketAttribute

from codriver.repls.contract.endpoints import Endpoint
from codriver.wire.bencode import Decoder, encode

CLOSE = object()
OPS = ("clone", "close", "describe", "eval", "interrupt", "load-file", "stdin")


class ScriptedNrepl:
    def __init__(self, answers, ops):
        self.answers = {
            "describe": [{"ops": {op: {} for op in ops}, "status": ["done"]}],
            "clone": [{"new-session": "s1", "status": ["done"]}],
            "close": [{"status": ["done", "session-closed"]}],
            # What no script names is answered as by a server of no known kind.
            "eval": [{"ex": "unknown", "status": ["eval-error"]}, {"status": ["done"]}],
            **answers,
        }
        self.requests = []
        self.streams = []
        self.endpoint = None

    def seen(self, op):
        return [request for request in self.requests if request["op"] == op]

    async def serve(self, stream):
        decoder = Decoder()
        self.streams.append(stream)
        async with stream, anyio.create_task_group() as tasks:
            try:
                async for data in stream:
                    for request in decoder.feed(data):
                        self.requests.append(request)
                        tasks.start_soon(self.answer, stream, request)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                return

    async def answer(self, stream, request):
        script = self.answers.get((request["op"], request.get("code")), self.answers.get(request["op"], []))
        try:
            for step in script:
                if step is CLOSE:
                    await stream.aclose()
                elif isinstance(step, int | float):
                    await anyio.sleep(step)
                elif isinstance(step, anyio.Event):
                    await step.wait()
                elif isinstance(step, bytes):
                    await stream.send(step)
                else:
                    messages = step if isinstance(step, tuple) else (step,)
                    await stream.send(b"".join(encode(complete(message, request)) for message in messages))
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            return


def complete(step, request):
    """Return a message with the request's id and session, unless the script names its own; None omits a key."""
    message = {"id": request["id"], **({"session": request["session"]} if "session" in request else {}), **step}
    return {key: value for key, value in message.items() if value is not None}


@asynccontextmanager
async def scripted(answers=None, *, ops=OPS):
    """Run a scripted server for the duration of the context."""
    server, failure = ScriptedNrepl(answers or {}, ops), None
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as tasks:
        server.endpoint = Endpoint("127.0.0.1", listener.extra(SocketAttribute.local_port))
        tasks.start_soon(listener.serve, server.serve)
        try:
            yield server
        except Exception as error:  # noqa: BLE001 - raised again below: a task group would wrap it in a group
            failure = error
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure
