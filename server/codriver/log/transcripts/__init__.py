"""Transcripts of evaluations: values, output and error output as text, while they run and afterwards.

Short texts are in memory. Of long ones the newest part is, and the rest lies in files that end with the server.
"""

from codriver.log.transcripts.store import SpillRoom, Store
from codriver.log.transcripts.text import Piece, Stream, Text
from codriver.log.transcripts.transcript import Part, Transcript, Transcripts, read
from codriver.log.transcripts.truncation import Cut, head, tail

__all__ = [
    "Cut",
    "Part",
    "Piece",
    "SpillRoom",
    "Store",
    "Stream",
    "Text",
    "Transcript",
    "Transcripts",
    "head",
    "read",
    "tail",
]
