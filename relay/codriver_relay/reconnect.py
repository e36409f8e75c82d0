"""The loop of the relay: connect, converse, and connect again. It survives the server.

When the connection is lost, every request that was sent and has no answer gets an error with its own id, nothing is
ever sent twice, and what was not sent yet waits for the next connection. There the client's handshake is repeated; an
`initialize` that had no answer yet takes that of its repetition. A client without a handshake (protocol 2026-07-28)
only sees the errors, that of its open `subscriptions/listen` among them: it tells such a client that its view is old
and that it has to listen again.

While it starts a server, it answers `initialize`, `server/discover` and `tools/list` at once from what the last server
of the workspace kept for this client, where nothing has changed since. The new server learns of the client by the same
repeated handshake, or by a `tools/list` of the relay's own, whose answers go no further. When its list is another one,
the client is told that the list changed; one without a handshake is told on its streams, and no cache keeps its list.

After giving up, the relay stays: clients seldom start a relay again by themselves, and a relay that lives takes the
next request as the reason for another round of attempts.
"""

from __future__ import annotations

import time

from codriver_relay.messages import encode_error
from codriver_relay.target import UnreachableError, workspace_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from codriver_relay.conversation import Conversation
    from codriver_relay.durations import Durations
    from codriver_relay.messages import Message
    from codriver_relay.starter import Starter
    from codriver_relay.target import Target


class Relay:
    """One client's way to the server, for the life of the process."""

    def __init__(
        self,
        target: Target,
        conversation: Conversation,
        new_starter: Callable[[], Starter] | None,
        durations: Durations,
        say: Callable[[str], None],
    ) -> None:
        self.target = target
        self.conversation = conversation
        self.new_starter = new_starter
        self.starter: Starter | None = None
        """What starts servers, from the first time that none can be reached."""
        self.durations = durations
        self.say = say
        self.round_start: float | None = None
        """When the attempts to connect began that have not led to a server yet."""

    def run(self) -> int:
        """Connect, and connect again, until stdin has ended; the exit status."""
        while True:
            status = self.reach()
            if status is None:
                start = time.monotonic()
                is_over = self.conversation.converse()
                if self.conversation.has_heard or time.monotonic() - start > self.durations.settled_s:
                    self.round_start = None
                if not is_over and not self.conversation.is_done():
                    continue
            self.conversation.output.wait()
            return status or 0

    def reach(self) -> int | None:
        """Get a connection that is ready for requests; the exit status when none is wanted any more."""
        if self.round_start is not None:
            # The last connection broke at once: the round goes on. What hung up may be another workspace's server.
            self.start_server()
            self.conversation.pause(self.durations.retry_s)
        while not self.conversation.is_done():
            if self.round_start is None:
                self.round_start = time.monotonic()
                if self.starter:
                    self.starter.reset()
            problem = self.connect()
            if not problem:
                return None
            self.start_server()
            self.say(f"{self.target.tried}: {problem}")
            has_failed = self.starter is not None and self.starter.has_failed
            # Where nobody is asked to start one, a server whose process is gone comes by no waiting.
            is_alive = None if self.starter else self.target.is_alive()
            if is_alive is False:
                text = self.unreachable(f"{problem}; its process is gone", self.round_start)
                self.refuse(self.conversation.take_requests(), text)
            longest_s = min(self.durations.give_up_s, self.durations.silent_s if is_alive else self.durations.give_up_s)
            if has_failed or time.monotonic() - self.round_start >= longest_s:
                self.give_up(problem, self.round_start)
                if self.conversation.input.has_ended:
                    return 1
                self.conversation.wait_for_request()
            else:
                self.conversation.pause(self.durations.retry_s)
        return 0

    def connect(self) -> str:
        """Connect to a server, introduce the client, and let requests through; why it did not come about, else ""."""
        try:
            server = self.target.connect()
        except UnreachableError as error:
            return str(error)
        try:
            self.conversation.begin(server, self.target.tried)
        except OSError as error:
            server.close()
            return f"the connection broke: {error}"
        self.say(f"connected to {self.target.tried}")
        return ""

    def start_server(self) -> None:
        """Have a server started, if that was asked for, once in a round of attempts; and note it if that failed."""
        if self.starter is None and self.new_starter:
            self.starter = self.new_starter()
        if self.starter:
            self.starter.start()
            self.starter.check_process()
            self.conversation.answer_meanwhile(self.starter)

    def give_up(self, problem: str, start: float) -> None:
        """Answer all that waits for a server, and end the round."""
        self.round_start = None
        waiting = self.conversation.take_waiting()
        text = self.unreachable(problem, start)
        self.say(text)
        self.refuse(waiting, text)

    def refuse(self, waiting: list[Message], text: str) -> None:
        """Answer what waits for a server by why there is none."""
        for message in [part for line in waiting for part in line.parts or (line,)]:
            if message.is_request:
                self.conversation.output.write(encode_error(message, text, "server-unreachable"))
            else:
                self.conversation.handshake.note_unsent(message)

    def unreachable(self, problem: str, start: float) -> str:
        """The sentences that say that there is no server, why, and what to do."""
        clock = time.strftime("%H:%M:%S", time.localtime(time.time() - (time.monotonic() - start)))
        where = f"{self.target.tried} (from {self.target.file})" if self.target.file else self.target.tried
        failure = f" {self.starter.failure}." if self.starter and self.starter.failure else ""
        workspace = workspace_of(self.target.file) or "DIR"
        return (
            f"no Codriver server could be reached at {where} since {clock}: {problem}.{failure} This request was not "
            f"carried out. Run `codriver serve --workspace {workspace}`, or `codriver doctor` to see what is wrong; "
            "the next request makes the relay try again"
        )
