"""The one error type for what a user can cause."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any


class UserError(Exception):
    """A mistake in a file the user wrote, told in one line.

    Parameters
    ----------
    where_file: the file that holds the mistake.
    key: the key, line or argument inside it.
    found: what stands there.
    allowed: what may stand there: a sentence, or the list of valid names (the nearest is suggested).
    """

    def __init__(
        self, where_file: object, key: object, found: object, allowed: str | Iterable[str]
    ) -> None:
        self.where_file, self.key, self.found = str(where_file), str(key), found
        hint = ""
        if isinstance(allowed, str):
            self.allowed = allowed
        else:
            names = sorted(str(name) for name in allowed)
            near = difflib.get_close_matches(str(found), names, n=1)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            self.allowed = ", ".join(names)
        super().__init__(
            f"{self.where_file}: {self.key}: found {found!r}{hint}; allowed: {self.allowed}"
        )

    def __reduce__(self) -> Any:
        """As a process sends it to the one that forked it."""
        return UserError, (self.where_file, self.key, self.found, self.allowed)
