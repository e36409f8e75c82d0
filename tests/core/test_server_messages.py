"""What the server tells of itself, and what its clients are notified of."""

import pytest

from codriver.core.actions import EvaluationsReported, ResourcesChanged, ToolsChanged
from codriver.core.dispatch import NotifyClients
from codriver.core.handlers import HANDLERS
from codriver.core.state import State


def after(action, state=None):
    return HANDLERS[type(action)](state or State(), action)


@pytest.mark.parametrize(("action", "changed"), [(ResourcesChanged(), "resources"), (ToolsChanged(), "tools")])
def test_clients_are_notified_of_a_list_that_changed(action, changed):
    outcome = after(action)
    assert outcome.effects == (NotifyClients(changed=changed),)
    assert outcome.state == State()


def test_what_a_client_that_is_gone_was_told_is_not_kept():
    assert after(EvaluationsReported("c1", "ann")).state == State()
