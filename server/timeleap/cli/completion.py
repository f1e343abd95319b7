"""Completion in a shell: its script, and the answers that the script asks for at each Tab.

The names of the variables and the scripts are those of earlier releases, whose installed scripts go on working.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from timeleap.cli.arguments import (
    HELP,
    WITHOUT_COMMAND,
    Found,
    MisuseError,
    Values,
    declared,
    everywhere,
    is_switch,
    kind_of,
)
from timeleap.cli.command import FAILED, MISUSED, signature_of
from timeleap.cli.command_table import installed, load
from timeleap.cli.command_text import summary_of
from timeleap.cli.parameters import Commands, Registered

Offer = tuple[str, str]
"""A value, and its description, which may be empty."""

_BASH = r"""_timeleap_completion() {
    local IFS=$'\n'
    COMPREPLY=( $( env COMP_WORDS="${COMP_WORDS[*]}" \
                   COMP_CWORD=$COMP_CWORD \
                   _TIMELEAP_COMPLETE=complete_bash $1 ) )
    return 0
}

complete -o default -F _timeleap_completion timeleap
"""
_ZSH = """#compdef timeleap

_timeleap_completion() {
  eval $(env _TYPER_COMPLETE_ARGS="${words[1,$CURRENT]}" _TIMELEAP_COMPLETE=complete_zsh timeleap)
}

compdef _timeleap_completion timeleap
"""
_FISH = (
    'complete --command timeleap --no-files --arguments "(env _TIMELEAP_COMPLETE=complete_fish '
    '_TYPER_COMPLETE_FISH_ACTION=get-args _TYPER_COMPLETE_ARGS=(commandline -cp) timeleap)" --condition "env '
    '_TIMELEAP_COMPLETE=complete_fish _TYPER_COMPLETE_FISH_ACTION=is-args _TYPER_COMPLETE_ARGS=(commandline -cp) timeleap"\n'
)
_POWERSHELL = """Import-Module PSReadLine
Set-PSReadLineKeyHandler -Chord Tab -Function MenuComplete
$scriptblock = {
    param($wordToComplete, $commandAst, $cursorPosition)
    $Env:_TIMELEAP_COMPLETE = "complete_powershell"
    $Env:_TYPER_COMPLETE_ARGS = $commandAst.ToString()
    $Env:_TYPER_COMPLETE_WORD_TO_COMPLETE = $wordToComplete
    timeleap | ForEach-Object {
        $commandArray = $_ -Split ":::"
        $command = $commandArray[0]
        $helpString = $commandArray[1]
        [System.Management.Automation.CompletionResult]::new(
            $command, $command, 'ParameterValue', $helpString)
    }
    $Env:_TIMELEAP_COMPLETE = ""
    $Env:_TYPER_COMPLETE_ARGS = ""
    $Env:_TYPER_COMPLETE_WORD_TO_COMPLETE = ""
}
Register-ArgumentCompleter -Native -CommandName timeleap -ScriptBlock $scriptblock
"""
SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH, "powershell": _POWERSHELL, "pwsh": _POWERSHELL}


def show(shell: str | None) -> int:
    """Print the script of a shell, of the user's own if none is named; returns the exit code."""
    script = SCRIPTS.get(shell or _own_shell())
    if script is None:
        return _unknown(shell)
    sys.stdout.write(script)
    return 0


def install(shell: str | None) -> int:
    """Install the script of a shell, of the user's own if none is named; returns the exit code."""
    name = shell or _own_shell()
    home = Path.home()
    if name == "bash":
        place = home / ".bash_completions" / "timeleap.sh"
        _write(place, _BASH)
        _have_line(home / ".bashrc", f"source '{place}'")
    elif name == "zsh":
        place = home / ".zfunc" / "_timeleap"
        _write(place, _ZSH)
        _have_line(home / ".zshrc", "fpath+=~/.zfunc; autoload -Uz compinit; compinit")
    elif name == "fish":
        place = home / ".config" / "fish" / "completions" / "timeleap.fish"
        _write(place, _FISH)
    elif name in SCRIPTS:
        sys.stderr.write(f"error: put it into your profile yourself: timeleap --show-completion {name} >> $PROFILE\n")
        return FAILED
    else:
        return _unknown(shell)
    sys.stdout.write(f"completion for {name} is installed in {place}; a new shell has it\n")
    return 0


def answer(environ: Mapping[str, str]) -> int:
    """Answer the script of a shell; returns the exit code."""
    what, _, shell = environ["_TIMELEAP_COMPLETE"].partition("_")
    if what == "source" and shell in SCRIPTS:
        return show(shell)
    if what != "complete" or shell not in SCRIPTS:
        return _unknown(shell)
    found = [*offers(*_typed(shell, environ))]
    if shell == "fish" and environ.get("_TYPER_COMPLETE_FISH_ACTION") == "is-args":
        return 0 if found else 1  # without any, fish completes files
    sys.stdout.write("".join(f"{line}\n" for line in _lines(shell, found)))
    return 0


def offers(words: Sequence[str], last: str) -> Iterator[Offer]:
    """Values for the word `last`, which begin with what is there of it; none where the shell offers files.

    Args:
        words: The words between the program's name and the last one.
        last: The word that is being typed.
    """
    command: Found | None = None
    before = values = Values((), None, everywhere())
    wanted = None
    left = deque(words)
    while left:
        word = left.popleft()
        if word.startswith("-") and word != "-":
            wanted = _take_option(values, word, left)
        elif isinstance(command, Registered):
            with contextlib.suppress(MisuseError):  # the command says so itself
                values.take_argument(word)
        else:
            command = load(word) if command is None else command.find(word)
            if command is None:
                return
            values = _values_for(command, values)
    home = values.given("home") or before.given("home")
    if wanted is None and values.arguments and not last.startswith("-"):
        wanted = values.arguments[0]
    if wanted is not None:
        yield from _values_of(wanted, home, last)
    else:
        named = [*_options(values, command), *_commands(command)]
        yield from ((name, about) for name, about in named if name.startswith(last) and (last or name[0] != "-"))


def _values_for(command: Found, before: Values) -> Values:
    """The parameters of a command; of a group those `before` it."""
    if isinstance(command, Commands) or command.raw:
        return before
    return Values((), command, [*signature_of(command.function).parameters, *everywhere()])


def _commands(group: Found | None) -> Iterator[Offer]:
    """The commands of a group, or of the command line."""
    if group is None:
        yield from ((entry.name, entry.about) for entry in installed())
    elif isinstance(group, Commands):
        yield from ((str(member.name), summary_of(member)) for member in group.members)


def _take_option(values: Values, word: str, left: deque[str]) -> Any:
    """Take an option as far as it is there; returns its parameter if its value is what is being typed."""
    parameter, _ = values.options.get(word, (None, True))
    if parameter is not None and not is_switch(parameter) and not left:
        return parameter
    with contextlib.suppress(MisuseError):  # it may become right yet, and the command says so if it does not
        values.take_option(word, left)
    return None


def _options(values: Values, command: Found | None) -> Iterator[Offer]:
    about = {name: declared(parameter).help or "" for name, (parameter, _) in values.options.items()}
    about |= dict.fromkeys(HELP, "Show the help.")
    if command is None:
        about |= dict.fromkeys(WITHOUT_COMMAND, "")
    yield from sorted(about.items())


def _values_of(parameter: Any, home: str | None, last: str) -> Iterator[Offer]:
    kind, complete = kind_of(parameter), declared(parameter).complete
    found: Iterable[str | Offer] = ()
    if get_origin(kind) is Literal:
        found = [choice for choice in get_args(kind) if choice.startswith(last)]
    elif complete is not None:
        found = complete(last, None if home is None else Path(home))
    for each in found:
        yield (each, "") if isinstance(each, str) else each


def _typed(shell: str, environ: Mapping[str, str]) -> tuple[list[str], str]:
    """The words behind the program's name, without the last one, and the last one."""
    if shell == "bash":
        words = _split(environ.get("COMP_WORDS", ""))
        at = int(environ.get("COMP_CWORD") or len(words))
        return words[1:at], words[at] if at < len(words) else ""
    line = environ.get("_TYPER_COMPLETE_ARGS", "")
    words = _split(line)[1:]
    last = environ.get("_TYPER_COMPLETE_WORD_TO_COMPLETE")
    if last is None:
        last = words[-1] if words and not line.endswith(" ") else ""
    return (words[:-1] if last else words), last


def _split(line: str) -> list[str]:
    """The words of a line, in which a quote may be open."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=False)
    lexer.whitespace_split = True
    lexer.commenters = ""
    words: list[str] = []
    try:
        words.extend(lexer)
    except ValueError:
        words.append(lexer.token)
    return words


def _lines(shell: str, found: Sequence[Offer]) -> list[str]:
    """The offers as the script of a shell takes them."""
    match shell:
        case "bash":
            return [value for value, _ in found]
        case "zsh":
            entries = [f'"{_zsh(value)}"' + (f':"{_zsh(about)}"' if about else "") for value, about in found]
            lines = "\n".join(entries)
            return [f"_arguments '*: :(({lines}))'" if found else "_files"]
        case "fish":
            return [f"{value}\t{about}".rstrip() for value, about in found]
        case _:  # PowerShell
            return [f"{value}:::{about or ' '}" for value, about in found]


def _zsh(text: str) -> str:
    for character, written in (('"', '""'), ("'", "''"), ("$", r"\$"), ("`", r"\`"), (":", r"\\:")):
        text = text.replace(character, written)
    return text


def _own_shell() -> str:
    return Path(os.environ.get("SHELL", "")).name


def _unknown(shell: str | None) -> int:
    named = f"{shell} is not one of them" if shell else "which one you use could not be told: name it"
    sys.stderr.write(f"error: completion is there for {', '.join(SCRIPTS)}; {named}\n")
    return MISUSED


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def _have_line(file: Path, line: str) -> None:
    """Append a line to a file, unless it is there."""
    text = file.read_text(encoding="utf-8", errors="surrogateescape") if file.exists() else ""
    if line not in text.splitlines():
        with file.open("a", encoding="utf-8") as opened:
            opened.write(f"{'' if text.endswith(chr(10)) or not text else chr(10)}{line}\n")
