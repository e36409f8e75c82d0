"""ClojureDocs: community-written examples, notes and see-alsos for Clojure vars, as a tool and as resources."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codriver.feature import Feature
from codriver.features.clojuredocs.settings import MAX_AGE_DAYS_SETTING, URL_SETTING

if TYPE_CHECKING:
    from codriver.server_hooks import ServerHooks


def _server() -> ServerHooks:
    from codriver.features.clojuredocs import hooks  # noqa: PLC0415  # a command only reads the declaration

    return hooks.SERVER


FEATURE = Feature("clojuredocs", settings=(URL_SETTING, MAX_AGE_DAYS_SETTING), server=_server)
