"""`codriver completion`: what a shell reads to complete commands, options, sessions, tools and clients."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from codriver.commands.terminal import say

VARIABLE = "_CODRIVER_COMPLETE"


@click.command("completion", short_help="Print the tab completion for a shell.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion_command(ctx: click.Context, shell: str) -> None:
    r"""Print what SHELL reads to complete commands, options, session keys, tool names and clients.

    \b
    bash  in ~/.bashrc:  eval "$(codriver completion bash)"
    zsh   in ~/.zshrc:   eval "$(codriver completion zsh)"
    fish  codriver completion fish > ~/.config/fish/completions/codriver.fish
    """
    completion = get_completion_class(shell)
    assert completion is not None  # noqa: S101  # the choices are the shells there are
    # Its source() asks the installed bash for its version; the text alone serves all shells alike.
    script = completion.source_template % completion(ctx.find_root().command, {}, "codriver", VARIABLE).source_vars()
    say(script)
