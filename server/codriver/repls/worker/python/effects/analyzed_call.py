"""An analyzed call: the call in the code, with what is known about its function and arguments."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ast

    from .abstract_values import Value
    from .scopes import Scope


class AnalyzedCall:
    """A call in the analyzed code, with the values of its function and arguments.

    - `function` is the value that is called, and `expression` is its syntax node.
    - `given` and `named` are the values of the positional and keyword arguments. Arguments in `**` have the name
      None.
    - `node` is the syntax node of the whole call, and `scope` is the scope that contains the call.
    - `every` contains the values of all arguments in the call itself, without the arguments that a partial object adds.
    """

    __slots__ = ("every", "expression", "function", "given", "named", "node", "scope")

    def __init__(
        self,
        function: Value,
        expression: ast.AST,
        given: list[Value],
        named: dict[str | None, Value],
        node: ast.AST,
        scope: Scope,
        every: list[Value] | None = None,
    ) -> None:
        self.function, self.expression, self.given, self.named = function, expression, given, named
        self.node, self.scope = node, scope
        self.every = [*given, *named.values()] if every is None else every

    def with_function(self, function: Value) -> AnalyzedCall:
        """Return the same call of another function."""
        return AnalyzedCall(function, self.expression, self.given, self.named, self.node, self.scope)

    @property
    def given_with_bound(self) -> list[Value]:
        """Return the positional arguments, after the object to which the called method is bound."""
        return self.given if self.function.bound is None else [self.function.bound, *self.given]
