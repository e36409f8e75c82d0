"""Messages of the server about itself, and notifications of its clients."""

import pytest

from codriver.core.actions import EvaluationsReported, ResourcesChanged, ToolsChanged
from codriver.core.effects import NotifyClients
from codriver.core.handlers import HANDLERS
from codriver.core.state import State


def after(action, state=None):
    return HANDLERS[type(action)](state or State(), action)


@pytest.mark.parametrize(("action", "changed"), [(ResourcesChanged(), "resources"), (ToolsChanged(), "tools")])
def test_clients_are_notified_of_a_changed_list(action, changed):
    outcome = after(action)
    assert outcome.effects == (NotifyClients(changed=changed),)
    assert outcome.state == State()


def test_reports_to_a_disconnected_client_are_not_stored():
    assert after(EvaluationsReported("c1", "ann")).state == State()
