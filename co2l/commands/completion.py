"""co2l completion: a script that completes commands, flags and spaces in bash, zsh or fish."""

from __future__ import annotations

import argparse
from importlib import import_module

from co2l.cli.console import OK, Parser
from co2l.commands import COMMANDS, module_of, purpose
from co2l.shipped import spaces

EXAMPLE = """\
examples:
  source <(co2l completion bash)                  # now; put it into ~/.bashrc for always
  source <(co2l completion zsh)                   # ~/.zshrc
  co2l completion fish > ~/.config/fish/completions/co2l.fish

exit codes: 0 done, 2 wrong input"""

BASH = """\
_co2l() {
    local current=${COMP_WORDS[COMP_CWORD]} words=
    if [ "$COMP_CWORD" -eq 1 ]; then
        words="@commands@"
    elif [ "${COMP_WORDS[COMP_CWORD-1]}" = --space ]; then
        words="@spaces@"
    else
        case "${COMP_WORDS[1]}" in
@cases@
        esac
    fi
    COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _co2l co2l
"""
ZSH = "autoload -U +X compinit && compinit -u\nautoload -U +X bashcompinit && bashcompinit\n"


def parser() -> argparse.ArgumentParser:
    p = Parser(prog="co2l completion", description="Print a script that completes what you type.", epilog=EXAMPLE)
    p.add_argument("shell", choices=["bash", "zsh", "fish"], help="the shell that is to read it")
    return p


def main() -> int:
    args = parser().parse_args()
    print({"bash": bash(), "zsh": ZSH + bash(), "fish": fish()}[args.shell], end="")
    return OK


def bash() -> str:
    cases = "\n".join(f'            {name}) words="{" ".join(words_of(name))}" ;;' for name in COMMANDS)
    script = BASH.replace("@commands@", " ".join([*COMMANDS, "--help", "--version"]))
    return script.replace("@spaces@", " ".join(spaces())).replace("@cases@", cases)


def fish() -> str:
    lines = [f"complete -c co2l -n __fish_use_subcommand -f -a {name} -d '{_about(name)}'" for name in COMMANDS]
    for name in COMMANDS:
        seen = f"complete -c co2l -n '__fish_seen_subcommand_from {name}'"
        kinds = {True: "-l", False: "-f -a"}
        lines += [f"{seen} {kinds[word[:2] == '--']} {word.removeprefix('--')}" for word in words_of(name)]
    lines.append(f"complete -c co2l -l space -r -a '{' '.join(spaces())}'")
    return "\n".join([*lines, ""])


def words_of(command: str) -> list[str]:
    """The flags and subcommands of a command, and values that a word of it may have."""
    given: argparse.ArgumentParser = import_module(module_of(command)).parser()
    return sorted(_words(given), key=lambda word: (word.startswith("-"), word))


def _words(given: argparse.ArgumentParser) -> set[str]:
    found = set()
    for action in given._actions:
        found |= {flag for flag in action.option_strings if flag.startswith("--")}
        if isinstance(action, argparse._SubParsersAction):
            found |= {*action.choices, *(word for each in action.choices.values() for word in _words(each))}
        elif not action.option_strings:
            found |= set(action.choices or ())
    return found


def _about(command: str) -> str:
    return purpose(command).replace("'", "’")
