"""Find what Django has used when it was set up: copied settings, and the `ready` methods of applications."""

from __future__ import annotations

import sys

from ..basics.definition_access import ABSENT, space_of
from .equal_values import is_alike
from .stored_attributes import instance_dict_of, module_dict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

SETUP_SETTINGS = frozenset({
    "AUTH_USER_MODEL", "CACHES", "DATABASES", "INSTALLED_APPS", "LOGGING", "MIDDLEWARE", "STORAGES", "TEMPLATES",
    "TIME_ZONE", "USE_TZ",
})  # fmt: skip
"""Settings that Django reads when it is set up, or when it first needs them. Source: Django's documentation."""


def outdated_settings(has_changed: Callable[[str, str], bool]) -> Iterator[tuple[str, str, str]]:
    """Yield the module, the name and the reason for each changed setting that Django does not use.

    `has_changed` returns whether a load has changed a name in a module.
    """
    conf = sys.modules.get("django.conf")
    settings: Any = module_dict(conf).get("settings") if conf is not None else None
    cached = instance_dict_of(settings) or {} if settings is not None else {}
    wrapped = cached.get("_wrapped")
    copied = instance_dict_of(wrapped) or {} if wrapped is not None else {}
    home = copied.get("SETTINGS_MODULE")
    if type(home) is not str or home not in sys.modules:
        return
    space = module_dict(sys.modules[home])
    for name in [*space, *(name for name in copied if name not in space)]:
        if not name.isupper() or not has_changed(home, name):
            continue
        value, used = space.get(name, ABSENT), cached.get(name, copied.get(name, ABSENT))
        if used is ABSENT and value is not ABSENT:
            yield home, name, f"`django.conf.settings.{name}` is not set until the process restarts"
        elif used is not value and not is_alike(used, value):
            yield home, name, f"`django.conf.settings.{name}` keeps its previous value until the process restarts"
        elif name in SETUP_SETTINGS:
            yield home, name, "Django has already used the previous value, and reads the setting again after a restart"


def outdated_applications(has_changed: Callable[[str, str], bool]) -> Iterator[tuple[str, str, str]]:
    """Yield the module, the name and the reason for each changed application class whose `ready` has already run."""
    registry: Any = getattr(sys.modules.get("django.apps"), "apps", None)
    for config in list(registry.app_configs.values()) if registry is not None else ():
        kind = type(config)
        parts = [f"{kind.__name__}.{part}" for part in ("=", "ready()")]
        if "ready" in space_of(kind) and any(has_changed(kind.__module__, part) for part in parts):
            why = "Django has already called the method, and calls it again only after a restart"
            yield kind.__module__, f"{kind.__name__}.ready", why
