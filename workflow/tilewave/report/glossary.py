"""The glossary that the pages link, and the meanings of statuses, verdicts and sources."""

import functools
import re
from collections.abc import Mapping
from typing import Any

import markupsafe
import yaml

from tilewave.basics.paths import TEMPLATES


@functools.cache
def document() -> Mapping[str, Any]:
    """Return glossary.yaml: meanings by word of statuses, verdicts and sources, and the terms in order.

    A term has its id, and its forms: the spellings that pages link.
    """
    entries: dict[str, Any] = yaml.safe_load((TEMPLATES / "glossary.yaml").read_text("utf-8"))
    for entry in entries["terms"]:
        term = entry["term"]
        entry["id"] = term.replace(" ", "-")
        entry["forms"] = () if entry.get("plain") else (term, *entry.get("also", ()))
    entries["terms"].sort(key=lambda entry: str(entry["term"]).lower())
    return entries


@functools.cache
def _forms() -> tuple[re.Pattern[str], Mapping[str, str]]:
    ids = {form: term["id"] for term in document()["terms"] for form in term["forms"]}
    longest_first = sorted(ids, key=lambda form: (-len(form), form))
    return re.compile(rf"(?<![\w-])({'|'.join(map(re.escape, longest_first))})(?![\w-])"), ids


def linked(text: str, address: str, but: str = "") -> markupsafe.Markup:
    """Escape the text and link the first use of each term.

    address: the glossary's page; but: a term that is not linked.
    """
    pattern, ids = _forms()
    seen = {but}

    def link(match: re.Match[str]) -> str:
        name = ids[match[0]]
        if name in seen:
            return match[0]
        seen.add(name)
        return f'<a class="term" href="{address}#{name}">{match[0]}</a>'

    return markupsafe.Markup(pattern.sub(link, str(markupsafe.escape(text))))
