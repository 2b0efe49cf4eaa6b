"""tamis completion."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

HELP = "Print a script that completes commands and options in your shell."
EXAMPLES = """examples:
  tamis completion bash > ~/.local/share/bash-completion/completions/tamis
  tamis completion zsh > ~/.zfunc/_tamis
  tamis completion fish > ~/.config/fish/completions/tamis.fish

The folders must exist. zsh finds the file if fpath+=~/.zfunc comes before compinit in ~/.zshrc. To
try it at once: source <(tamis completion bash)."""
SHELLS = ("bash", "zsh", "fish")


def add_arguments(parser: ArgumentParser) -> None:
    """Add the command's options to a parser."""
    parser.add_argument("shell", choices=SHELLS, help="bash, zsh or fish")


def run(options: Namespace) -> int:
    """Print the script."""
    from tamis.cli.completion_scripts import script
    from tamis.cli.main import build_parser

    text = script(options.shell, build_parser())
    options.results.update(shell=options.shell, script=text)
    if not options.json:
        options.results.file.write(text)
    return 0
