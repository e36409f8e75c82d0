"""A small application, and queries to its seam."""

import json

import codriver_seam as seam

TOKEN = "s3cr3t-token-of-ada"
START = {"count": 0, "user": {"name": "Ada", "token": TOKEN}, "orders": []}


class Shop:
    """An application whose state is replaced and never changed in place."""

    def __init__(self):
        self.state = START
        self.queue = []

    def handle(self, event):
        name, *rest = event
        if name == "add":
            self.state = {**self.state, "count": self.state["count"] + rest[0]}
        elif name == "half":
            self.state = {**self.state, "count": -1}
            raise ValueError(f"no stock for {self.state['user']['token']}")
        elif name == "swallow":
            self.state = {**self.state, "count": -2}
            seam.emit("error", "orders", message="swallowed")
        else:
            raise LookupError(name)

    def check(self, value):
        return None if isinstance(value, dict) and "count" in value else f"no count in {value}"

    def put(self, value):
        self.state = value


def query(name, origin=None, **arguments):
    return json.loads(seam.call(name, json.dumps(arguments), json.dumps(origin)))


REASONS = {
    "no-such-accessor", "accessor-failed", "no-frame-resolved", "ambiguous-frame", "no-such-frame", "path-not-found",
    "no-such-epoch", "band-missing", "read-only-frame", "no-dispatch", "not-an-event-vector", "handler-failed",
    "during-drain", "unknown-epoch", "non-ok-record", "schema-mismatch", "missing-handler", "version-mismatch",
    "no-such-predicate", "unknown-topic", "too-many-subscriptions", "not-enabled", "capability-missing",
}  # fmt: skip
"""The closed list of reasons for refusals."""


def refused(name, reason, **arguments):
    answer = query(name, **arguments)
    assert (answer["ok"], answer["reason"]) == (False, reason), answer
    assert answer["reason"] in REASONS
    assert answer["hint"]
    return answer
