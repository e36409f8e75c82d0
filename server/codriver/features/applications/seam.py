"""Access an application through its seam, the functions that expose its state in a REPL.

In Codriver's worker, the seam is an op. Everywhere else, it is called by evaluating code (see `seam_providers`). If no
application is found when the REPL connects, the search is repeated after code that may have loaded one. The end of this
code is reported after the search, so that the caller can use the application immediately.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import anyio

from codriver.core.actions import CapabilityFound
from codriver.core.profiles import Capability
from codriver.errors import CodriverError, ReplDisconnectedError
from codriver.features.applications import seam_providers
from codriver.features.applications.event_frames import FrameReader
from codriver.features.applications.seam_setup import SETUP_HINTS, UNSUPPORTED_LANGUAGE_HINT, seam_package_code
from codriver.features.applications.sensitive_values import learn_sensitive_values
from codriver.repls.contract.adapter import NO_ANSWER, CapabilityMissingError
from codriver.repls.contract.capabilities import ServerCapability
from codriver.repls.contract.companions import FollowUp
from codriver.repls.contract.events import FeatureReport, Output
from codriver.wire.untrusted import text_or_none

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from codriver.core.dispatch import Core
    from codriver.core.requests import Request
    from codriver.features.applications.seam_providers import FoundProvider
    from codriver.repls.contract.companions import EvaluationSteps, ReplAccess
    from codriver.repls.supervisor import ReplSupervisor

SEAM_CAPABILITY: Final = "seam"
"""The capability of a REPL whose application exposes its state through a seam.

The report with the seam's session id has the same name.
"""
SEAM_OP: Final = "codriver/seam"
"""The worker's op that calls the seam, and the field of the worker's messages that contains the seam's session id."""
CALL_SUBJECT: Final = "the application's seam"
"""The name for the seam in error messages about failed calls."""
SEARCH_TIMEOUT_S: Final = 1.0
"""Maximum time that an answer is delayed by a search for an application after the evaluation."""
NATIVE_CAPABILITY: Final = Capability(SEAM_OP)
CAPABILITY: Final = ServerCapability(SEAM_CAPABILITY, (), UNSUPPORTED_LANGUAGE_HINT, SETUP_HINTS)
"""The capability, with hints on how to add it to a REPL. An nREPL server has it only if its application has a seam."""
_REQUEST_READING_DIALECTS: Final = frozenset({"clojure", "hy", "python"})
"""The dialects in which an application can read the origin of a change from the request that caused it."""


class Seam:
    """Accesses the seam of the application in one REPL. It is a companion object of the REPL's adapter.

    A seam is the interface through which an application exposes its state and events to agents.
    """

    def __init__(self, access: ReplAccess, steps: EvaluationSteps) -> None:
        """Create an instance without querying the REPL. Use `attach` instead."""
        self._access = access
        self._steps = steps
        self._is_native = SEAM_OP in access.ops
        self._search = None if self._is_native else seam_providers.search_code(access.dialect)
        self._found: FoundProvider | None = None
        self._streams: dict[str, Callable[[], None]] = {}
        """The functions that end the event streams, by subscription id."""
        self.session_id: str | None = None
        """The session id of the application's seam, if it is known. A new id means a new process."""

    @classmethod
    async def attach(cls, access: ReplAccess, steps: EvaluationSteps) -> Seam:
        """Create the instance for a connected REPL, and search for an application. Never raises."""
        seam = cls(access, steps)
        if seam._is_native:
            seam.record_session_id(text_or_none(access.description.get(SEAM_OP)))
            return seam
        steps.loads.append(seam._with_package_code)
        if seam._search is not None:
            with suppress(CodriverError, ValueError), anyio.move_on_after(access.connect_timeout_s):
                await seam._find_application()
            steps.after.append(FollowUp(seam._may_have_appeared, seam._search_again))
        return seam

    @property
    def capabilities(self) -> Mapping[str, Capability]:
        """Return the capability that the seam adds to the REPL, once the application is known to have one."""
        return {} if self.session_id is None else {SEAM_CAPABILITY: self._support}

    @property
    def _support(self) -> Capability:
        return NATIVE_CAPABILITY if self._found is None else Capability(self._found.provider.name, adapted=True)

    def record_session_id(self, session_id: str | None) -> None:
        """Record the session id of the seam. From then on, evaluations identify their callers to the application."""
        if session_id is not None and self.session_id is None and self._reads_requests:
            self._steps.fields.append(_origin_fields)
        self.session_id = session_id or self.session_id

    async def call(self, accessor: str, arguments: str) -> str:
        """Call an accessor of the seam with JSON arguments, and return the result as JSON.

        Accessors only read, and can be called while other code is running.

        Raises:
            CapabilityMissingError: no application has installed a seam.
            EvaluationFailedError: the call failed.
        """
        if self._is_native:
            answer = await self._access.call_op(SEAM_OP, {"name": accessor, "args": arguments})
            if answer == NO_ANSWER:
                raise self._missing()
            return answer
        if self._found is None:
            await self._find_application()
        if self._found is None:
            raise self._missing()
        if refused := seam_providers.accessor_refusal(self._found.provider, accessor, self._found.lacking):
            return json.dumps(refused)
        provider, parsed = self._found.provider, json.loads(arguments)
        code = seam_providers.accessor_code(provider, self._access.dialect, accessor, parsed)
        if accessor == "subscribe":
            return await self._subscribe(code)
        answer = seam_providers.read_answer(provider, accessor, await self._access.evaluate(code, what=CALL_SUBJECT))
        for identity in seam_providers.finished_subscriptions(accessor, parsed, json.loads(answer), self._streams):
            self._streams.pop(identity)()
        return answer

    async def _subscribe(self, code: str) -> str:
        """Subscribe to events by evaluating a form. From then on, the form's output contains the frames of events."""
        frames = FrameReader()

        def receive(text: str) -> None:
            for found in frames.feed(text):
                self._access.listener(None, Output("out", found) if isinstance(found, str) else found)

        answer, end = await self._access.stream(code, what=CALL_SUBJECT, on_output=receive)
        identity = json.loads(answer).get("subId")
        frames.subscription = identity
        if identity is None:
            end()
        else:
            self._streams[identity] = end
        return answer

    async def _find_application(self) -> None:
        """Search for an application that has installed a seam. Do nothing if the REPL is busy.

        Raises:
            EvaluationFailedError: the search failed.
        """
        if self._search is None or self._access.is_busy:
            return
        answer = await self._access.evaluate(self._search, what="the search for an application")
        self._found = seam_providers.select_provider(self._access.dialect, json.loads(answer))
        if self._found is None:
            return
        if seam_providers.reports_sensitive_values(self._found.provider):
            self._steps.before.append(self._learn_sensitive)
        self.record_session_id(self._found.session_id)
        self._access.listener(None, FeatureReport(SEAM_CAPABILITY, self._found.session_id))

    def _may_have_appeared(self, request: Request) -> bool:
        """Return whether a request may have loaded an application, if none is known yet.

        This is always assumed for requests to load a file.
        """
        if self._found is not None:
            return False
        return request.kind != "evaluate" or seam_providers.may_load_application(self._access.dialect, request.code)

    async def _search_again(self) -> None:
        """Search for an application again. Never raises."""
        with suppress(CodriverError, ValueError), anyio.move_on_after(SEARCH_TIMEOUT_S):
            await self._find_application()

    async def _learn_sensitive(self) -> None:
        """Query the values at sensitive paths before running code that may display them. Never raises."""
        if not self._access.is_busy:
            await learn_sensitive_values(self.call, self._access.listener)

    def _with_package_code(self, request: Request) -> Request:
        """Replace a request to load the seam's package by an evaluation, if the REPL cannot load Python files."""
        code = seam_package_code(self._access.dialect, request.file)
        return request if code is None else replace(request, code=code, forms=(), file=None, kind="evaluate")

    @property
    def _reads_requests(self) -> bool:
        if self._found is None:
            return self._is_native
        return self._access.dialect in _REQUEST_READING_DIALECTS and seam_providers.reports_sensitive_values(
            self._found.provider
        )

    def _missing(self) -> CapabilityMissingError:
        return CapabilityMissingError(SEAM_CAPABILITY, CAPABILITY.hint_for(self._access.dialect))


def _origin_fields(request: Request) -> Mapping[str, Any]:
    """Return the request field by which the application can identify the caller."""
    return {"codriver/origin": {"who": request.who, "evaluation": request.id}} if request.who else {}


def require_seam(repls: ReplSupervisor, repl: str) -> Seam:
    """Return the seam of a connected REPL.

    Raises:
        ReplDisconnectedError: the REPL is not connected.
        CapabilityMissingError: the REPL's adapter does not support companions.
    """
    adapter = repls.adapter(repl)
    seam = adapter.companion(Seam)
    if seam is None:
        raise CapabilityMissingError(SEAM_CAPABILITY, CAPABILITY.hint_for(adapter.profile.dialect))
    return seam


class SeamSessions:
    """Records the session id that the seam in each REPL reports."""

    def __init__(self, core: Core, repls: ReplSupervisor) -> None:
        self._core = core
        self._repls = repls

    def receive(self, repl_id: str, _evaluation: str | None, session_id: str) -> None:
        """Record that the application in a REPL has a seam.

        Codriver's worker reports the session id at the end of each evaluation.
        """
        repl = self._core.state.repls.get(repl_id)
        if repl is None or repl.profile is None:
            return
        try:
            seam = require_seam(self._repls, repl_id)
        except (CapabilityMissingError, ReplDisconnectedError):
            return
        is_known = SEAM_CAPABILITY in repl.profile.capabilities and seam.session_id == session_id
        seam.record_session_id(session_id)
        if not is_known:
            self._core.report(CapabilityFound(repl_id, SEAM_CAPABILITY, seam.capabilities[SEAM_CAPABILITY]))

    def current_session_id(self, repl_id: str) -> str | None:
        """Return the session id of the application in a REPL.

        Return None if there is no application or the REPL is not connected.
        """
        try:
            return require_seam(self._repls, repl_id).session_id
        except (CapabilityMissingError, ReplDisconnectedError):
            return None
