"""Writer of the output log: history, transcripts and subscribers learn of each entry that is appended."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio

from codriver.log.output_log import OutputLog

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from codriver.core.effects import Append
    from codriver.datalog.query_answer import QueryAnswer
    from codriver.log.history import History
    from codriver.log.output_log import Queryable, Question, Report
    from codriver.log.transcripts import Transcripts

NEWS_S = 0.05
"""Who subscribed is told that the log grew after so long, and at most once in so long."""


class Logbook:
    """The log with its neighbours, for the life of one server: the history and the transcripts learn what it took.

    `log` is for reading and querying; what is to be appended comes as an effect.
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
        redact: Callable[[str], str],
    ) -> None:
        self._history = history
        self._memory = memory
        self._transcripts = transcripts
        self._grew = anyio.Event()
        self.log = OutputLog(
            max_entities=max_entities,
            max_bytes=max_bytes,
            next_line=next_line,
            redact=redact,
            listener=self._logged,
        )

    def append(self, effect: Append) -> None:
        """Append to the log, and tell the transcript of the evaluation in which line it stands."""
        line = self.log.append(
            effect.category,
            effect.text,
            timestamp_ms=effect.now,
            who=effect.who,
            namespace=effect.ns,
            session_key=effect.session_key,
            evaluation=effect.evaluation,
        )
        transcript = self._transcripts.get(effect.evaluation) if effect.evaluation else None
        if transcript is not None:
            transcript.saw_line(line)

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
