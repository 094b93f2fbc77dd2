"""Print a script for bash, zsh or fish that completes commands, options and names."""

from __future__ import annotations

import importlib
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from vixformer.commands import COMMANDS, summary
from vixformer.jsonfile import Values
from vixformer.options import PLUGIN, Option, all_options, names_of, words

BASH = """# Completion of vix. Load it with: {how}
{begins}_vix() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}} command=${{COMP_WORDS[1]}} found=""
  {names}
  if [ "$COMP_CWORD" -eq 1 ]; then
    found="{commands} --help --version"
  else
    case "$command ${{COMP_WORDS[2]}}" in
      {kinds}) command="$command ${{COMP_WORDS[2]}}";;
    esac
    case "$command:$previous" in
{values}
    esac
    if [ -z "$found" ]; then
      case "$command:$current" in
{options}
      esac
    fi
  fi
  COMPREPLY=($(compgen -W "$found" -- "$current"))
}}
complete -o default -F _vix vix
"""
ZSH = "autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n"
HOW = {
    "bash": 'eval "$(vix completion bash)"',
    "zsh": 'eval "$(vix completion zsh)"',
    "fish": "vix completion fish > ~/.config/fish/completions/vix.fish",
}


@dataclass(frozen=True, kw_only=True)
class Options:
    shell: Literal["bash", "zsh", "fish"] = words(missing=f"which shell? For bash: {HOW['bash']}. Others: zsh, fish")
    """The shell that you use."""


def run(options: Options) -> None:
    print(_fish() if options.shell == "fish" else _bash(options.shell), end="")


def _kinds() -> Iterator[tuple[str, Values, list[Option]]]:
    """Each command with its options, and the words of its subcommands."""
    for word in COMMANDS:
        kinds = importlib.import_module(f"vixformer.commands.{word}").Options
        if isinstance(kinds, dict):
            yield word, kinds, []
            yield from ((f"{word} {name}", {}, [*all_options(kind), PLUGIN]) for name, kind in kinds.items())
        else:
            yield word, {}, [*all_options(kinds), PLUGIN]


def _bash(shell: str) -> str:
    values, options, kinds, names = [], [], [], {}

    def listed(found: list[str]) -> str:
        """Long lists are written once."""
        text = " ".join(found)
        return f"$names_{names.setdefault(text, len(names))}" if len(text) > 200 else text

    for command, inner, found in _kinds():
        kinds += [f'"{command} {word}"' for word in inner]
        flags = [option for option in found if "words" not in option.metadata]
        values += [
            f'      "{command}:{o.flag}") found="{listed(names_of(o.hint))}";;' for o in flags if names_of(o.hint)
        ]
        places = [name for option in found if option not in flags for name in names_of(option.hint)]
        options.append(f'        "{command}:-"*) found="{listed([o.flag for o in flags] + ["--help"])}";;')
        options.append(f'        "{command}:"*) found="{listed([*inner, *places])}";;')
    return BASH.format(
        how=HOW[shell], begins=ZSH if shell == "zsh" else "", commands=" ".join(COMMANDS), kinds="|".join(kinds),
        names="\n  ".join(f'local names_{i}="{text}"' for text, i in names.items()), values="\n".join(values),
        options="\n".join(options),
    )  # fmt: skip


def _fish() -> str:
    lines = [f"# Completion of vix. Load it with: {HOW['fish']}"]
    lines += [
        f"complete -c vix -f -n __fish_use_subcommand -a {word} -d {shlex.quote(summary(word))}" for word in COMMANDS
    ]
    for command, inner, found in _kinds():
        seen = " and ".join(f"__fish_seen_subcommand_from {word}" for word in command.split()).replace(
            " and ", "; and "
        )
        for option in found:
            names = names_of(option.hint)
            given = ["-a", shlex.quote(" ".join(names))] if names else []
            if "words" not in option.metadata:
                given += ["-l", option.flag[2:], *(["-r"] if option.value else [])]
            if given:
                lines.append(
                    " ".join(["complete -c vix -n", shlex.quote(seen), *given, "-d", shlex.quote(option.about)])
                )
        lines += [
            f"complete -c vix -n {shlex.quote(seen)} -a {word} -d {shlex.quote(kind.__doc__ or '')}"
            for word, kind in inner.items()
        ]
    return "\n".join(lines) + "\n"
