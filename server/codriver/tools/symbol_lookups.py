"""Look up a symbol in a REPL, and the names that it contains or matches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from codriver.core.profiles import PYTHON
from codriver.errors import refused
from codriver.repls.contract.adapter import CapabilityMissingError
from codriver.repls.contract.queries import ListNames, Lookup

if TYPE_CHECKING:
    from codriver.repls.contract.symbols import Names, Symbol
    from codriver.tools.calls.call import Services
    from codriver.tools.calls.session_choice import Target

NAMESPACE_TYPES: Final = frozenset({"module", "namespace"})
"""Types of symbols that contain names."""


@dataclass(frozen=True, slots=True)
class SymbolLookup:
    """What a REPL knows about a symbol: the symbol itself, or the names that it contains or matches, or both."""

    symbol: str
    """The requested symbol, qualified if only a file in the workspace defines it."""
    namespace: str | None
    found: Symbol | None
    names: Names | None = None


async def find_symbol(services: Services, target: Target, namespace: str | None, symbol: str) -> SymbolLookup:
    """Look up a symbol in a session. If it is unknown, a namespace, a class or a pattern, look up its names as well.

    A Python name that is unknown in the module `namespace` is qualified with it. The qualified symbol limits a pattern
    to the module, and allows reading a module that is not imported from its file. A Python name that is unknown in the
    session is looked up where the workspace defines it, if there is a single definition.

    Raises:
        RefusedError: the symbol cannot be resolved.
        CapabilityMissingError: the symbol is a pattern, and the REPL cannot search by patterns.
    """
    adapter, session = services.repls.adapter(target.repl.id), target.session.name
    is_python = target.repl.dialect == PYTHON
    is_qualifiable = is_python and namespace is not None and not symbol.startswith(f"{namespace}.")
    found = None
    if not (is_qualifiable and "*" in symbol):
        found = await adapter.query(Lookup(symbol, namespace=namespace, session=session))
    if found is None and is_qualifiable:
        return await find_symbol(services, target, None, f"{namespace}.{symbol}")
    if found is not None and not is_namespace(found) and not is_class(found):
        return SymbolLookup(symbol, namespace, found)
    names = await adapter.query(ListNames(symbol, namespace=namespace, session=session))
    if found is None and names is not None and is_python and symbol.isidentifier():
        definitions = names.definitions_of(symbol)
        if len(definitions) == len(names.listed) == 1:
            return await find_symbol(services, target, None, definitions[0])
    if names is None and found is None:
        _raise_unknown_symbol(symbol, namespace or target.session.namespace or f"the session {target.key}")
    return SymbolLookup(symbol, namespace, found, names)


def is_class(symbol: Symbol) -> bool:
    """Return whether a symbol is a class."""
    return symbol.extra.get("type") == "class"


def is_namespace(symbol: Symbol) -> bool:
    """Return whether a symbol is a module or a namespace."""
    return symbol.extra.get("type") in NAMESPACE_TYPES or (symbol.name == symbol.namespace and not symbol.arglists)


def _raise_unknown_symbol(symbol: str, where: str) -> None:
    """Raise the error for a symbol that cannot be resolved.

    Raises:
        CapabilityMissingError: the symbol is a pattern.
        RefusedError: the symbol is not a pattern.
    """
    if "*" in symbol:
        words = "this REPL cannot search its names by a pattern"
        raise CapabilityMissingError("lookup", "complete_symbol lists names with the same beginning", message=words)
    raise refused(
        "unknown-symbol",
        f"{symbol!r} is not known in {where}",
        hint="Qualify it, or pass the namespace in which it is used. Load or require the code that defines it first. "
        "complete_symbol lists names with the same beginning.",
    )
