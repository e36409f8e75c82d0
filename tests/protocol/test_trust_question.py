"""Only Pythons lead to the question whether the project's own interpreter may run."""

import json
from types import MappingProxyType, SimpleNamespace

import anyio
import anyio.lowlevel
import pytest
from all_tools import BY_NAME

from codriver.core.dispatch import Core
from codriver.core.effects import EFFECTS
from codriver.core.handlers import HANDLERS
from codriver.core.profiles import Profile
from codriver.core.state import Lifecycle, Origin, Repl, State
from codriver.net.client_sessions import ClientSession
from codriver.net.outbox import Outbox
from codriver.protocol.trust_question import ELICIT_METHOD, TrustDecisions
from codriver.settings.interpreter_grants import InterpreterGrants
from codriver.settings.model import Settings


def standing_in(*dialects):
    """Return a core whose untrusted workspace has these REPLs, which do not run project code."""
    repls = {
        f"process:{dialect}": Repl(
            f"process:{dialect}", dialect, Origin("process", dialect), phase="connected", generation=1,
            awaits_trust=True, profile=Profile(dialect=dialect, capabilities={}),
        )
        for dialect in dialects
    }  # fmt: skip
    state = State(lifecycle=Lifecycle(phase="started", session_id="abcdef"), repls=MappingProxyType(repls))
    effects = dict.fromkeys(EFFECTS, lambda _: None)
    return Core(state=state, settings=Settings(), now=lambda: 0, handlers=HANDLERS, performers=lambda _: effects)


@pytest.mark.anyio
@pytest.mark.parametrize("dialect", ["clojure", "nbb", "hy"])
async def test_permission_for_another_language_is_requested_only_if_python_replaces_its_repl(tmp_path, dialect):
    outbox = Outbox(max_notifications=10, max_notification_bytes=10_000, congested_bytes=10_000)
    session = ClientSession("c1", outbox)
    session.name = "a-client"
    grants = InterpreterGrants(tmp_path, lambda: "/there/python")
    services = SimpleNamespace(core=standing_in(dialect), grants=grants, durations=SimpleNamespace(question_s=600))
    questions = TrustDecisions(services)
    evaluating = BY_NAME["evaluate_code"]
    questions.request_if_needed(session, evaluating)
    services.core = standing_in(dialect, "python")
    questions.request_if_needed(session, evaluating)
    questions.request_if_needed(session, evaluating)
    with anyio.fail_after(60):
        while not (text := outbox.pop_batch()):
            await anyio.lowlevel.checkpoint()
    (question,) = map(json.loads, text.splitlines())
    assert question["method"] == ELICIT_METHOD
    assert "/there/python" in question["params"]["message"]
    await questions.stop()
    assert not outbox.pop_batch()
