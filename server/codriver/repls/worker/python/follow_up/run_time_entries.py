"""Keep what was added to a collection at run time when a load fills the collection again."""

from __future__ import annotations

import re
import sys

from ..effects.pure_calls import is_registry_class
from ..registry_entries import COLLECTION_TYPES, entry_key, named_collections, remember_entries
from ..shared_registries import definition_key, definitions_in, unwrap
from ..statements import names_bound_by
from ..stored_attributes import instance_dict_of, module_dict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ..module_text import Text
    from ..registry_entries import Entries

RETAINED_ATTRIBUTES = ("dependency_overrides",)
"""Attributes of applications whose entries do not depend on other attributes. Source: FastAPI's documentation."""
MAX_RETAINED = 200
"""Maximum number of entries in one collection that are added again."""


class RunTimeEntries:
    """Finds the entries that are missing from collections after a load, and that no import has added.

    An entry is added again if the statement that creates the collection has not been edited. Otherwise, the collection
    has the contents that the file gives it, and `lost` has its module, its name, and the number of missing entries.
    """

    def __init__(self, followers: Any) -> None:
        self._followers = followers
        self._replaced: dict[tuple[int, str], tuple[Any, Any]] = {}
        self._known = {name: load.left.entries for name, load in followers.sources.loads.items()}
        self._before: dict[str, Entries] = {}
        self._now: dict[str, Entries] = {}
        self.lost: list[tuple[str, str, int]] = []

    def remember_module(self, name: str) -> None:
        """Store the entries of a module's collections before they change."""
        if name not in self._before:
            self._before[name] = remember_entries(module_dict(sys.modules[name]))

    def record(self, owner: Any, attribute: str, before: Any) -> None:
        """Record the contents of a collection before it is filled again. It may be an attribute of an object."""
        if type(before) in COLLECTION_TYPES and before:
            self._replaced.setdefault((id(owner), attribute), (owner, before.copy()))

    def settle(self) -> None:
        """Add entries again. Call this at the end of a load."""
        replaced, self._replaced = self._replaced, {}
        found: dict[int, tuple[Any, Any]] = {}
        for (_, attribute), (owner, before) in replaced.items():
            now = (instance_dict_of(owner) or {}).get(attribute) if attribute else owner
            if type(now) is type(before):
                found[id(now)] = now, before
        for text, name in self._named(found) if found else ():
            value, before = found[id(self._value(text, name))]
            self._now.setdefault(text.name, {})[name] = frozenset(map(entry_key, value))
            known = self._known.get(text.name, {}).get(name)
            missing = [key for key in before if not _contains(value, key)]
            if known is None or not missing:
                continue
            words = self._import_words(text, name)
            added = [key for key in missing if entry_key(key) not in known and not _is_imported(before, key, words)]
            home, _, attribute = name.partition(".")
            is_application = is_registry_class(type(text.space.get(home))) and attribute not in RETAINED_ATTRIBUTES
            if added and (is_application or self._is_edited(text, name)):
                self.lost.append((text.name, name, len(added)))
            elif added:
                _add(value, before, added[:MAX_RETAINED])

    @staticmethod
    def _value(text: Text, name: str) -> Any:
        """Return the collection with a dotted name in a module."""
        return dict(named_collections(text.space)).get(name)

    def update_records(self) -> None:
        """Remove entries that were added at run time from the records of the loaded modules."""
        for name, entries in self._before.items():
            load = self._followers.sources.loads.get(name)
            if load is not None and name in self._known:
                load.left.forget_entries(entries, self._known[name])
        for name, entries in self._now.items():
            if name in self._followers.sources.loads:
                self._followers.sources.loads[name].left.entries.update(entries)

    def _named(self, collections_by_id: dict[int, Any]) -> Iterator[tuple[Text, str]]:
        """Yield the modules and names of the collections with these ids."""
        found: set[int] = set()
        for module in [*self._followers.sources.loads]:
            for name, value in named_collections(module_dict(sys.modules[module])) if module in sys.modules else ():
                if id(value) not in collections_by_id or id(value) in found:
                    continue
                text = self._followers.sources.source_of_module(module)
                if text is not None and self._followers.rebuilds.binds_name(text, name.partition(".")[0]):
                    found.add(id(value))
                    yield text, name

    def _import_words(self, text: Text, name: str) -> set[str]:
        """Return the words in the statements that fill a collection when modules are imported."""
        chain = self._followers.rebuilds.statement_chain(text, name.partition(".")[0])
        old = self._followers.sources.old_text
        words = {word for owner, top in chain for word in owner.statement_words[top]}
        changed = [change.old.node for change in self._followers.changed_statements if change.old is not None]
        words.update(word for each in self._followers.text.statement_words for word in each)
        tops = [top for top, node in enumerate(old.body) if any(node is each for each in changed)]
        return words.union(*(old.statement_words[top] for top in tops))

    def _is_edited(self, text: Text, name: str) -> bool:
        """Return whether the edit has changed the statement that creates a collection."""
        first = name.partition(".")[0]
        if text.name != self._followers.name:
            return False
        changed = [change.new.node for change in self._followers.changed_statements if change.new is not None]
        creates = any(any(node is each for each in text.body) and first in names_bound_by(node) for node in changed)
        return creates or name in self._followers.edited_names


def _contains(collection: Any, key: Any) -> bool:
    if isinstance(collection, (dict, set)):
        return key in collection
    return any(item is key for item in collection)


def _is_imported(before: Any, key: Any, words: set[str]) -> bool:
    """Return whether a statement that runs during an import may have added an entry."""
    item = before[key] if isinstance(before, dict) else key
    names = {definition_key(each)[1].partition(".")[0] for part in definitions_in(item) for each in unwrap(part)}
    strings = {part for value in (key, item) if type(value) is str for part in re.findall(r"\w+", value)}
    return not words.isdisjoint(names | strings)


def _add(value: Any, before: Any, keys: list[Any]) -> None:
    """Add entries to a collection again."""
    if isinstance(value, dict):
        value.update((key, before[key]) for key in keys)
    elif isinstance(value, set):
        value.update(keys)
    else:
        value.extend(keys)
