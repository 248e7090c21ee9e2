"""Facts of a kernel that the user gives to `tilewave wrap`, by flags or at a terminal."""

import argparse
import re

import yaml

from tilewave.basics.errors import HERE, UserError
from tilewave.basics.progress import say
from tilewave.commands.wrapping.guessing import Guess

KEYS = {
    "--block": "block",
    "--grid": "grid",
    "--shared": "shared_bytes",
    "--arguments": "arguments",
}
"""Flag -> key of front matter."""


def ask(question: str, suggestion: str) -> str:
    """Return the user's answer at the terminal; an empty answer takes the suggestion."""
    say(f"{question} [{suggestion}]: ")
    return input().strip() or suggestion


def answer(options: argparse.Namespace, guess: Guess, asking: bool) -> None:
    """Put flags and answers into the guess. Raises UserError for a fact that is missing."""
    for flag, key in KEYS.items():
        text = getattr(options, flag.strip("-"))
        unknown = text is None and flag in guess.unknown
        value = guess.front.get(key, [])
        values = value if isinstance(value, list) else [value]
        if unknown and asking:
            suggestion = ", ".join("?" if value is None else str(value) for value in values)
            text = ask(f"{key}, {guess.unknown[flag]}", suggestion)
        elif unknown and (None in values or key == "shared_bytes"):
            raise UserError(HERE, flag, None, guess.unknown[flag])
        if text is not None:
            guess.alternatives.clear()  # they belong to the replaced guess
            guess.unknown.pop(flag, None)
            guess.notes[:] = [note for note in guess.notes if flag not in note]
            try:
                parsed = yaml.safe_load(f"[{_quoted(text)}]")
            except yaml.YAMLError as error:
                raise UserError(HERE, flag, text, "expressions separated by commas") from error
            guess.front[key] = parsed[0] if key == "shared_bytes" else parsed
        elif flag in guess.unknown:
            guess.notes.append(f"{key} is a guess: {guess.unknown[flag]} ({flag} changes it)")
            guess.mark(key)
    if "--entry" in guess.unknown:
        if not asking:
            raise UserError(HERE, "--entry", None, guess.unknown["--entry"])
        guess.front["entry"] = ask(f"entry, {guess.unknown['--entry']}", guess.front["entry"])
    if "--dtype" in guess.unknown and options.dtype is None:
        raise UserError(HERE, "--dtype", None, guess.unknown["--dtype"])


def _quoted(text: str) -> str:
    """Put expressions that YAML cannot read into quotation marks, also in nested lists."""
    cut = map(str.strip, re.split(r"([,\[\]{}]|:(?= ))(?![^(]*\))", text))
    marks = {":": ": "}
    return "".join(
        marks.get(token, token) if re.fullmatch(r"[\w.-]*|[,\[\]{}:]", token) else f'"{token}"'
        for token in cut
    )
