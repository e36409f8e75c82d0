"""The limits on printed values that requests and sessions set."""

from __future__ import annotations

from .sensitive_texts import check_sensitive_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .connections import Message
    from .jobs import Job, Session

OPTION_PREFIX = "nrepl.middleware.print/"
"""The prefix of print options in a request. Source: nREPL, print middleware."""
OPTIONS_FIELD = OPTION_PREFIX + "options"
QUOTA_FIELD = OPTION_PREFIX + "quota"
"""The field with the maximum size of a printed value."""


def add_print_limits(message: Message, session: Session) -> Message:
    """Add the session's print limits to a request. A request with `for-session` changes the session's limits."""
    options = message.get(OPTIONS_FIELD)
    if message["op"] == "eval" and options is None and QUOTA_FIELD not in message:
        return {**session.print_fields, **message}
    if isinstance(options, dict) and options.get("for-session"):
        session.print_fields = {OPTIONS_FIELD: options, QUOTA_FIELD: message.get(QUOTA_FIELD)}
    return message


def print_limits(job: Job) -> tuple[int | None, int | None]:
    """Return the maximum length and depth from the request or its defaults. None means no limit."""
    return _limit(job, "print-length", "default-length"), _limit(job, "print-level", "default-level")


def requested_print_limits(job: Job) -> tuple[int | None, int | None]:
    """Return the length and depth that the caller explicitly requested. These override the user's settings."""
    return _limit(job, "print-length"), _limit(job, "print-level")


def _limit(job: Job, *names: str) -> int | None:
    options = job.message.get(OPTIONS_FIELD)
    found = [options.get(name) for name in names] if isinstance(options, dict) else []
    return next((given for given in found if isinstance(given, int) and given > 0), None)


def send_value(job: Job, text: str, namespace: str, *, cut: str = "", is_cut: bool = False) -> None:
    """Send a printed value, truncated to the request's quota. `cut` describes what print limits omitted."""
    check_sensitive_values()
    quota = job.message.get(QUOTA_FIELD)
    if isinstance(quota, int) and quota > 0 and len(raw := text[: quota + 1].encode("utf-8", "replace")) > quota:
        text, is_cut = raw[:quota].decode("utf-8", "ignore"), True
    fields: dict[str, object] = {"value": text, "ns": namespace}
    if is_cut:
        fields["status"] = [OPTION_PREFIX + "truncated"]
    if cut:
        fields["codriver/cut"] = cut
    job.send_soon(fields)
