"""The history: the code evaluated in this workspace, over all runs of its servers.

It is kept in a transit file, `{:format-version 1 :entities [...]}`, that is only ever replaced as a whole. Replacing it
for every entry gets expensive as it grows, so a file that is no longer small has a journal beside it: new entries are
appended there, one line of JSON each, and move into the file when the journal has grown as long, when things are quiet,
and at the end. A third small file holds the line up to which the log may count, ahead of what it has given.

The promise: `kill -9` at any moment loses at most what was added in the last 500 ms, and never a line number's being
unique. This is the only door to transit.

What is held is bounded in number and in bytes, in memory, on disk, and while a file is read that is larger.
"""

from codriver.log.history.history import History, Loaded, remembered
from codriver.log.history.numbering import LOST_LINES, RESERVED_LINES
from codriver.log.history.transit_format import (
    NewerFormatError,
    UnreadableError,
    read_transit,
    to_transit,
)

__all__ = [
    "LOST_LINES",
    "RESERVED_LINES",
    "History",
    "Loaded",
    "NewerFormatError",
    "UnreadableError",
    "read_transit",
    "remembered",
    "to_transit",
]
