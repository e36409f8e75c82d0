"""Find out whether decorators read the signatures of the functions that they decorate."""

from __future__ import annotations

import ast
import types

from ...basics.definition_access import ABSENT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..effects.analysis import Analysis
    from .module_code import ModuleCode
    from .module_sources import ModuleSources

MAX_SEARCHED_FUNCTIONS = 20
"""Maximum number of functions reachable from a decorator that are searched for `SIGNATURE_NAMES`."""
SIGNATURE_NAMES = frozenset({
    "signature", "Signature", "getfullargspec", "get_annotations", "get_type_hints", "__defaults__", "__kwdefaults__",
    "__annotations__", "__code__", "inspect",
})  # fmt: skip
"""Names that occur in decorators that read the signature of the decorated function. Source: `inspect` documentation."""
ANNOTATION_NAMES = frozenset({"get_annotations", "get_type_hints", "__annotations__"})
"""The names in `SIGNATURE_NAMES` that do not read defaults."""
LIBRARIES_IGNORING_DEFAULTS = frozenset({"celery", "click", "flask"})
"""Libraries whose decorators do not read default values."""


class SignatureReaders:
    """Determines which decorators of the edited module read the signatures of functions."""

    def __init__(self, sources: ModuleSources, analysis: Analysis, code: ModuleCode) -> None:
        self.sources, self.analysis, self.code = sources, analysis, code

    def reads_signature(self, decorator: Any, *, only_defaults: bool) -> bool:
        """Return whether a decorator may read the signature of its function.

        With `only_defaults`, decorators that only read other parts of a signature do not count.
        """
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        live: Any = self.code.evaluate_or_absent(self.sources.text, called) if isinstance(called, ast.Name) else ABSENT
        if type(live) is not types.FunctionType or self.sources.find(live) is None:
            return not (
                only_defaults
                and self.analysis.library_name(called, self.sources.text.space) in LIBRARIES_IGNORING_DEFAULTS
            )
        reached = [live]
        for function in reached:
            source = self.sources.find(function)
            words = {each.id for each in ast.walk(source) if isinstance(each, ast.Name)}
            words |= {each.attr for each in ast.walk(source) if isinstance(each, ast.Attribute)}
            if not words.isdisjoint(SIGNATURE_NAMES - ANNOTATION_NAMES if only_defaults else SIGNATURE_NAMES):
                return True
            named = [function.__globals__.get(word) for word in words]
            known = [each for each in named if type(each) is types.FunctionType and self.sources.find(each) is not None]
            reached += [each for each in known if each not in reached and len(reached) < MAX_SEARCHED_FUNCTIONS]
        return False

    def are_decorators_of_libraries(self, node: Any) -> bool:
        """Return whether all decorators of a definition come from known libraries that retain the function itself."""
        called = [decorator.func if isinstance(decorator, ast.Call) else decorator for decorator in node.decorator_list]
        homes = {self.analysis.library_name(decorator, self.sources.text.space) for decorator in called}
        return homes.isdisjoint({"", *(name.partition(".")[0] for name in self.sources.module_names)})
