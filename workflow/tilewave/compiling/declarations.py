"""The declarations of a CUDA C++ text at namespace scope, and the identifiers that they mention.
This is no parser: it separates functions, types and variables, device code and host code."""

import contextlib
import functools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from tilewave.compiling.source import TOKEN as LITERAL

TOKEN = re.compile(
    rf"(?P<skipped>{LITERAL.pattern})"
    r"|(?P<directive>^[ \t]*\#(?:\\\r?\n|/\*.*?(?:\*/|\Z)|//[^\n]*|[^\n])*)"
    r"|(?P<word>[A-Za-z_]\w*)|(?P<number>\.?\d(?:[eEpP][+-]|[\w.'])*)|(?P<sign>::|[^\s\w])",
    re.DOTALL | re.MULTILINE,
)
WORD = re.compile(r"[A-Za-z_]\w*")
DEFINE = re.compile(
    r"[ \t]*#[ \t]*define[ \t]+(?P<name>\w+)(?P<arguments>\([^)]*\))?(?P<body>.*)", re.S
)
TEST = re.compile(r"(! )?(?:(defined) )?(?:\( )?(\w+)(?: \))?")
"""A simple condition of ``#if``."""
PREDEFINED = ("_", "CUD")
"""Starts of names that a compiler or CUDA's headers may define."""
DEVICE_KEYWORDS = frozenset("__global__ __device__ __constant__ __managed__ __shared__".split())
CONSTANT_KEYWORDS = frozenset(("constexpr", "consteval"))
TYPES = frozenset("class struct union enum".split())
ATTRIBUTES = frozenset(
    "__launch_bounds__ __attribute__ alignas __align__ __declspec decltype noexcept throw "
    "__cluster_dims__ __maxnreg__ __block_size__ requires explicit".split()
)
MOST_SCOPES = 64
"""Limit of nested namespaces."""
OPEN, CLOSE = {"(": ")", "[": "]", "{": "}"}, (")", "]", "}")


@dataclass(frozen=True)
class Token:
    """A word, number, sign or literal, and its position."""

    text: str
    at: int
    word: bool = False

    @property
    def end(self) -> int:
        return self.at + len(self.text)


Stream = Sequence[Token]
Tokens = tuple[Token, ...]


@dataclass(frozen=True)
class Declaration:
    """A declaration, from its first character to the one after its last.

    kind: ``function``, ``type``, ``variable`` or ``other`` (using, static_assert, instantiations).
    names: the names that it declares, its main name first; scope: namespaces around it. head: its tokens
    without a function's body; body: those between the braces of a function.
    """

    kind: str
    names: tuple[str, ...]
    scope: tuple[str, ...]
    start: int
    end: int
    head: Tokens
    body: Tokens = ()

    @property
    def name(self) -> str:
        return self.names[0] if self.names else ""

    @functools.cached_property
    def identifiers(self) -> frozenset[str]:
        return frozenset(token.text for token in (*self.head, *self.body) if token.word)

    @functools.cached_property
    def called(self) -> frozenset[str]:
        """Identifiers before a parenthesis or angle bracket, or after an address operator."""
        tokens = (*self.head, *self.body)
        return frozenset(
            token.text
            for before, token, after in zip((None, *tokens), tokens, (*tokens[1:], None))
            if token.word and ((after and after.text in "(<") or (before and before.text == "&"))
        )

    @property
    def defined(self) -> bool:
        return self.kind == "function" and self.head[-1].end < self.end


@dataclass(frozen=True)
class Macro:
    """A ``#define``: its arguments (None for an object-like macro) and its text."""

    name: str
    arguments: tuple[str, ...] | None
    body: str

    @functools.cached_property
    def identifiers(self) -> frozenset[str]:
        return frozenset(WORD.findall(self.body))


class Unreadable(ValueError):
    """Unbalanced braces, which conditional compilation can cause."""


def _holds(test: str, values: Mapping[str, str | None], macro_names: Set[str] | None) -> float:
    """Return 1 if the condition of an ``#if`` holds, 0 if not; 0.5 if other files may say, or it is not simple."""
    match = TEST.fullmatch(test)
    no, defined, name = match.groups() if match else ("", "", "_")
    here = name in values
    unknown = macro_names is None or name in macro_names or name.startswith(PREDEFINED)
    value = values.get(name, None if unknown else "0")
    if value is None or not (defined or value.isdigit()):
        return 0.5
    return float((here if defined else int(value) > 0) != bool(no))


def _active(text: str, macro_names: Set[str] | None) -> Iterator[re.Match[str]]:
    """Yield the tokens and directives of a text outside of comments and of branches that are certainly inactive."""
    values: dict[str, str | None] = {"0": "0", "1": "1", "else": "1"}
    # Of each open conditional: whether its branch is active, and whether it or an earlier one is; 0.5 if unknown.
    least, branches = 1.0, list[tuple[float, float]]()
    for match in TOKEN.finditer(text):
        if match["directive"]:
            _, word, *parts = [*re.findall(r"\w+|[^\s\w]", LITERAL.sub(" ", match[0])), "", ""]
            test = " ".join(parts).strip() if word != "else" else word
            if word.startswith("if") or (word.startswith("el") and branches):
                test = "! " * word.endswith("ndef") + "defined " * word.endswith("def") + test
                _, done = branches.pop() if word[0] == "e" else (0, 0)
                on = min(1 - done, _holds(test, values, macro_names))
                branches.append((on, max(on, done)))
            elif word == "endif" and branches:
                branches.pop()
            elif word in ("define", "undef") and least:
                name, _, body = test.partition(" ")
                values[name] = body if word == "define" and least == 1 else None
            least = min((on for on, _ in branches), default=1.0)
        if least and match["comment"] is None and match[0] != "\\":  # a line that goes on
            yield match


@functools.lru_cache(maxsize=256)
def macros(text: str, macro_names: Set[str] | None = None) -> dict[str, Macro]:
    """Return the active macros that a text defines, by name; the first of several definitions counts."""
    by_name: dict[str, Macro] = {}
    for token in _active(text, macro_names):
        if definition := DEFINE.match(token["directive"] or ""):
            arguments = definition["arguments"]
            names = None if arguments is None else tuple(WORD.findall(arguments))
            body = LITERAL.sub(lambda of: " " if of["comment"] else of[0], definition["body"])
            body = body.replace("\\\n", " ")
            by_name.setdefault(definition["name"], Macro(definition["name"], names, body.strip()))
    return by_name


@functools.lru_cache(maxsize=256)
def tokens(text: str, macro_names: Set[str] | None = None) -> Tokens:
    """Return the active tokens of a text without preprocessor lines. macro_names: names of all macros, None: any."""
    active = (match for match in _active(text, macro_names) if not match["directive"])
    return tuple(Token(of[0], of.start(), of["word"] is not None) for of in active)


def closing(stream: Stream, start: int) -> int:
    """Return the index of the bracket that closes the one at ``start``. Raises Unreadable."""
    waiting = []
    for i in range(start, len(stream)):
        text = stream[i].text
        if text in OPEN:
            waiting.append(OPEN[text])
        elif text in CLOSE:
            if not waiting or waiting.pop() != text:
                break
            if not waiting:
                return i
    raise Unreadable(stream[start].text)


def angle(stream: Stream, start: int) -> int:
    """Return the index of the ``>`` that closes the ``<`` at ``start``. Raises Unreadable."""
    depth, i = 0, start
    while i < len(stream):
        text = stream[i].text
        if text in OPEN:
            i = closing(stream, i)
        elif text == "<":
            depth += 1
        elif text == ">":
            depth -= 1
            if not depth:
                return i
        elif text == ";":
            break
        i += 1
    raise Unreadable("<")


def after_template(stream: Stream, start: int) -> int | None:
    """Return the index of the parenthesis of a call that begins at ``start``, perhaps with a template's arguments."""
    with contextlib.suppress(Unreadable, IndexError):
        start = angle(stream, start) + 1 if stream[start].text == "<" else start
        return start if stream[start].text == "(" else None
    return None


def plain_head(head: Stream) -> list[Token]:
    """Return a head without ``template <...>`` and attributes with their arguments."""
    plain, i = [], 0
    while i < len(head):
        token = head[i]
        follows = head[i + 1].text if i + 1 < len(head) else ""
        if token.text == "template" and follows == "<":
            i = angle(head, i + 1)
        elif token.text in ATTRIBUTES and follows == "(":
            i = closing(head, i + 1)
        elif token.text == "[" and follows == "[":
            i = closing(head, i)
        else:
            plain.append(token)
        i += 1
    return plain


def _name_before(head: Stream, end: int) -> str:
    """Return the identifier that ends before index ``end``; of ``name<...>`` the name."""
    depth = 0
    for token in head[end - 1 :: -1] if end else ():
        depth += {">": 1, "<": -1}.get(token.text, 0)
        if not depth and token.text != "<":
            return token.text if token.word else "operator"
    return ""


def signs(head: Stream, wanted: str) -> list[int]:
    """Return the indices of these signs outside of all brackets."""
    indices, i = [], 0
    while i < len(head):
        # The `=` of `operator==` is no initialiser.
        operator = any(token.text == "operator" for token in head[max(0, i - 2) : i])
        if head[i].text in wanted and not (operator and head[i].text == "="):
            indices.append(i)
        i = closing(head, i) + 1 if head[i].text in OPEN else i + 1
    return indices


def _described(head: Stream) -> tuple[str, tuple[str, ...]]:
    """Return the kind and names of a declaration without a function's body."""
    plain = plain_head(head)
    texts = [token.text for token in plain]
    if not texts or texts[0] in ("static_assert", "namespace", "template", "friend", "asm"):
        return "other", ()
    if texts[0] == "using":
        name = texts[texts.index("=") - 1] if "=" in texts else texts[-2]
        return "other", () if texts[1:2] == ["namespace"] else (name,)
    parens = signs(plain, "(")
    equals = signs(plain, "=")
    kind = next((i for i, text in enumerate(texts) if text in TYPES), None)
    if kind is not None and not (parens and "{" not in texts):
        inside = plain[kind + 1 : texts.index("{")] if "{" in texts else plain[kind + 1 : -1]
        names = [token.text for token in inside if token.word]
        names = [name for name in names if name not in (*TYPES, "final")][:1]
        if "enum" in texts[: kind + 1] and "{" in texts:  # its values are names of the outer scope
            start = texts.index("{")
            names += [token.text for token in plain[start : closing(plain, start)] if token.word]
        after = texts[closing(plain, texts.index("{")) + 1 :] if "{" in texts else []
        return "type", tuple(dict.fromkeys([*names, *filter(WORD.fullmatch, after)]))
    if texts[0] == "typedef":
        pointer = [index for index in parens if texts[index + 1] == "*"]
        return "type", (texts[pointer[0] + 2] if pointer else texts[-2],)
    if parens and not (equals and equals[0] < parens[0]):
        return "function", (_name_before(plain, parens[0]),)
    names = [_name_before(plain, i) for i in signs(plain, "=[;,{") if i and plain[i - 1].word]
    return "variable", tuple(dict.fromkeys(names))


def _scan(
    stream: Stream, scope: tuple[str, ...], making: Set[str] = frozenset()
) -> Iterable[Declaration]:
    """Yield declarations. making: macros whose calls are declarations, also without a semicolon."""
    i = start = 0
    while i < len(stream):
        text = stream[i].text
        if i == start and text in making and i + 1 < len(stream) and stream[i + 1].text == "(":
            start = closing(stream, i + 1) + 1
            start += [token.text for token in stream[start : start + 1]] == [";"]
            call = tuple(stream[i:start])
            yield Declaration("other", (), scope, call[0].at, call[-1].end, call)
            i = start
            continue
        head = stream[start:i] if text in ";{" else ()
        if text == ";":
            if head:
                declared = tuple(stream[start : i + 1])
                kind, names = _described(declared)
                yield Declaration(kind, names, scope, head[0].at, stream[i].end, declared)
            start = i + 1
        elif text == "{":
            end = closing(stream, i)
            texts = [token.text for token in head]
            if len(scope) > MOST_SCOPES:
                raise Unreadable("{")
            if "namespace" in texts[:2] or (texts[:1] == ["extern"] and len(texts) == 2):
                no_names = ("namespace", "inline", "extern")
                inner = [token.text for token in head if token.word and token.text not in no_names]
                yield from _scan(stream[i + 1 : end], (*scope, *inner), making)
                start = end + 1
            elif _is_body(head):
                _, names = _described([*head, Token(";", stream[i].at)])
                start, stop, body = head[0].at, stream[end].end, tuple(stream[i + 1 : end])
                yield Declaration("function", names, scope, start, stop, tuple(head), body)
                start = end + 1
            i = end
        elif text in OPEN:
            i = closing(stream, i)
        elif text in CLOSE:
            raise Unreadable(text)
        i += 1
    if rest := tuple(stream[start:]):  # a macro without a semicolon
        yield Declaration("other", (), scope, rest[0].at, rest[-1].end, rest)


def _is_body(head: Stream) -> bool:
    """Return whether a brace after this head opens a function's body."""
    plain = plain_head(head)
    texts = [token.text for token in plain]
    parens = signs(plain, "(")
    if not parens or texts[0] in ("using", "typedef") or signs(plain, "="):
        return False
    first = texts[: parens[0]]
    # `struct A f() {` is a function; `struct A : B<decltype(x)> {` has lost its parenthesis above.
    if any(word in TYPES for word in first) and len(first) < 3:
        return False
    colons = [i for i in signs(plain, ":") if i > parens[0]]
    # A member initialised in braces: `A::A() : x{1} {`.
    return not (colons and plain[-1].word)


@functools.lru_cache(maxsize=2048)
def declarations(text: str, macro_names: Set[str] | None = None) -> tuple[Declaration, ...]:
    """Return the declarations of a text in their order. Raises Unreadable."""
    defined = macros(text, macro_names).items()
    making = {name for name, macro in defined if macro.arguments is not None and "{" in macro.body}
    return tuple(_scan(tokens(text, macro_names), (), making))


def members(text: str, declaration: Declaration) -> tuple[Declaration, ...]:
    """Return the declarations inside a type's braces. Raises Unreadable."""
    head = declaration.head
    start = next((i for i, token in enumerate(head) if token.text == "{"), None)
    if start is None:
        return ()
    inner = list(head[start + 1 : closing(head, start)])
    for i, token in enumerate(inner[:-1]):  # `public:` begins no declaration
        if token.text in ("public", "private", "protected") and inner[i + 1].text == ":":
            inner[i] = inner[i + 1] = Token(";", token.at)
    return tuple(_scan(inner, (*declaration.scope, declaration.name)))


def line_of(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1
