"""Lookups of a Python symbol in the module in which it is used."""

from types import SimpleNamespace

import anyio
import pytest

from codriver.repls.contract.queries import Lookup
from codriver.repls.contract.symbols import Symbol
from codriver.tools.symbol_lookups import find_symbol

TARGET = SimpleNamespace(
    repl=SimpleNamespace(id="repl", dialect="python"), session=SimpleNamespace(name="main", namespace=None), key="py"
)


class KnownSymbols:
    """An adapter that knows some symbols by their namespace and name, and records its queries."""

    def __init__(self, *known):
        self.known = known
        self.queries = []

    async def query(self, query):
        self.queries.append(query)
        return Symbol(name=query.symbol) if (query.namespace, query.symbol) in self.known else None


@pytest.mark.parametrize(
    ("known", "queried"),
    [(("shop", "total"), [("shop", "total")]), ((None, "shop.total"), [("shop", "total"), (None, "shop.total")])],
)
def test_a_symbol_is_looked_up_once_in_its_module_and_once_with_its_qualified_name(known, queried):
    adapter = KnownSymbols(known)
    services = SimpleNamespace(repls=SimpleNamespace(adapter=lambda _id: adapter))
    found = anyio.run(find_symbol, services, TARGET, "shop", "total")
    assert (found.namespace, found.symbol) == known
    assert adapter.queries == [Lookup(symbol, namespace=module, session="main") for module, symbol in queried]
