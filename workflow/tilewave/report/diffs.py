"""What differs between two texts, line by line."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

_KINDS = {"+": "added", "-": "removed", "@": "place"}


def unified(before: Sequence[str], after: Sequence[str], context: int = 2) -> list[tuple[str, str]]:
    """Lines of a unified diff without its head, each behind its kind: added, removed, place, same."""
    lines = list(difflib.unified_diff(before, after, lineterm="", n=context))[2:]
    return [(_KINDS.get(text[:1], "same"), text) for text in lines]
