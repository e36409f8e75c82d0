"""Move images out of the text of an answer, up to a maximum number and size."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codriver.core.images import DATA_URL_PATTERN, parse_image
from codriver.tools.calls.answer import Image
from codriver.tools.calls.client_traits import find_traits

if TYPE_CHECKING:
    import re
    from collections.abc import Callable

    from codriver.tools.calls.call import Call


MAX_TOTAL_BYTES = 4 * 2**20
"""Maximum total base64 size of the images in an answer. A model accepts at most 5 MB for one image."""


MAX_IMAGES = 100
"""Maximum number of images in an answer to Codriver's commands, whose readers are people."""


MAX_IMAGE_BYTES = 12 * 2**20
"""Maximum base64 size of an image that is requested by itself. A message may have 16 MiB."""


def image_collector(call: Call, requested: int, hint: str) -> Images:
    """Return a collector for as many images as the caller requested and the setting `maxImages` allows.

    `hint` describes how to get more images. The setting does not limit Codriver's commands.
    """
    if find_traits(call.client_name).wants_detail:
        return Images(min(requested, MAX_IMAGES), None, max_bytes=MAX_IMAGE_BYTES)
    allowed = call.services.live.settings.max_images
    text = hint if allowed else "the setting maxImages allows no images"
    return Images(min(requested, allowed), text, save=image_files(call))


def image_files(call: Call) -> Callable[[str, str], str | None] | None:
    """Return a function that saves an image as a file, or None if the client displays images to its model."""
    return None if find_traits(call.client_name).shows_images else call.services.image_files.save


class Images:
    """Removes images from the text of an answer and leaves a marker in place of each.

    Up to `most` images, with at most `max_bytes` bytes of base64 in total, are collected in `images`. If `number` is
    given, only the image with this number is collected. The markers of other images contain `hint`, which
    states how to get them. If `hint` is None, the markers are the ones from `codriver.core.images`, for programs.
    """

    def __init__(
        self,
        most: int,
        hint: str | None,
        *,
        max_bytes: int = MAX_TOTAL_BYTES,
        number: int | None = None,
        save: Callable[[str, str], str | None] | None = None,
    ) -> None:
        self._most = most
        self._hint = hint
        self._left_bytes = max_bytes
        self._number = number
        self._save = save
        """Function that saves an image as a file, for a client that displays none. The marker has the path."""
        self._marks: dict[str, str] = {}
        """Marker of each image by its data, so that an image displayed both as a figure and as a value counts once."""
        self.files: list[str] = []
        self.seen = 0
        self.images: list[Image] = []

    def remove_from_text(self, text: str) -> str:
        """Return the text with a marker in place of each image. Images are numbered across all texts."""
        return DATA_URL_PATTERN.sub(self._mark, text) if "data:image/" in text else text

    def remove_from_json(self, value: object) -> object:
        """Return the JSON value with the images in its strings replaced by markers."""
        if isinstance(value, str):
            return self.remove_from_text(value)
        if isinstance(value, list | tuple):
            return [self.remove_from_json(item) for item in value]
        if isinstance(value, dict):
            return {key: self.remove_from_json(item) for key, item in value.items()}
        return value

    def _mark(self, match: re.Match[str]) -> str:
        """Return the marker for a matched image. Equal images share a marker."""
        mime_type, data = match[1], match[2]
        if data not in self._marks:
            self.seen += 1
            self._marks[data] = self._new_mark(mime_type, data)
        return self._marks[data]

    def _new_mark(self, mime_type: str, data: str) -> str:
        """Collect an image if it was requested and fits, and return its marker."""
        is_requested = self._number in (None, self.seen) and len(self.images) + len(self.files) < self._most
        if is_requested and len(data) <= self._left_bytes:
            if self._save is not None:
                return self._save_as_file(mime_type, data)
            self._left_bytes -= len(data)
            self.images.append(Image(data, mime_type))
            return f"<<image-{self.seen}>>"
        if self._hint is None:
            return parse_image(mime_type, data).mark
        kilobytes = -(-len(data) * 3 // 4 // 1024)
        return f"<<image-{self.seen} left out: {mime_type}, {kilobytes} KB; {self._hint.format(number=self.seen)}>>"

    def _save_as_file(self, mime_type: str, data: str) -> str:
        """Save an image as a file and return a marker with the path."""
        path = self._save(mime_type, data) if self._save is not None else None
        if path is None:
            return f"<<image-{self.seen}: {mime_type}, which could not be saved as a file>>"
        self.files.append(path)
        return f"<<image-{self.seen}: {path}>>"
