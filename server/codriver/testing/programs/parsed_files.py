"""Parse each file with failures once for all failures in a run.

Parsing a large test file takes longer than most of its tests. Without this cache, the file would be parsed for each
frame of each failure, by pytest and by Codriver.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ast
    from collections.abc import Sequence
    from typing import Any

MAX_FILES = 32
"""Maximum number of files whose syntax trees are cached."""


class ParsedFiles:
    """A cache of syntax trees by file content. Files are not identified by path, because a test may rewrite them."""

    def __init__(self) -> None:
        self._statements: dict[str, Sequence[ast.stmt]] = {}
        self._trees: dict[tuple[str, ...], ast.AST] = {}

    def statements(self, text: str) -> Sequence[ast.stmt]:
        """Return the statements in a source text. A statement precedes the statements in its body.

        Raises:
            SyntaxError, ValueError, RecursionError: the text cannot be parsed.
        """
        found = self._statements.get(text)
        if found is None:
            import ast

            found = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.stmt)]
            self._limit(self._statements)
            self._statements[text] = found
        return found

    def share_with_pytest(self, code: Any) -> None:
        """Make pytest's module `code`, which prints failures, reuse syntax trees between failures."""
        plain = getattr(code, "getstatementrange_ast", None)
        if plain is None:
            return

        def statement_range(lineno: int, source: Any, *more: Any, astnode: Any = None) -> Any:
            lines = tuple(source.lines)
            found = plain(lineno, source, *more, astnode=self._trees.get(lines) if astnode is None else astnode)
            self._limit(self._trees)
            self._trees[lines] = found[0]
            return found

        code.getstatementrange_ast = statement_range

    def _limit(self, files: dict[Any, Any]) -> None:
        if len(files) >= MAX_FILES:
            files.clear()
