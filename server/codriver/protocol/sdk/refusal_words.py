"""The words of errors for requests that the SDK refuses with a code alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp.shared.exceptions import MCPError
from mcp_types.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND
from pydantic import ValidationError

if TYPE_CHECKING:
    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext

MAX_TOLD = 5
"""Problems of one request that are told: whoever has more reads the specification."""
BEFORE_HANDSHAKE = frozenset({"initialize", "ping"})
"""The methods that a client may send before it has said who it is. Source: MCP, lifecycle, initialization."""


async def worded(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """The answer to a request, or the error with what is wrong and what to do.

    Raises:
        MCPError: the request is refused.
    """
    try:
        return await call_next(ctx)
    except ValidationError as error:
        if ctx.request_id is None:
            raise
        is_early = ctx.session.client_params is None and ctx.method not in BEFORE_HANDSHAKE
        words = _too_early(ctx.method) if is_early else f"{ctx.method}: {_problems(error)}"
        raise MCPError(INVALID_PARAMS, words) from error
    except MCPError as error:
        refused = error.error
        if refused.code == METHOD_NOT_FOUND and refused.data == ctx.method:
            raise MCPError(METHOD_NOT_FOUND, f"there is no method {ctx.method!r}", ctx.method) from error
        # Nobody else refuses parameters with data that is empty.
        if refused.code == INVALID_PARAMS and refused.data == "" and ctx.session.client_params is None:
            raise MCPError(INVALID_PARAMS, _too_early(ctx.method)) from error
        raise


def _too_early(method: str) -> str:
    return f"{method} comes too early: send initialize first, and wait for its answer"


def _problems(error: ValidationError) -> str:
    problems = error.errors(include_url=False, include_input=False, include_context=False)
    said = [
        f"{'.'.join(map(str, problem['loc'])) or 'params'} "
        + ("is missing" if problem["type"] == "missing" else f"is wrong: {problem['msg']}")
        for problem in problems[:MAX_TOLD]
    ]
    if len(problems) > MAX_TOLD:
        said.append(f"and {len(problems) - MAX_TOLD} more")
    return "; ".join(said)
