"""Answers of a server checked: that the REPL can what is asked, that it did not fail, and the data of our own code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codriver.core.values import Capability, Failure
from codriver.repls.contract.errors import CapabilityMissingError, EvaluationFailedError
from codriver.repls.nrepl.failures import read_failure
from codriver.repls.nrepl.responses import Reply

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codriver.core.values import Profile
    from codriver.repls.dialects.server_dialect import Dialect
    from codriver.repls.nrepl.message import Message


def require(profile: Profile, capability: str) -> Capability:
    """The REPL's support of `capability`.

    Raises:
        CapabilityMissingError: not at all.
    """
    if (support := profile.capabilities.get(capability)) is None:
        raise CapabilityMissingError(capability, profile.missing.get(capability))
    return support


def read_data(what: str, answer: Sequence[Message], dialect: Dialect) -> object:
    """The data that an answer to our own code gives.

    Raises:
        EvaluationFailedError: the code failed, or what it printed is no data.
    """
    check(what, answer, dialect)
    printed = [value for message in answer if (value := message.text("value")) is not None]
    try:
        return dialect.read(printed[-1]) if printed else None
    except (ValueError, SyntaxError) as error:
        shown = printed[-1][:200]
        fault = Failure("unreadable", f"the REPL printed {shown!r} where JSON was expected")
        raise EvaluationFailedError(what, fault) from error


def check(what: str, answer: Sequence[Message], dialect: Dialect) -> None:
    """Refuse an answer that says that it failed.

    Raises:
        EvaluationFailedError: it says so.
    """
    if not any(message.is_failed for message in answer):
        return
    reply = Reply(None, lambda _evaluation, _event: None)
    for message in answer:
        reply.take(message)
    raise EvaluationFailedError(what, read_failure(reply.failure, dialect))
