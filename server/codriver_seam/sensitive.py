"""Texts that stand, or lately stood, at the sensitive paths of the application's frames: for whoever takes them out."""

from __future__ import annotations

import contextlib

from .recording import is_reading, seam

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .frames import Frame
    from .recording import Json


def look() -> None:
    """Note what stands at sensitive paths now, before anything is told of it. It is no event, and never fails."""
    if is_reading.get():
        return  # a getter that prints would have us look again, and again
    token = is_reading.set(True)
    try:
        for one in _frames():
            # A getter that fails says so when it is asked.
            with contextlib.suppress(Exception):
                one.look()
    finally:
        is_reading.reset(token)


def secrets() -> list[str]:
    """The texts at sensitive paths, now and lately, the longest first."""
    found: dict[str, None] = {}
    for one in _frames():
        with contextlib.suppress(Exception):
            one.look()
        found.update(dict.fromkeys(tuple(one.secrets)))
    return sorted(found, key=len, reverse=True)


def sensitive_texts(known: int) -> tuple[int, list[tuple[str, str]]]:
    """The version of what was seen at sensitive paths, and all of it with names, unless that version is known.

    It only reads what is kept: no getter runs.
    """
    version = seam.sensitive_version
    if version == known:
        return version, []
    return version, [(f"{one.name} {path}", text) for one in _frames() for text, path in one.secrets.copy().items()]


def sensitive(_asked: Json) -> Json:
    """All that stands or lately stood at sensitive paths, with names: for the redactor of who asks, and no answer."""
    secrets()
    return {"texts": sensitive_texts(-1)[1]}


def _frames() -> list[Frame]:
    return [one for one in tuple(seam.frames.values()) if one.sensitive]
