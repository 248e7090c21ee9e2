"""HTML from the templates: all text is escaped, and no page loads anything from outside the report."""

import base64
import functools
import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

import jinja2
import markupsafe
import yaml

from tilewave.basics.paths import TEMPLATES
from tilewave.report.cells import cell, markdown, number


@functools.cache
def glossary() -> Mapping[str, Any]:
    """Return glossary.yaml: meanings by word of statuses, verdicts and sources, and the terms in order.
    A term has its id, and its forms: the spellings that pages link."""
    entries: dict[str, Any] = yaml.safe_load((TEMPLATES / "glossary.yaml").read_text("utf-8"))
    for entry in entries["terms"]:
        term = entry["term"]
        entry["id"] = term.replace(" ", "-")
        entry["forms"] = () if entry.get("plain") else (term, *entry.get("also", ()))
    entries["terms"].sort(key=lambda entry: str(entry["term"]).lower())
    return entries


@functools.cache
def _forms() -> tuple[re.Pattern[str], Mapping[str, str]]:
    ids = {form: term["id"] for term in glossary()["terms"] for form in term["forms"]}
    longest_first = sorted(ids, key=lambda form: (-len(form), form))
    return re.compile(rf"(?<![\w-])({'|'.join(map(re.escape, longest_first))})(?![\w-])"), ids


def linked(text: str, address: str, but: str = "") -> markupsafe.Markup:
    """Escape the text and link the first use of each term.
    address: the glossary's page; but: a term that is not linked."""
    pattern, ids = _forms()
    seen = {but}

    def link(match: re.Match[str]) -> str:
        name = ids[match[0]]
        if name in seen:
            return match[0]
        seen.add(name)
        return f'<a class="term" href="{address}#{name}">{match[0]}</a>'

    return markupsafe.Markup(pattern.sub(link, str(markupsafe.escape(text))))


@functools.cache
def _inline(name: str) -> markupsafe.Markup:
    return markupsafe.Markup((TEMPLATES / name).read_text(encoding="utf-8").strip())


@functools.cache
def _allowed(name: str) -> str:
    """Return the content security policy's source of an inline file."""
    digest = hashlib.sha256(_inline(name).encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


@functools.cache
def _templates() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
    )

    @jinja2.pass_context
    def terms(context: jinja2.runtime.Context, text: str, but: str = "") -> markupsafe.Markup:
        return linked(text, f"{context['root']}glossary.html", but)

    environment.filters |= {"number": number, "cell": cell, "terms": terms}
    environment.filters["markdown"] = lambda text: markupsafe.Markup(markdown(text))

    def policy(scripts: Sequence[str]) -> str:
        # Pages load files from the report's folder only.
        return (
            f"default-src 'none'; img-src 'self' file: data:; style-src {_allowed('page.css')}; "
            f"script-src {' '.join(map(_allowed, scripts))}; "
            "base-uri 'none'; form-action 'none'"
        )

    environment.globals |= {"policy": policy, "inline": _inline, "extra": [], "root": ""}
    return environment


def render(name: str, context: Mapping[str, Any]) -> str:
    """Return a page's HTML; text is escaped."""
    return _templates().get_template(name).render(context)
