"""`codriver relay`: run codriver-relay, for clients that start Codriver by its package name, as uvx does."""

from __future__ import annotations

import sys

import click


@click.command(
    "relay",
    short_help="Run codriver-relay for an MCP client.",
    context_settings={"ignore_unknown_options": True},
    add_help_option=False,
)
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def relay_command(*, words: tuple[str, ...]) -> None:
    """Run codriver-relay, for clients that start Codriver by the name of its package, for example with uvx."""
    import codriver_relay  # noqa: PLC0415  # only needed here

    sys.exit(codriver_relay.main(words))
