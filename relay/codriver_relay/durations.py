"""The relay's time limits, which are passed to each part that waits.

`CODRIVER_RELAY_DURATIONS` overrides them by name, such as `answers_s=0.2 retry_s=0.05`, for the relay's tests.
"""

from __future__ import annotations

import os

DURATIONS_VARIABLE = "CODRIVER_RELAY_DURATIONS"
"""The environment variable that overrides the durations in `Durations`."""
GIVE_UP_VARIABLE = "CODRIVER_RELAY_GIVE_UP_S"
"""The environment variable with the number of seconds after which the relay gives up on connecting."""


class WrongDurationError(Exception):
    """Raised when an environment variable is not a valid duration.

    The message names the variable and does not end with a period.
    """


class Durations:
    """The relay's time limits in seconds.

    `given` overrides the defaults, for example "retry_s=0.1 connect_s=2".

    Raises:
        WrongDurationError: `given` has an unknown name or an invalid number.
    """

    retry_s = 0.25
    """Time between a failed attempt to connect and the next one."""
    give_up_s = 60.0
    """Time from the first attempt until all waiting requests are answered with the reason why there is no server."""
    absent_s = 2.0
    """Replaces `give_up_s` if no server is running and the relay must not start one. Somebody else may be starting one.
    """
    silent_s = 20.0
    """Replaces `give_up_s` for a server whose process is running but does not answer. Some clients give up after 30
    s."""
    connect_s = 5.0
    """Time limit for one attempt to connect."""
    handshake_s = 10.0
    """Time limit for the reply to a repeated `initialize`. A server that is not stuck takes milliseconds."""
    answers_s = 5.0
    """Time limit for replies after the end of stdin. It starts again whenever progress is made."""
    goodbye_s = 1.0
    """Time limit for the server to close the connection after all requests were answered."""
    settled_s = 1.0
    """Time after which a connection counts as working and `give_up_s` starts again. Received data has the same
    effect."""
    start_grace_s = 5.0
    """Time for a server to appear after the start command has ended. Another server may have been starting already."""
    roots_s = 10.0
    """Time limit for a client to name its roots. Some clients never answer, and others ask their user first."""

    def __init__(self, given: str = "") -> None:
        for word in given.split():
            name, _, value = word.partition("=")
            if not name.endswith("_s") or not hasattr(Durations, name):
                raise WrongDurationError(f"{DURATIONS_VARIABLE} contains {word}, which does not set a known duration")
            setattr(self, name, parse_seconds(value, DURATIONS_VARIABLE))


def from_environment() -> Durations:
    """Return the time limits with the overrides from environment variables.

    Raises:
        WrongDurationError: a variable is invalid.
    """
    durations = Durations(os.environ.get(DURATIONS_VARIABLE, ""))
    given = os.environ.get(GIVE_UP_VARIABLE)
    if given is not None:
        durations.give_up_s = parse_seconds(given, GIVE_UP_VARIABLE)
    return durations


def parse_seconds(text: str, variable: str) -> float:
    """Parse a number of seconds. `variable` is the name of the environment variable, for the error message.

    Raises:
        WrongDurationError: `text` is not a number.
    """
    try:
        return float(text)
    except ValueError:
        raise WrongDurationError(f"{variable} must be a number of seconds") from None
