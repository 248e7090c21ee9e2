"""HTML from the templates: everything is escaped, and a page asks nothing of any other place."""

import base64
import functools
import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

import jinja2
import markupsafe

from tilewave.basics.paths import TEMPLATES
from tilewave.report import words
from tilewave.report.cells import number


def _minimal(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8").strip()


def _allowed(text: str) -> str:
    """What a content security policy calls a text that stands in the page."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@functools.cache
def _templates() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
    )

    @jinja2.pass_context
    def terms(context: jinja2.runtime.Context, text: str, but: str = "") -> markupsafe.Markup:
        return words.linked(text, f"{context['root']}glossary.html", but)

    made.filters |= {"number": number, "terms": terms}
    css = _minimal("page.css")

    def policy(scripts: Sequence[str]) -> str:
        # Nothing is asked from anywhere but the report's own folder.
        return (
            f"default-src 'none'; img-src 'self' file: data:; style-src {_allowed(css)}; "
            f"script-src {' '.join(_allowed(_minimal(one)) for one in scripts)}; "
            "base-uri 'none'; form-action 'none'"
        )

    def source(script: str) -> markupsafe.Markup:
        return markupsafe.Markup(_minimal(script))

    made.globals |= {
        "css": markupsafe.Markup(css), "policy": policy, "source": source, "extra": [],
    }  # fmt: skip
    return made


SCRIPTED = ("explorer.html.j2",)
"""Pages whose script writes the same texts, in cells that do not wrap."""
FIGURE = re.compile(
    # Code is as it stands in its file.
    r"<(?P<code>pre|code|script|style)\b.*?</(?P=code)>|<table class=\"listing.*?</table>|<[^>]*>"
    r"|(?<=\d)(?<![A-Za-z]\d) (?=(?:%|(?:[munp]?s|[KMGT]?B|[MGT]?B/s|[GT]FLOP/s|TOP/s|[MG]Hz|W|bytes)\b))",
    re.DOTALL,
)


def _bound(found: re.Match[str]) -> str:
    return "\xa0" if found[0] == " " else found[0]


def render(name: str, context: Mapping[str, Any]) -> str:
    """A page's HTML; everything in the context is escaped, and no line ends between a number and its unit."""
    made = _templates().get_template(name).render({"root": "", **context})
    if name in SCRIPTED:
        return made
    return FIGURE.sub(_bound, made)
