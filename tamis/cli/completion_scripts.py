"""Scripts for the completion of shells, written from the parser of the command line."""

from __future__ import annotations

from argparse import Action
from collections.abc import Iterator
from typing import NamedTuple

from tamis.cli.parser import Parser


class Option(NamedTuple):
    """An option: its names, its help, whether a value follows, and which values there are."""

    names: tuple[str, ...]
    text: str
    takes_value: bool
    choices: tuple[str, ...]


class Place(NamedTuple):
    """A place on the command line: the words before it, what may follow, and its options.

    `commands` are names with their help; `arguments` are the choices of what has no name.
    """

    words: tuple[str, ...]
    commands: dict[str, str]
    options: list[Option]
    arguments: tuple[str, ...]


def script(shell: str, parser: Parser) -> str:
    """Return the script for a shell: bash, zsh or fish."""
    write = {"bash": to_bash, "zsh": to_zsh, "fish": to_fish}[shell]
    return "\n".join(write(list(places(parser)))) + "\n"


def places(parser: Parser, words: tuple[str, ...] = ()) -> Iterator[Place]:
    """Yield the place after the name of a parser, and those after its commands."""
    options = [option_of(action) for action in parser._actions if action.option_strings]
    named = {name: each.description or "" for name, each in parser.commands.items()}
    choices = [
        str(choice)
        for action in parser._actions
        if not action.option_strings and action.dest not in ("help",) and not named
        for choice in action.choices or ()
    ]
    yield Place(words, named, options, tuple(choices))
    for name, each in parser.commands.items():
        yield from places(each, (*words, name))


def option_of(action: Action) -> Option:
    """Return an option of the parser."""
    text = (action.help or "").replace("%%", "%")
    choices = tuple(map(str, action.choices or ()))
    return Option(tuple(action.option_strings), text, action.nargs != 0, choices)


def to_bash(found: list[Place]) -> Iterator[str]:
    """Yield the lines of a script for bash; what it does not know is the name of a file."""
    known = "|".join(f'"{" ".join(("", *place.words)[-2:])}"' for place in found if place.words)
    yield "# Completion of tamis for bash: source this file."
    yield "_tamis() {"
    yield "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}"
    yield '    local command="" words="" at'
    yield "    for ((at = 1; at < COMP_CWORD; at++)); do"
    yield '        case "$command ${COMP_WORDS[at]}" in'
    yield f'            {known}) command="${{command:+$command }}${{COMP_WORDS[at]}}" ;;'
    yield "        esac"
    yield "    done"
    yield '    case "$command:$before" in'
    for place in found:
        for option in place.options:
            if option.takes_value:
                patterns = "|".join(f'"{" ".join(place.words)}:{name}"' for name in option.names)
                values = f"words={in_quotes(option.choices)}" if option.choices else "return"
                yield f"        {patterns}) {values} ;;"
    yield '        *) case "$command" in'
    for place in found:
        names = [name for option in place.options for name in option.names]
        all_words = in_quotes((*place.commands, *place.arguments, *names))
        yield f'            "{" ".join(place.words)}") words={all_words} ;;'
    yield "        esac ;;"
    yield "    esac"
    yield '    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")'
    yield r'    COMPREPLY=("${COMPREPLY[@]// /\\ }")'
    yield "}"
    yield "complete -o default -F _tamis tamis"


def in_quotes(words: tuple[str, ...]) -> str:
    """Return words as one word of bash, those with spaces marked.

    >>> in_quotes(("block", "drop oldest"))
    "'block drop\\\\ oldest'"
    """
    return "'" + " ".join(word.replace(" ", "\\ ") for word in words) + "'"


def to_zsh(found: list[Place]) -> Iterator[str]:
    """Yield the lines of a script for zsh, a function for each place."""
    yield "#compdef tamis"
    for place in found:
        yield f"{function(place.words)}() {{"
        if place.commands:
            yield "    local state line"
            yield "    local -a commands"
            yield "    commands=("
            for name, text in place.commands.items():
                yield f"        {single(f'{name}:{text}')}"
            yield "    )"
            yield "    _arguments -C \\"
            for option in place.options:
                yield from (f"        {zsh_option(name, option)} \\" for name in option.names)
            yield "        '1:command:->command' '*::word:->words'"
            yield '    case "$state" in'
            yield "        command) _describe command commands ;;"
            yield f'        words) {function(place.words)}_"${{line[1]}}" ;;'
            yield "    esac"
        else:
            yield "    _arguments -s \\"
            for option in place.options:
                yield from (f"        {zsh_option(name, option)} \\" for name in option.names)
            values = f"({' '.join(place.arguments)})" if place.arguments else "_files"
            yield f"        {single(f'*:argument:{values}')}"
        yield "}"
    yield 'if [[ $zsh_eval_context[-1] == loadautofunc ]]; then _tamis "$@"; else'
    yield "    compdef _tamis tamis"
    yield "fi"


def function(words: tuple[str, ...]) -> str:
    """Return the name of the function of a place."""
    return "_".join(("_tamis", *words))


def zsh_option(name: str, option: Option) -> str:
    """Return an option as `_arguments` reads it."""
    text = option.text
    for sign in ("\\", "[", "]", ":"):
        text = text.replace(sign, f"\\{sign}")
    end = ""
    if option.takes_value:
        choices = " ".join(choice.replace(" ", "\\ ") for choice in option.choices)
        end = f":value:{f'({choices})' if choices else '_files'}"
    return single(f"{name}[{text}]{end}")


def single(text: str) -> str:
    """Return a text in single quotes, as bash and zsh read them.

    >>> single("it's")
    "'it'\\\\''s'"
    """
    return "'" + text.replace("'", "'\\''") + "'"


def to_fish(found: list[Place]) -> Iterator[str]:
    """Yield the lines of a script for fish."""
    yield "# Completion of tamis for fish."
    groups = [place.words[0] for place in found if place.words and place.commands]
    for place in found:
        here = f"-c tamis -n {single(fish_condition(place, groups))}"
        for name, text in place.commands.items():
            yield f"complete {here} -f -a {name} -d {fish_text(text)}"
        for choice in place.arguments:
            yield f"complete {here} -f -a {fish_text(choice)}"
        for option in place.options:
            yield f"complete {here} {fish_option(option)}"


def fish_condition(place: Place, groups: list[str]) -> str:
    """Return when the command line is at a place: its words have come, and no other command."""
    if not place.words:
        return "__fish_use_subcommand"
    parts = [f"__fish_seen_subcommand_from {word}" for word in place.words]
    if place.commands:
        parts.append(f"not __fish_seen_subcommand_from {' '.join(place.commands)}")
    elif len(place.words) == 1:
        parts.append(f"not __fish_seen_subcommand_from {' '.join(groups)}")
    return "; and ".join(parts)


def fish_option(option: Option) -> str:
    """Return an option as `complete` of fish reads it."""
    names = [f"-l {n[2:]}" if n.startswith("--") else f"-s {n[1:]}" for n in option.names]
    text = f"{' '.join(names)} -d {fish_text(option.text)}"
    if option.choices:
        values = " ".join(fish_text(choice) for choice in option.choices)
        return f"{text} -x -a {fish_text(values)}"
    return f"{text} -r" if option.takes_value else text


def fish_text(text: str) -> str:
    """Return a text in single quotes, as fish reads them."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
