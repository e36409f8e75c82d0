"""Images within the texts of an answer: `data:` URIs of pictures, which a client gets as content of their own."""

from __future__ import annotations

import re

from codriver.tools.base import Image

IMAGE = re.compile(r"data:(image/[a-z0-9.+-]+);base64,([A-Za-z0-9+/]+={0,2})")


class Images:
    """Takes the images out of the texts of one answer, and leaves a mark in the place of each.

    Up to `most` of them are `taken`. The mark of any other says what it is and, in the words of `way`, how to get it:
    base64 in a text is of no use to who reads it, and long.
    """

    def __init__(self, most: int, way: str) -> None:
        self._most = most
        self._way = way
        self._seen = 0
        self.taken: list[Image] = []

    def out_of(self, text: str) -> str:
        """The text with a mark for each image, numbered through all texts."""
        return IMAGE.sub(self._mark, text) if "data:image/" in text else text

    def out_of_json(self, value: object) -> object:
        """The JSON value with the images taken out of all its texts."""
        if isinstance(value, str):
            return self.out_of(value)
        if isinstance(value, list | tuple):
            return [self.out_of_json(item) for item in value]
        if isinstance(value, dict):
            return {key: self.out_of_json(item) for key, item in value.items()}
        return value

    def _mark(self, match: re.Match[str]) -> str:
        self._seen += 1
        mime_type, data = match[1], match[2]
        if len(self.taken) < self._most:
            self.taken.append(Image(data, mime_type))
            return f"<<image-{self._seen}>>"
        kilobytes = -(-len(data) * 3 // 4 // 1024)
        return f"<<image-{self._seen} left out: {mime_type}, {kilobytes} KB; {self._way}>>"
