"""The names at a position in the host's code, and their values."""

from __future__ import annotations

import contextlib
import functools
import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from tilewave.basics.tables import table_beside
from tilewave.compiling import declarations as syntax
from tilewave.compiling.declarations import Stream, Token, Tokens

LEVELS, MOST, NEAR = 3, 32, 64
"""Most levels of structs inside structs, tokens of a value that its name stands for in the next one, and those before a
launch among which its `if` is."""
TABLES = table_beside(__file__)
NUMBERS, WHOLE, REAL = (frozenset(TABLES[key].split()) for key in ("numbers", "whole", "real"))
DTYPES = {kind: name for name, kinds in TABLES["dtypes"].items() for kind in kinds}
"""Type of C++ -> dtype."""
QUERIES, OF_DEVICE = dict[str, str](TABLES["queries"]), dict[str, int](TABLES["of_device"])
"""Calls that ask the device for a number -> the property; property -> number in trials."""
EXTENT = re.compile(TABLES["extent"])
CASE = re.compile(r".*\bswitch \( (?:\( )?(\w+) (?:\) )?\) \{(.*) case (\d+) :(?:(?! case ).)*")
MEMBER = (".", "->", "::")


def spelled(tokens: Stream) -> str:
    """Return tokens as text, with a space between them."""
    return " ".join(token.text for token in tokens)


def parts(tokens: Stream) -> list[Tokens]:
    """Split tokens at commas outside of brackets, also of those around template arguments."""
    groups: list[list[Token]] = [[]]
    i = 0
    while i < len(tokens):
        end = i
        if tokens[i].text in syntax.OPEN:
            end = syntax.closing(tokens, i)
        elif tokens[i].text == "<" and i and tokens[i - 1].word:
            with contextlib.suppress(syntax.Unreadable):
                end = syntax.angle(tokens, i)
        if tokens[i].text == "," and end == i:
            groups.append([])
        else:
            groups[-1] += tokens[i : end + 1]
        i = end + 1
    return [tuple(part) for part in groups if part]


def definitions(body: Stream) -> list[tuple[int, str, Tokens]]:
    """Return (position in the text, name, value) of each assignment, and of each dim3."""
    entries: list[tuple[int, str, Tokens]] = []
    sides, inside = False, 0  # in a declaration of dim3, which may have several names
    for i, token in enumerate(body[:-1]):
        follows = body[i + 1].text
        sides = (token.text == "dim3" and body[i + 1].word) or (sides and token.text != ";")
        if not token.word:
            continue
        before = {token.text for token in body[max(0, i - 2) : i]}
        after = [entry.text for entry in body[i + 1 : i + 4]]
        name, begin = token.text, i
        if i > 1 and body[i - 1].text == ".":  # `grid.x = 4`
            name, begin = f"{body[i - 2].text}.{name}", i - 2
        before_it = [entry.text for entry in body[max(0, begin - 2) : begin]] == ["+", "+"]
        begin -= 2 * before_it  # of `++blocks`
        raised = before_it or after[:2] in (["+", "+"], ["+", "="])
        if raised and (test := _test(body, begin)):
            earlier = _latest(entries, name)
            added = until(body, i + 3) if after[1] == "=" else (Token("1", token.at),)
            value = (*_grouped(earlier), Token("+", token.at), *added)
            entries.append((token.at, name, _chosen(test, value, earlier)))
            continue
        filled = [of.text for of in body[max(0, i - 3) : i]]
        call = " ".join(filled)
        if member := QUERIES.get(call) or QUERIES.get(" ".join([call, *after[1:2]])):
            value = tuple(Token(of, token.at) for of in ("device", ".", member))
            entries.append((token.at, token.text, value))
            continue
        of_device = filled[1:] == ["(", "&"] and filled[0].startswith("cudaMemcpy")
        if of_device or (after[1:2] == ["="] and after[0] in tuple("+-*/")):  # it is no constant
            entries.append((token.at, token.text, ()))
            continue
        if after == ["[", "]", "="]:
            value = until(body, i + 4)
        elif follows == "=" and i + 2 < len(body) and body[i + 2].text != "=":
            value = until(body, i + 2)
            texts = [token.text for token in value]
            for at in (3, 1):  # `b.x = b.y = 32`, `M = N = 512`
                while texts[at : at + 1] == ["="] != texts[at + 1 : at + 2]:
                    value, texts = value[at + 1 :], texts[at + 1 :]
        elif (follows in "({" and sides and i >= inside and before & {"dim3", ","}) or (
            follows in "({" and before & NUMBERS
        ):
            value = tuple(body[i + 2 : syntax.closing(body, i + 1)])
        else:
            continue
        inside = i + 2 + len(value)
        if value and value[0].text in ("dim3", "{"):
            opening = 0 if value[0].text == "{" else 1
            value = value[opening + 1 : syntax.closing(value, opening)]
        earlier = _latest(entries, name)
        if len(earlier) <= MOST:
            of_itself = (_grouped(earlier) if of.text == name else (of,) for of in value)
            value = tuple(itertools.chain(*of_itself))
        named = (_grouped(earlier) if of.text == name else (of,) for of in _test(body, i))
        chosen = _chosen(tuple(itertools.chain(*named)), tuple(value), earlier)
        entries.append((token.at, name, chosen))
    return entries


NO_TYPE = frozenset("return else case goto".split())


def _latest(entries: Sequence[tuple[int, str, Tokens]], name: str) -> Tokens:
    """Return the last value of a name, or of its side of a dim3."""
    by_name = {other: of for _, other, of in entries}
    whole, _, axis = name.partition(".")
    sides = parts(by_name.get(whole, ())) if axis else []
    return by_name.get(name) or dict(zip("xyz", sides)).get(axis, ())


def _grouped(value: Tokens) -> Tokens:
    return (Token("(", value[0].at), *value, Token(")", value[0].at)) if value else ()


def _test(body: Stream, i: int) -> Tokens:
    """Return the comparison of an `if` whose first statement begins at ``i``; empty for other code."""
    end = i - (2 if body[i - 1].text == "{" else 1)
    opening = next((at for at in range(end, 0, -1) if body[at].text == "("), 0)
    between = body[opening + 1 : end]
    compared = {of.text for of in between} & {"<", ">", "%"}
    simple = body[end].text == ")" and body[opening - 1].text == "if" and compared
    return tuple(between) if simple and not {of.text for of in between} & {"&", "|", "argc"} else ()


def _chosen(test: Tokens, value: Tokens, earlier: Tokens) -> Tokens:
    """Return the value behind an `if`: the earlier one where its test does not hold, or behind another `if`."""
    if not (test and earlier and value) or any(of.text == "," for of in (*value, *earlier)):
        return value
    if any(of.text == "?" for of in earlier):
        return earlier
    marks = [Token(text, value[0].at) for text in "(?:)"]
    return (marks[0], *test, marks[1], *value, marks[2], *earlier, marks[3])


def until(body: Stream, start: int, ends: str = ",;") -> Tokens:
    i = start
    while i < len(body) and body[i].text not in ends:
        i = syntax.closing(body, i) + 1 if body[i].text in syntax.OPEN else i + 1
    return tuple(body[start:i])


class Loop(NamedTuple):
    """Where a loop's body begins and ends, its counter, and where its head declares it, or -1."""

    begin: int
    end: int
    counter: str
    declared: int


@dataclass(frozen=True)
class Scope:
    """The names at a position in a function of the host, without those of a skipped part of the text."""

    source: Any
    """The `reading.Source` around it."""
    body: Tokens
    at: int
    skipped: tuple[int, int] = (0, 0)
    template: Mapping[str, Tokens] = field(default_factory=dict)
    """Arguments of the template around the position, by parameter."""
    passed: Mapping[str, Tokens] = field(default_factory=dict)
    """Numbers of the call of the function around the position, by parameter."""
    given: Mapping[str, Tokens] = field(default_factory=dict)
    """Arguments of that call as they are written, by parameter; ``caller`` is where it stands."""
    caller: Scope | None = None

    def called_by(
        self, caller: Scope | None, given: Mapping[str, Tokens], template: Mapping[str, Tokens]
    ) -> Scope:
        """Return the scope in a function with template arguments that is called with the given arguments."""
        numbers = {name: caller.numbers(of) for name, of in given.items()} if caller else {}
        passed = {name: value for name, value in numbers.items() if value}
        return replace(self, template=template, passed=passed, given=given, caller=caller)

    @functools.cached_property
    def before(self) -> list[tuple[int, str, Tokens]]:
        """The definitions before this position, without those of blocks that ended before it."""
        ended = self.ended
        return [of for of in definitions(self.body) if of[0] < self.at and of[0] not in ended]

    @property
    def ended(self) -> set[int]:
        """Where names are declared in blocks, or as the only statement of an ``if``, that ended before this position."""
        ended, blocks = set[int](), [set[int]()]
        for i, token in enumerate(of for of in self.body if of.at < self.at):
            if token.text == "{":
                blocks.append(set())
            elif token.text == "}" and blocks[1:]:
                ended |= blocks.pop()
            elif (
                token.word and i and self.body[i - 1].word and self.body[i - 1].text not in NO_TYPE
            ):
                first = next(j for j in range(i - 1, -1, -1) if j == 0 or not self.body[j - 1].word)
                alone = self.body[first].text == "else" or self.body[first - 1].text == ")"
                (ended if alone else blocks[-1]).add(token.at)
        return ended

    def values(self, name: str) -> list[Tokens]:
        """Return the values of a name before this position, or that outside of functions."""
        start, end = self.skipped
        ended = {of.declared for of in self.loops if of.end <= self.at}
        before = [of for of in self.before if of[1] == name and of[0] not in ended]
        values = [of for at, _, of in before if not start <= at < end]
        if () in values:  # what is behind the last change
            return [*itertools.takewhile(bool, values[::-1])][::-1]
        outside = self.template.get(name) or self.passed.get(name) or self.source.constant(name)
        if values and outside and EXTENT.fullmatch(spelled(values[0])):
            return [outside, *values]  # the command line may replace it
        compared = self.compared.get(name) if not (values or outside) else None
        return [syntax.tokens(compared)] if compared else values or ([outside] if outside else [])

    @functools.cached_property
    def compared(self) -> dict[str, str]:
        """The name and number of ``if (name == 1)`` before, another number behind its ``else``, if what follows lacks it."""
        before = spelled([token for token in self.body if token.at < self.at])
        if (case := CASE.fullmatch(before)) and case[2].count("{") >= case[2].count("}"):
            return {case[1]: case[3]}
        before = spelled([token for token in self.body if token.at < self.at][-NEAR:])
        after = until([token for token in self.body if token.at >= self.at], 0, ";")
        branch = r"(?: \{)?( [^{}]*;(?: \})? else(?: \{)?)?$"
        test = re.search(rf".*\bif \( (\w+) = = (\d+) \){branch}", before)
        taken = test and test[3] and test[1] in {token.text for token in after}
        return {test[1]: str(int(test[2]) + bool(test[3]))} if test and not taken else {}

    @functools.cached_property
    def texts(self) -> dict[int, str]:
        """The tokens of the function by position."""
        return {token.at: token.text for token in self.body}

    def at_place_of(self, value: Stream) -> Scope:
        """Return the scope where a value was written, in which its names have the values of then."""
        here = bool(value) and self.texts.get(value[-1].at) == value[-1].text
        last = max(token.at for token in value) if here else self.at
        return replace(self, at=last) if last < self.at else self

    @functools.cached_property
    def loops(self) -> list[Loop]:
        """The loops of the function, also those behind this position."""
        loops, body = list[Loop](), self.body
        for i, token in enumerate(body):
            if token.text in ("for", "while") and body[i + 1].text == "(":
                start = min(syntax.closing(body, i + 1) + 1, len(body) - 1)
                braced = body[start].text == "{"
                ends = (j for j in range(start, len(body)) if body[j].text in ";{")
                end = syntax.closing(body, start) if braced else next(ends, start)
                end = syntax.closing(body, end) if body[end].text == "{" else end
                counter = next((j for j in range(i, start) if body[j].text == "="), i) - 1
                place = body[counter].at if counter > i + 2 and body[counter - 1].word else -1
                loops.append(Loop(body[start].at, body[end].at, body[counter].text, place))
        return loops

    @property
    def around(self) -> list[Loop]:
        """The loops around this position."""
        return [of for of in self.loops if of.begin <= self.at < of.end]

    def in_first_turn(self, expression: Tokens) -> Tokens:
        """Return the first value of a name that a loop before this position counts, or takes from a list."""
        name, before = spelled(expression), [of for of in self.body if of.at < self.at]
        loop = rf"\bfor \( [\w :&]*\b{re.escape(name)} (?:= ([^;]+) ;|: (\w+|\{{ [^{{}}]* \}}) \))"
        match = [*re.finditer(loop, spelled(before))][-1:] if name.isidentifier() else []
        if not match:
            return expression
        start, listed = match[0].groups("")
        inside = tuple(syntax.tokens(listed.strip("{}")))
        values = parts(inside if "{" in listed else self.value(listed) or ()) if listed else []
        return values[0] if values else tuple(syntax.tokens(start or name))

    @property
    def is_off(self) -> bool:
        """Whether the position follows ``if (name == 16)``, and the name has another value."""
        before = spelled([token for token in self.body if token.at < self.at])
        test = re.search(r"\bif \( (\w+) = = (\d+) \)(?: \{)?$", before)
        value = self.numbers(syntax.tokens(test[1])) if test else ()
        return test is not None and spelled(value).isdigit() and spelled(value) != test[2]

    def literal(self, expression: Tokens) -> Tokens:
        """Return the value of an expression that is a name, else the expression."""
        name = expression[0].text if len(expression) == 1 and expression[0].word else ""
        return (self.value(name) if name else None) or expression

    def numbers(self, expression: Tokens, depth: int = 0) -> Tokens:
        """Return an expression with numbers in place of names; empty if one has none."""
        tokens: list[Token] = []
        for token in expression:
            name = token.word and token.text not in {"sizeof", *DTYPES, *self.source.macros}
            value = (self.value(token.text) or ()) if name else (token,)
            if name:
                value = self.numbers(value, depth + 1) if depth < LEVELS else ()
            if not value:
                return ()
            plain = len(value) == 1 or "," in {part.text for part in value}
            tokens += value if plain else (Token("(", 0), *value, Token(")", 0))
        return tuple(tokens)

    def value(self, name: str) -> Tokens | None:
        return next(reversed(self.values(name)), None)

    def returned(self, name: str, count: int) -> tuple[Scope, list[str], Tokens] | None:
        """Return what `Source.returned` does, of a lambda before this position if there is one."""
        value = self.value(name) or ()
        returns = [i for i, token in enumerate(value) if token.text == "return"]
        if not returns or value[0].text != "[":
            outside: tuple[Scope, list[str], Tokens] | None = self.source.returned(name, count)
            return outside
        if any(token.text == "else" for token in value):
            return None
        opening = syntax.closing(value, 0) + 1
        names = parts(value[opening + 1 : syntax.closing(value, opening)])
        return self, [part[-1].text for part in names], until(value, returns[-1] + 1, ";")

    def names(self, expression: Stream, depth: int = 0) -> dict[str, bool]:
        """Return the names in an expression and in their values: True for a size of a tensor, or of the caller."""
        by_name, texts = dict[str, bool](), ["", *(token.text for token in expression), ""]
        skipped = {*self.source.macros, *NUMBERS, *REAL}
        for before, name, after in zip(texts, texts[1:], texts[2:]):
            if not name.isidentifier() or name in skipped or before in MEMBER:
                continue
            sides = [self.value(f"{name}.{axis}") or () for axis in "xyz"]  # one by one
            later = tuple(itertools.chain.from_iterable(sides)) or None
            value = later if all(sides[:2]) else self.value(name) or later
            free = value is None or EXTENT.fullmatch(spelled(value))
            # Of a file that is not here, or an argument of a template.
            constant = (name.isupper() and len(name) > 2) or (before, after) == ("<", ">")
            by_name[name] = bool(free) and not constant and after not in (*MEMBER, "(", "[", "<")
            inside = value and not free and depth < LEVELS and value[0].text != "["  # of a lambda
            by_name |= self.names(value, depth + 1) if inside and value else {}
        return by_name
