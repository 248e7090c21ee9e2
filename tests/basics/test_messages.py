"""Every message says what to do, in the field's terms, and its placeholders say what they hold."""

import re

import messages
from tilewave.basics import errors

PRIVATE = re.compile(
    r"somebody|\bis told|left out|\bmend|of (one's|its) own|stranger|parted by|\} letters|letters (at most|together)"
    r"|\b(beyond|dear|foremost|wherever)\b|what it holds",
    re.IGNORECASE,
)
EMPTY = "one|found|told|made|words|known|own|mine|theirs|meant|asked|beyond|dear"
NAMES = re.compile(rf"\{{_?({EMPTY})\}}")
UNFIT = re.compile(r"\.$|tilewave_|<unknown>|/tmp")


def test_messages_have_a_remedy_and_plain_words():
    files = sorted(messages.LIBRARY.rglob("*.py"))
    listed = [(file.name, *pair) for file in files for pair in messages.messages(file)]
    assert len(listed) > 200
    for file, problem, remedy in listed:
        message = f"{problem}. {remedy}"
        assert remedy.removeprefix("Allowed: ").removeprefix("Needed: ").strip(), (file, problem)
        assert not any(rule.search(message) for rule in (PRIVATE, NAMES, UNFIT)), (file, message)


def test_a_message_lists_at_most_a_hundred_names_in_the_order_of_a_list() -> None:
    names = ["studies", *(f"kernel{number}" for number in range(150))]
    message = str(errors.UserError("config.yaml", "only", "study", names))
    assert "did you mean 'studies'" in message and "Allowed: studies, kernel0," in message
    assert message.endswith("kernel98, and 51 more")
