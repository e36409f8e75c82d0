"""Writer of the output log: the one way in for all that is evaluated, and for all that REPLs and the server say.

The history, the transcripts and whoever subscribed learn of each entry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio

from codriver.log.output_log import OutputLog

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from codriver.core.effects import Append
    from codriver.datalog.query_answer import QueryAnswer
    from codriver.log.history import History
    from codriver.log.output_log import Category, Queryable, Question, Report
    from codriver.log.redaction import Redactor, StreamRedactor
    from codriver.log.transcripts import Transcripts

NEWS_S = 0.05
"""Who subscribed is told that the log grew after so long, and at most once in so long."""


class Logbook:
    """The log with its neighbours, for the life of one server: the history and the transcripts learn what it took.

    `log` is for reading and querying; only `record` appends to it. Secrets are taken out on the way in.
    """

    def __init__(
        self,
        history: History,
        transcripts: Transcripts,
        memory: Queryable,
        *,
        next_line: int,
        max_entities: int,
        max_bytes: int,
        redactor: Redactor,
    ) -> None:
        self._history = history
        self._memory = memory
        self._transcripts = transcripts
        self._grew = anyio.Event()
        self._redactor = redactor
        self._loose: dict[tuple[str, str], StreamRedactor] = {}
        self.log = OutputLog(
            max_entities=max_entities,
            max_bytes=max_bytes,
            next_line=next_line,
            redact=redactor,
            listener=self._logged,
        )

    def perform(self, effect: Append) -> None:
        """Record for the core."""
        self.record(
            effect.category,
            effect.text,
            timestamp_ms=effect.now,
            who=effect.who,
            namespace=effect.ns,
            session_key=effect.session_key,
            evaluation=effect.evaluation,
        )

    def record(
        self,
        category: Category,
        text: str,
        *,
        timestamp_ms: int,
        who: str | None = None,
        namespace: str | None = None,
        session_key: str | None = None,
        evaluation: str | None = None,
    ) -> None:
        """Append to the log, and tell the transcript of the evaluation in which line it stands."""
        line = self.log.append(
            category,
            text,
            timestamp_ms=timestamp_ms,
            who=who,
            namespace=namespace,
            session_key=session_key,
            evaluation=evaluation,
        )
        transcript = self._transcripts.get(evaluation) if evaluation else None
        if transcript is not None:
            transcript.saw_line(line)

    def loose(self, repl: str, stream: str, chunk: str) -> str:
        """A chunk of a REPL's stream, to be recorded for no evaluation: without what may be the beginning of a secret.

        That waits for the next chunk of the stream, or for `end_loose`.
        """
        redactor = self._loose.get((repl, stream))
        if redactor is None:
            redactor = self._loose[repl, stream] = self._redactor.stream()
        return redactor.feed(chunk)

    def end_loose(self, repl: str) -> list[tuple[str, str]]:
        """The streams of a REPL that says no more, each with what waited of it, to be recorded."""
        ended = [key for key in self._loose if key[0] == repl]
        return [(key[1], self._loose.pop(key).flush()) for key in ended]

    def history_usage(self) -> Mapping[str, int]:
        """How much the history takes, in entities and bytes."""
        return self._history.usage()

    def query(self, asked: Question) -> QueryAnswer:
        """What a Datalog query over log, history and memory answers. Meant for a thread: it takes up to two seconds.

        Raises:
            QueryError: it cannot be read, or asks for too much.
        """
        return self.log.query(
            asked.text,
            inputs=asked.inputs,
            history=self._history,
            memory=self._memory,
            limit=asked.limit,
            until=asked.until,
            every_row=asked.every_row,
        )

    async def run(self, tell: Callable[[], None]) -> None:
        """Call `tell` when the log has grown, until cancelled: at most once in a while, however fast it grows."""
        while True:
            await self._grew.wait()
            await anyio.sleep(NEWS_S)
            self._grew = anyio.Event()
            tell()

    def _logged(self, report: Report) -> None:
        for entry in report.added:
            if entry.category == "evaluatedCode":
                self._history.add(entry)
        self._history.saw_line(report.last_line)
        self._grew.set()
