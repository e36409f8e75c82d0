"""The hooks that add ClojureDocs to a running server."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from codriver.features.clojuredocs.download import ClojureDocsExport
from codriver.features.clojuredocs.entries import CLOJUREDOCS_CAPABILITY
from codriver.features.clojuredocs.lookup import describe_entry
from codriver.features.clojuredocs.tool import TOOLS
from codriver.files.codriver_paths import cache_directory
from codriver.repls.contract.evaluation_extensions import AdapterHooks
from codriver.server_hooks import Part, ResourceFamily, ResourceRow, ServerHooks

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from codriver.net.client_sessions import ClientSession
    from codriver.tools.calls.call import Services


async def _read(services: Services, client: ClientSession, parts: Sequence[str], query: Mapping[str, str]) -> str:
    del client, query
    return json.dumps(await describe_entry(services, None, parts[0]), ensure_ascii=False)


SERVER: Final = ServerHooks(
    tools=TOOLS,
    parts=(Part(ClojureDocsExport, lambda _services, _tasks: ClojureDocsExport(cache_directory())),),
    resources=(
        ResourceFamily(
            CLOJUREDOCS_CAPABILITY.name,
            1,
            "application/json",
            _read,
            templates=(
                ResourceRow(
                    "codriver://clojuredocs/{symbol}",
                    "ClojureDocs",
                    "Examples, see-alsos and notes about a Clojure var. Percent-encode the symbol.",
                ),
            ),
            has_plain_path=True,
        ),
    ),
    adapters=AdapterHooks(capabilities=(CLOJUREDOCS_CAPABILITY,)),
)
