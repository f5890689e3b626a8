"""`stepscope completion`: the script that makes a shell complete commands, options, rules and analyses."""

import click

from stepscope.cli._output import write_text

__all__ = ["COMMAND"]

_SHELLS = ("bash", "zsh", "fish")
_EXAMPLES = """\b
Examples:
  eval "$(stepscope completion bash)"                                       # in ~/.bashrc
  eval "$(stepscope completion zsh)"                                        # in ~/.zshrc
  stepscope completion fish > ~/.config/fish/completions/stepscope.fish
"""


@click.command("completion", epilog=_EXAMPLES, short_help="Print the completion script for a shell.")
@click.argument("shell", type=click.Choice(_SHELLS))
@click.pass_context
def COMMAND(ctx: click.Context, shell: str) -> None:
    """Print the script that makes SHELL complete stepscope."""
    from click.shell_completion import get_completion_class

    completer = get_completion_class(shell)
    if completer is None:
        raise click.UsageError(f"click has no completion for {shell}")
    write_text(completer(ctx.find_root().command, {}, "stepscope", "_STEPSCOPE_COMPLETE").source() + "\n", None)
