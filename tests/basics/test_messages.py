"""Every message says what to do, in the field's terms, and its placeholders say what they hold."""

import re

import pytest

import messages

PRIVATE = re.compile(
    r"somebody|\bis told|left out|\bmend|of (one's|its) own|stranger|parted by|\} letters|letters (at most|together)"
    r"|\b(beyond|dear|foremost|wherever)\b|what it holds",
    re.IGNORECASE,
)
NAMES = re.compile(
    r"\{_?(one|found|told|made|words|known|own|mine|theirs|meant|asked|beyond|dear)\}"
)
FILES = sorted(messages.LIBRARY.rglob("*.py"))
LISTED = [(file.name, *pair) for file in FILES for pair in messages.messages(file)]


def test_there_are_messages():
    assert len(LISTED) > 200


@pytest.mark.parametrize(("file", "problem", "remedy"), LISTED)
def test_a_message_has_a_remedy_and_plain_words(file, problem, remedy):
    assert remedy.removeprefix("Allowed: ").removeprefix("Needed: ").strip(), file
    message = f"{problem}. {remedy}"
    assert not PRIVATE.search(message) and not NAMES.search(message), file
    assert not re.search(r"\.$|tilewave_|<unknown>|/tmp", message), file
