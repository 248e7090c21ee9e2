"""The one error type for what a user can cause."""

import difflib
import reprlib
from collections.abc import Iterable
from typing import Any, Self

HERE = "command line"
"""Where a mistake is that the command line holds."""
MOST_SIGNS = 2000
"""Of a message's parts; a line that is longer nobody reads."""

_REPR = reprlib.Repr()
_REPR.maxlevel, _REPR.maxstring, _REPR.maxother, _REPR.maxlong = 5, 200, 200, 60
_REPR.maxlist = _REPR.maxtuple = _REPR.maxdict = _REPR.maxset = 30


def one_line(text: str, most: int = MOST_SIGNS) -> str:
    """A text without ends of lines and other signs that do not print, cut where it is long."""
    shown = "".join(sign if sign.isprintable() else " " for sign in text[: most + 1])
    return shown if len(text) <= most else f"{shown[:most]}..."


def _shown(value: object) -> str:
    """What was found, whatever it is: shortened where it is large, nested or a number without end."""
    if value is None:
        return "nothing"
    try:
        return one_line(_REPR.repr(value))
    except ValueError:  # Python prints no number of more than 4300 digits
        return "a number that is too long to print"


def _word(value: object) -> str:
    """What was found as a name that may be near to another."""
    return value[:MOST_SIGNS] if isinstance(value, str) else _shown(value)


class UserError(Exception):
    """A mistake in what the user wrote, in one line: where, what is wrong, what to do.

    Parameters
    ----------
    where_file: the file that holds the mistake; `HERE` is left out of the message.
    key: the key, line or argument inside it.
    found: its value; None where it is missing.
    allowed: what it may be: a phrase, or the list of valid names (the nearest is suggested).
    """

    def __init__(
        self, where_file: object, key: object, value: object, allowed: str | Iterable[str]
    ) -> None:
        self.where_file, self.key, self.found = str(where_file), one_line(str(key), 200), value
        hint = ""
        if isinstance(allowed, str):
            self.allowed = one_line(allowed)
        else:
            names = sorted(str(name) for name in allowed)
            near = difflib.get_close_matches(_word(value), names, n=1)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            self.allowed = one_line(", ".join(names), 20 * MOST_SIGNS)
        problem = f"{self.key} is {_shown(value)}{hint}. Allowed"
        if value is None:
            problem = f"{self.key} is missing. Needed"
        super().__init__(f"{self._prefix()}{problem}: {self.allowed}")

    @classmethod
    def because(cls, where_file: object, problem: str, remedy: str, key: object = "") -> Self:
        """Make an error of two sentences: what is wrong, and what to do. Neither ends in a full stop."""
        error = cls(where_file, key, problem, remedy)
        error.args = (f"{error._prefix()}{one_line(problem)}. {error.allowed}",)
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
        return _rebuilt, (
            type(self),
            self.where_file,
            self.key,
            self.found,
            self.allowed,
            self.args,
        )


def _rebuilt(
    kind: type[UserError], where: str, key: str, value: object, allowed: str, args: tuple[str]
) -> UserError:
    error = kind(where, key, value, allowed)
    error.args = args
    return error


class KernelRefused(UserError):
    """A kernel file that is none, or asks for more than a kernel may: it is left out, and the rest goes on."""


class NoKernel(KernelRefused):
    """A file of a folder of kernels that was not meant for one: it is left out, and no run fails for it."""


class Unsupported(Exception):
    """An instruction, operand or section that the machine does not know; never a wrong figure.

    ``opcode`` is the full opcode with its modifiers (or the part of the cubin meant), ``address``
    the instruction's byte offset in its kernel, -1 where there is none.
    """

    def __init__(self, opcode: str, address: int = -1, detail: str = "") -> None:
        self.opcode, self.address, self.detail = opcode, address, detail
        place = f" at {address:#x}" if address >= 0 else ""
        super().__init__(f"{opcode}{place}{': ' if detail else ''}{detail}")


class BadLaunch(ValueError):
    """A launch that no GPU would accept: wrong number of arguments, a block that is too large."""
