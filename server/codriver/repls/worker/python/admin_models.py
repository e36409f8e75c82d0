"""Replace models in the admin sites of Django if a load has created their classes again.

The statements that registered the previous classes do not run again. Source: `AdminSite._registry` and
`all_sites` in `django.contrib.admin.sites` of Django 5.2.
"""

from __future__ import annotations

import ast
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ..basics.undo_records import UndoRecord

ADMIN_LIBRARY = "django.contrib.admin"


def registers_model(call: Any) -> bool:
    """Return whether a call has the form of `admin.register(…)` or `site.register(…)`."""
    function = call.func if isinstance(call, ast.Call) else None
    return (getattr(function, "attr", "") or getattr(function, "id", "")) == "register"


def renew_admin_models(classes: Mapping[int, Any], undo: UndoRecord) -> None:
    """Replace the previous versions of classes in all admin sites.

    `classes` maps the id of each previous version to the new class.
    """
    library: Any = sys.modules.get(ADMIN_LIBRARY + ".sites")
    for site in list(library.all_sites) if library is not None and classes else ():
        registry = site._registry  # noqa: SLF001  # no other way
        before = dict(registry)
        if classes.keys().isdisjoint(map(id, before)):
            continue
        for model, options in before.items():
            now = classes.get(id(model))
            if now is not None and options.model is model:
                _set_model(options, now)
                undo.record_undo(_set_model, options, model)
        _refill(registry, {classes.get(id(model), model): options for model, options in before.items()})
        undo.record_undo(_refill, registry, before)


def _set_model(options: Any, model: Any) -> None:
    """Set the model in the `ModelAdmin` with which it is registered."""
    options.model, options.opts = model, model._meta  # noqa: SLF001  # documented


def _refill(registry: dict[Any, Any], entries: dict[Any, Any]) -> None:
    """Replace the entries of a registry."""
    registry.clear()
    registry.update(entries)
