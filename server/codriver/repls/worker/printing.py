"""Printed values: shortened to the limits that a request names, and told within its quota."""

from __future__ import annotations

import collections
import itertools

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .jobs import Job

OPTION = "nrepl.middleware.print/"
BRACKETS: dict[type, tuple[str, str]] = {
    list: ("[", "]"),
    tuple: ("(", ")"),
    set: ("{", "}"),
    dict: ("{", "}"),
    frozenset: ("frozenset({", "})"),
    collections.deque: ("deque([", "])"),
}


def tell(job: Job, text: str, namespace: str, *, is_cut: bool = False) -> None:
    """Send a printed value, within the quota of bytes that the request names."""
    quota = job.message.get(OPTION + "quota")
    if isinstance(quota, int) and quota > 0 and len(raw := text[: quota + 1].encode("utf-8", "replace")) > quota:
        text, is_cut = raw[:quota].decode("utf-8", "ignore"), True
    job.tell({"value": text, "ns": namespace, **({"status": [OPTION + "truncated"]} if is_cut else {})})


def limits(job: Job) -> tuple[int | None, int | None]:
    """The length and depth that values are printed to, None for no limit."""
    options = job.message.get(OPTION + "options")

    def limit(name: str) -> int | None:
        given = options.get(name) if isinstance(options, dict) else None
        return given if isinstance(given, int) and given > 0 else None

    return limit("print-length"), limit("print-level")


def shorten(value: Any, length: int | None, depth: int | None, around: tuple[int, ...] = ()) -> str:
    """`repr` that shows at most `length` items of each collection, nested at most `depth` deep."""
    kind = type(value)
    if kind not in BRACKETS or not value:
        return repr(value)
    before, after = BRACKETS[kind]
    if id(value) in around or (depth is not None and len(around) >= depth):
        return before + "..." + after
    around = (*around, id(value))
    shown = list(itertools.islice(value.items() if kind is dict else value, length))
    if kind is dict:
        texts = [shorten(key, length, depth, around) + ": " + shorten(one, length, depth, around) for key, one in shown]
    else:
        texts = [shorten(one, length, depth, around) for one in shown]
    if len(value) > len(shown):
        texts.append("...")
    elif kind is tuple and len(texts) == 1:
        texts[0] += ","
    return before + ", ".join(texts) + after
