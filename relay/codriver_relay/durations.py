"""The durations that the relay waits: one record, handed to each part that waits.

`CODRIVER_RELAY_DURATIONS` gives others by name, such as `answers_s=0.2 retry_s=0.05`, for tests of the relay.
"""

from __future__ import annotations

import os

GIVEN = "CODRIVER_RELAY_DURATIONS"
GIVE_UP = "CODRIVER_RELAY_GIVE_UP_S"


class WrongDurationError(Exception):
    """A variable of ours gives no duration. The text names the variable, without a full stop."""


class Durations:
    """The waits of the relay, in seconds, with those that `given` names in place of its own. Once made, they stay.

    Raises:
        WrongDurationError: `given` has an unknown name, or no number.
    """

    retry_s = 0.25
    """From an attempt that failed to the next one."""
    give_up_s = 60.0
    """From the first attempt until all waiting requests are told why there is no server."""
    absent_s = 2.0
    """The same where no server runs and none may be started: somebody may be starting one at this moment."""
    silent_s = 20.0
    """The same for a server whose process lives and does not answer: some clients give up after 30."""
    connect_s = 5.0
    """For one attempt to connect."""
    handshake_s = 10.0
    """A server answers `initialize` in milliseconds; one that takes longer than this is stuck."""
    answers_s = 5.0
    """The wait for answers after the end of stdin, counted anew at each step of progress."""
    goodbye_s = 1.0
    """The time for the server to end the connection when everything is answered."""
    settled_s = 1.0
    """The life after which a connection counts as real, as also after any bytes: the time to give up starts anew."""
    start_grace_s = 5.0
    """The time to go on after the started command ended: it may have met a server that was just starting."""
    roots_s = 10.0
    """The time for a client to name its roots. Some never answer; others ask their user first."""

    def __init__(self, given: str = "") -> None:
        for word in given.split():
            name, _, value = word.partition("=")
            if not name.endswith("_s") or not hasattr(Durations, name):
                raise WrongDurationError(f"{GIVEN} names no duration by {word}")
            setattr(self, name, seconds(value, GIVEN))


def from_environment() -> Durations:
    """Return the durations that this user's variables give.

    Raises:
        WrongDurationError: a variable gives none.
    """
    durations = Durations(os.environ.get(GIVEN, ""))
    given = os.environ.get(GIVE_UP)
    if given is not None:
        durations.give_up_s = seconds(given, GIVE_UP)
    return durations


def seconds(text: str, variable: str) -> float:
    """Return the number of seconds in the text of a variable.

    Raises:
        WrongDurationError: the text is no number.
    """
    try:
        return float(text)
    except ValueError:
        raise WrongDurationError(f"{variable} is no number of seconds") from None
