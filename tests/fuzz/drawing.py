"""Convert the bytes of a fuzzer to inputs of a target: chunks, texts, sentences of a language, and choices."""

import functools
import random

from fuzz.words import WORDS

LONGEST_SENTENCE = 300
"""Maximum number of words in a sentence, because what fails with many also fails with fewer."""

CLOSERS = {"(": ")", "[": "]", "{": "}"}


def splits(data):
    """Return the bytes after the first two, whole and split at the positions given by those two."""
    seed, whole = data[:2], data[2:]
    step, first = (1 + seed[0] % 17, seed[1] % 7) if len(seed) == 2 else (1, 0)
    return whole, [whole[:first], *(whole[at : at + step] for at in range(first, len(whole), step))]


def text_of(data):
    """Decode bytes as UTF-8 if they are valid, or else as Latin-1."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("latin-1")


def closed(text):
    """Return the text with matching brackets, ignoring strings and comments."""
    found, opened = [], []
    for character in text:
        if character in CLOSERS:
            opened.append(CLOSERS[character])
            found.append(character)
        elif character not in CLOSERS.values():
            found.append(character)
        elif opened:
            found.append(opened.pop())
    return "".join([*found, *reversed(opened)])


def sentence(name, data):
    """Convert bytes that begin with 255 to the words of a target's language with these numbers, with 254 also balanced.

    Few random bytes are valid text in a language. So most inputs of a fuzzer are converted, and are changed word by
    word. No text in UTF-8 begins with either byte.
    """
    if data[:1] not in (b"\xfe", b"\xff"):
        return data
    words = WORDS[name] or [""]
    text = "".join(words[number % len(words)] for number in data[1:LONGEST_SENTENCE])
    return (closed(text) if data[:1] == b"\xfe" else text).encode()


def worded(target):
    """Wrap a target so that it accepts bytes that encode words."""

    @functools.wraps(target)
    def taking(data):
        target(sentence(target.__name__, data))

    return taking


class Chosen(random.Random):
    """Random choices determined by bytes, and always the same ones after the bytes end."""

    def __init__(self, data):
        super().__init__(0)
        self.rest = list(reversed(data))

    def getrandbits(self, count):
        size = (count + 7) // 8
        if len(self.rest) < size:
            return super().getrandbits(count)
        number = int.from_bytes(bytes(self.rest.pop() for _ in range(size)), "little")
        return number & ((1 << count) - 1)

    def random(self):
        return self.getrandbits(8) / 256
