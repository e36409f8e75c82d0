"""Log lines about refused peers: one per minute for each reason."""

import logging

from codriver.net.refusal_log import MIN_MESSAGE_INTERVAL_S, RefusalLog


def test_refusals_are_logged_once_a_minute_and_counted_in_between(caplog):
    now = [0.0]
    refusals = RefusalLog(logging.getLogger("refusals"), clock=lambda: now[0])
    for _ in range(1000):
        refusals.log_refusal("no token")
        refusals.log_refusal("no JSON")
    now[0] = MIN_MESSAGE_INTERVAL_S
    refusals.log_refusal("no token")
    refusals.log_refusal("no token")
    assert [record.getMessage() for record in caplog.records] == [
        "no token",
        "no JSON",
        "no token (and 999 more since the last such message)",
    ]
