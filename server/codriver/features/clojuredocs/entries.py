"""ClojureDocs entries, and queries for them with cider-nrepl."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Final

from codriver.repls.contract.capabilities import ServerCapability
from codriver.repls.contract.queries import Query
from codriver.repls.nrepl.probe import CIDER_HINT
from codriver.wire.untrusted import mapping_or_empty, strings_or_empty, text_or_none

if TYPE_CHECKING:
    from collections.abc import Mapping

_REQUIRES_CIDER: Final = f"{CIDER_HINT}. Without it, clojuredocs_info reads the public export"
CLOJUREDOCS_CAPABILITY: Final = ServerCapability(
    "clojuredocs",
    ("clojuredocs-lookup", "cider/clojuredocs-lookup"),
    missing="ClojureDocs covers only Clojure. For names that Clojure has too, clojuredocs_info reads the public export",
    missing_by_dialect=MappingProxyType({"clojure": _REQUIRES_CIDER, "unknown": _REQUIRES_CIDER}),
)
"""The capability to look up ClojureDocs entries through cider-nrepl, with hints for REPLs without it.

Source: cider-nrepl documentation, "Ops".
"""


@dataclass(frozen=True, slots=True)
class Entry:
    """The ClojureDocs entry for a var."""

    name: str
    namespace: str
    examples: tuple[str, ...] = ()
    see_alsos: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    doc: str | None = None
    href: str | None = None
    """The path of the var's page on clojuredocs.org."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupEntry(Query[Entry | None]):
    """A query for the ClojureDocs entry of a qualified symbol. Its answer is None if there is no entry."""

    name: ClassVar[str] = "clojuredocs"
    capability: ClassVar[str] = CLOJUREDOCS_CAPABILITY.name
    is_for_server: ClassVar[bool] = True
    symbol: str

    def request_fields(self, namespace: str) -> dict[str, str | int]:
        """Return the request fields with the namespace and name of the var."""
        del namespace
        space, _, name = self.symbol.rpartition("/")
        return {"ns": space or "clojure.core", "sym": name or self.symbol}

    def read(self, answer: Mapping[str, object]) -> Entry | None:
        """Parse the entry in the field `clojuredocs` of a response."""
        fields = mapping_or_empty(answer.get("clojuredocs"))
        if not fields:
            return None
        return Entry(
            name=text_or_none(fields.get("name")) or "?",
            namespace=text_or_none(fields.get("ns")) or "?",
            examples=strings_or_empty(fields.get("examples")),
            see_alsos=strings_or_empty(fields.get("see-alsos")),
            notes=strings_or_empty(fields.get("notes")),
            doc=text_or_none(fields.get("doc")),
            href=text_or_none(fields.get("href")),
        )
