"""A look at the sensitive paths of an application, before code runs that may show their texts."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import anyio

from codriver.errors import CodriverError
from codriver.repls.contract.adapter_values import SensitiveSeen
from codriver.repls.seam import seam_providers

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from codriver.repls.contract.adapter_values import Listener

LOOK_S: Final = 1.0
"""How long an evaluation waits for the questions before it and behind it."""


async def learn_sensitive(ask: Callable[[str, str], Awaitable[str]], listener: Listener) -> None:
    """Ask a seam for the texts at sensitive paths, and tell them to who redacts. Never raises, nor waits for long."""
    with suppress(CodriverError, ValueError), anyio.move_on_after(LOOK_S):
        told = json.loads(await ask(seam_providers.SENSITIVE, "{}"))
        listener(None, SensitiveSeen(seam_providers.sensitive_texts(told)))
