"""Find the settings that Django has copied from a settings module and no longer reads from it."""

from __future__ import annotations

import sys

from ..basics.definition_access import ABSENT
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
