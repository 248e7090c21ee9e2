"""The one error type for what a user can cause."""

import copyreg
import difflib
import re
import reprlib
from collections.abc import Iterable
from typing import Any, Self

HERE = "command line"
"""The `where_file` of a mistake on the command line."""
MOST_SIGNS, MOST_NAMES = 2000, 100
"""Limits of a part of a message: characters, and valid names."""

_REPR = reprlib.Repr()
_REPR.maxlevel, _REPR.maxstring, _REPR.maxother, _REPR.maxlong = 5, 200, 200, 60
_REPR.maxlist = _REPR.maxtuple = _REPR.maxdict = _REPR.maxset = 30


UNPRINTABLE = re.compile(
    "[^\t\n -~\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]|[\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)
"""Characters that command a terminal, that XML forbids, or that change the direction of a text."""


def printable(text: str) -> str:
    """Return a text from elsewhere with blanks for the characters in `UNPRINTABLE`."""
    return UNPRINTABLE.sub(" ", text)


def one_line(text: str, most: int = MOST_SIGNS) -> str:
    """Return a text on one line, without characters that do not print, cut where it is long."""
    line = "".join(sign if sign.isprintable() else " " for sign in text[: most + 1])
    return line if len(text) <= most else f"{line[:most]}..."


def shown(value: object) -> str:
    """Return a value as a message has it: shortened where it is large, nested or endless."""
    if value is None:
        return "nothing"
    try:
        return one_line(_REPR.repr(value))
    except ValueError:  # Python prints no number of more than 4300 digits
        return "a number that is too long to print"


def _listed(value: object, allowed: str | Iterable[str]) -> tuple[str, str]:
    """Return a hint at the valid name nearest to a value, if there is one, and what is allowed as text."""
    if isinstance(allowed, str):
        return "", one_line(allowed)
    names = list(map(str, allowed if isinstance(allowed, list) else sorted(allowed, key=str)))
    written = value[:MOST_SIGNS] if isinstance(value, str) else shown(value)
    near = difflib.get_close_matches(written, names, n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    more = f", and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return hint, one_line(", ".join(names[:MOST_NAMES]), 20 * MOST_SIGNS) + more


class UserError(Exception):
    """A mistake in what the user wrote, in one line: where, what is wrong, what to do.

    where_file: the file that holds the mistake; the message does not name `HERE`. key: the key, line or argument inside
    it. value: its value; None where it is missing. allowed: what it may be: a phrase, or the list of valid names (the
    nearest is suggested).
    """

    def __init__(
        self, where_file: object, key: object, value: object, allowed: str | Iterable[str]
    ) -> None:
        self.where_file, self.key, self.value = str(where_file), one_line(str(key), 200), value
        hint, self.allowed = _listed(value, allowed)
        problem = f"{self.key} is {shown(value)}{hint}. Allowed"
        if value is None:
            problem = f"{self.key} is missing. Needed"
        super().__init__(f"{self._prefix()}{problem}: {self.allowed}")

    @classmethod
    def because(cls, where_file: object, problem: str, remedy: str, key: object = "") -> Self:
        """Make an error of two sentences: what is wrong, and what to do. Neither ends in a full stop."""
        error = cls(where_file, key, problem, remedy)
        error.args = (f"{error._prefix()}{one_line(problem)}. {error.allowed}",)
        return error

    @classmethod
    def unknown(
        cls, where_file: object, kind: str, name: object, allowed: Iterable[str], key: object = ""
    ) -> Self:
        """Make an error about a name that does not exist: ``unknown KIND NAME``. key: where the name stands."""
        error = cls(where_file, key or name, name, allowed)
        hint, _ = _listed(name, allowed)
        before = f"{error.key}: " if key else ""
        problem = f"{before}unknown {kind} {one_line(str(name), 200)}{hint}"
        error.args = (f"{error._prefix()}{problem}. Allowed: {error.allowed}",)
        return error

    def moved(
        self, where_file: object, before: str = "", kind: type["UserError"] | None = None
    ) -> "UserError":
        """Return the same error about another file. ``before`` comes before its message."""
        error = (kind or type(self))(where_file, self.key, self.value, self.allowed)
        message = str(self).removeprefix(self._prefix())
        error.args = (f"{error._prefix()}{before}{message}",)
        return error

    def _prefix(self) -> str:
        return "" if self.where_file == HERE else f"{one_line(self.where_file)}: "

    def at(self, line: int) -> None:
        """Add the line number to the file's name, as compilers do."""
        location = f"{self.where_file}:{line}"
        message = str(self).replace(one_line(self.where_file), one_line(location), 1)
        self.where_file, self.args = location, (message,)

    def __reduce__(self) -> Any:
        """Keep the message when a process sends the error to its parent."""
        return copyreg.__newobj__, (type(self), *self.args), vars(self)  # type: ignore[attr-defined]


class KernelRefused(UserError):
    """A kernel file that cannot be read, or exceeds a limit of kernels. A run skips it."""


class NoKernel(KernelRefused):
    """A file in a folder of kernels that is no kernel file. A run skips it and does not fail."""


class Unsupported(Exception):
    """An instruction, operand or section that the machine does not know. ``opcode``: with modifiers, or the
    part of the cubin. ``address``: the instruction's byte offset in its kernel, -1 where there is none."""

    def __init__(self, opcode: str, address: int = -1, detail: str = "") -> None:
        self.opcode, self.address, self.detail = opcode, address, detail
        position = f" at {address:#x}" if address >= 0 else ""
        super().__init__(f"{opcode}{position}{': ' if detail else ''}{detail}")


class NoTime(ValueError):
    """The model of time has none for a launch; the message says why."""


class BadLaunch(ValueError):
    """A launch that no GPU accepts, such as a block that is too large."""
