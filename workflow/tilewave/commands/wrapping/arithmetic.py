"""Expressions of the host's code as front matter: ``(N + BN - 1) / BN`` is ``ceil(n / BN)``."""

import ast
import contextlib
import itertools
import random
import re
from collections.abc import Mapping
from typing import Any, cast

from tilewave.commands.wrapping.reading import Source
from tilewave.commands.wrapping.scopes import DTYPES, OF_DEVICE, WHOLE, Scope, parts, spelled
from tilewave.compiling.declarations import OPEN, Stream, Token, Unreadable, closing, tokens
from tilewave.kernel.expressions import ExpressionError, evaluate, names_in
from tilewave.theory.dtypes import SIZES

VECTOR = re.compile(r"(?P<of>float|double|int|uint|uchar|char|half|__half)(?P<many>[234])")
CASTS = WHOLE | {"float", "double"}
CEIL = re.compile(r"(?=.*(ceil|c)_?div|.*div_?(ceil|up)|.*(up|round)_?div).*", re.IGNORECASE)
KEPT = ("min", "max", "ceil", "floor")
SUFFIX = re.compile(r"(?<=[\da-fA-F.])(?:[uUlL]+|[fF](?<!x))$")
BOOLEANS = {"true": "1", "false": "0"}
SIDES = (1, 2, 3, 5, 16, 31, 64, 100, 257, 1000, 4099)
"""Values of names with which two expressions are compared."""
MOST = 40
"""Longest chain of names that stand for each other; a longer one is a circle."""


Names = Mapping[str, str]


class Unknown(ValueError):
    """An expression that front matter cannot have; the message is the part that prevents it."""


def of_tokens(expression: Stream, scope: Scope, names: Names, real: bool = False) -> str:
    """Translate the host's expression. names: ``M`` or ``B * T`` -> ``m``; others get their value. real: of a real
    number, whose quotients may be fractions. Raises Unknown."""
    return ast.unparse(_Translation(scope, names, 0, real).expression(expression))


def plain(expression: Stream, scope: Scope) -> str:
    """Return an expression of the host as a key of ``names``: without casts. Empty if it is not one."""
    try:
        return ast.unparse(_Translation(scope, {}, 0).parsed(expression))
    except Unknown:
        return ""


def number(expression: Stream, scope: Scope) -> int:
    """Return the value of an expression of constants. Raises Unknown."""
    text = of_tokens(expression, scope, {})
    try:
        return int(evaluate(text))
    except (ExpressionError, TypeError, ValueError) as error:
        raise Unknown(text) from error


def outside(source: Source) -> Scope:
    return Scope(source, (), 0)


class _Translation(ast.NodeTransformer):
    """A translation to Python's syntax that replaces names and recognises divisions that round up."""

    def __init__(self, scope: Scope, names: Names, depth: int, real: bool = False) -> None:
        if depth > MOST:
            raise Unknown("names that stand for each other")
        self.scope, self.names, self.depth = scope, {**BOOLEANS, **names}, depth
        self.real = real

    def parsed(self, expression: Stream) -> ast.expr:
        text = spelled(expression)
        try:
            text = self._python(list(expression)).strip()
            return ast.parse(text, mode="eval").body
        except (SyntaxError, Unreadable, IndexError, ValueError) as error:
            raise error if isinstance(error, Unknown) else Unknown(text) from error

    def expression(self, expression: Stream) -> ast.expr:
        translated: ast.expr = self.visit(self.parsed(expression))
        return translated

    def visit(self, node: ast.AST) -> Any:
        """Translate a node; an expression that has a name becomes that name."""
        compound = isinstance(node, ast.BinOp | ast.Attribute | ast.Call)
        if compound and (name := self.names.get(ast.unparse(node))):
            return ast.parse(name, mode="eval").body
        return super().visit(node)

    def _again(self, value: Stream) -> ast.expr:
        scope = self.scope.at_place_of(value)
        return _Translation(scope, self.names, self.depth + 1, self.real).expression(value)

    def _python(self, expression: list[Token]) -> str:
        """Return C++ tokens as an expression of Python, without casts."""
        texts = [token.text for token in expression]
        depths = [texts[:i].count("(") - texts[:i].count(")") for i in range(len(texts))]
        marks = [i for i, text in enumerate(texts) if text in "?:" and not depths[i]]
        if len(marks) > 1 and texts[marks[0]] == "?":
            i, colon = marks[0], marks[-1]
            pieces = expression[:i], expression[i + 1 : colon], expression[colon + 1 :]
            test, yes, no = map(self._python, pieces)
            return f"(({yes}) if ({test}) else ({no}))"
        python, i = "", 0
        while i < len(expression):
            token = expression[i]
            scoped = token.word and texts[i + 1 : i + 2] in ([":"], ["::"])
            dereferenced = token.text == "*" and (not i or texts[i - 1] in tuple("+-*/%<>,"))
            if scoped or dereferenced or token.text in (":", "::"):
                pass
            elif token.text == "sizeof":
                end = closing(expression, i + 1)
                kind = spelled(self.scope.literal(tuple(expression[i + 2 : end])))
                kind = self.scope.source.plain(self.names.get(kind, kind))
                vector = VECTOR.fullmatch(kind)
                element = vector["of"] if vector else kind
                if element not in DTYPES:
                    raise Unknown(f"sizeof({kind})")
                python += f" {SIZES[DTYPES[element]] * int(vector['many'] if vector else 1)} "
                i = end
            elif token.text.endswith("_cast"):
                i = texts.index(">", i)
            elif token.text in OPEN:
                end = closing(expression, i)
                inside = expression[i + 1 : end]
                called = i and (expression[i - 1].word or expression[i - 1].text == ">")
                if called or not all(token.text in CASTS for token in inside):
                    # A comma outside of a call is an operator, whose value is the last one.
                    values = [self._python(list(part)) for part in parts(inside)]
                    python += f"({', '.join(values if called else values[-1:])})"
                i = end
            elif token.text == "/":
                python += "@" if self._divides_real(texts, depths, i) else "//"
            elif token.text == "ceil" and "/" in texts and not self._real(texts[i + 1 :]):
                pass  # a quotient of whole numbers is rounded down before
            elif token.word:
                python += f" {token.text} "
                template = re.match(r"< [^()]* >(?= \()", " ".join(texts[i + 1 :]))
                i += len(template[0].split()) if template else 0
            elif token.text[0].isdigit() or token.text[0] == ".":
                python += SUFFIX.sub("", token.text.replace("'", ""))
            else:
                python += token.text
            i += 1
        return python

    def _divides_real(self, texts: list[str], depths: list[int], at: int) -> bool:
        """Return whether a side of the division at a token is real."""
        cuts = [i for i, text in enumerate(texts) if text in "+-," and depths[i] == depths[at]]
        ends = [i for i in range(at + 1, len(texts)) if i in cuts or texts[i] in "*/%"]
        start = max((i + 1 for i in cuts if i < at), default=0)
        return self._real(texts[start : min(ends, default=len(texts))])

    def _real(self, texts: list[str]) -> bool:
        """Return whether an expression has a real literal or cast, also in the values of its names."""
        source, names = self.scope.source, list(filter(str.isidentifier, texts))
        bodies = [source.macros[name].body for name in names if name in source.macros]
        values = [token.text for name in names for of in self.scope.values(name) for token in of]
        return any(re.search(r"\d\.|\.\d|float|double", of) for of in (*texts, *bodies, *values))

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in self.names:
            return ast.parse(self.names[node.id], mode="eval").body
        source = self.scope.source
        values = [] if node.id in source.near.macros else self.scope.values(node.id)
        if not values and node.id in source.macros:
            macro = source.macros[node.id]
            values = [tokens(macro.body)] if macro.arguments is None else []
        for value in values[::-1]:  # behind a default, the command line's may be unknown
            with contextlib.suppress(*([Unknown] if value is not values[0] else [])):
                return self._again(value)
        raise Unknown(node.id)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        """Translate a side of a dim3, ``block.x``, or a member of a kernel's struct."""
        if f".{node.attr}" in self.names:
            return ast.parse(self.names[f".{node.attr}"], mode="eval").body
        if node.attr in OF_DEVICE:
            return ast.Constant(OF_DEVICE[node.attr])
        if member := self.scope.value(ast.unparse(node)):
            return self._again(member)
        value = self.scope.value(node.value.id) if isinstance(node.value, ast.Name) else None
        if value is None or node.attr not in "xyz":
            raise Unknown(ast.unparse(node))
        sides = parts(value)
        axis = "xyz".index(node.attr)
        return self._again(sides[axis]) if axis < len(sides) else ast.Constant(1)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        listed = parts(self.scope.value(name) or ()) if len(node.args) == 1 else []
        if len(listed) > 1:  # an element of an array, the first where a loop takes each
            at = node.args[0].value if isinstance(node.args[0], ast.Constant) else 0
            return self._again(listed[cast(int, at) % len(listed)])
        for part in ast.walk(node) if name in ("ceil", "floor") else ():
            if isinstance(part, ast.BinOp) and isinstance(part.op, ast.MatMult):
                part.op = ast.Div()
        macro, args = self.scope.source.macros.get(name), list(map(self.visit, node.args))
        if name in CASTS and len(args) == 1:
            return cast(ast.expr, args[0])
        ceiling = len(args) == 2 and (name == "ceil" or CEIL.fullmatch(name))
        returned = None if name in ("min", "max") else self.scope.returned(name, len(args))
        if returned is not None:
            scope, names, value = returned
            arguments = dict(zip(names, map(ast.unparse, args)))
            inner = _Translation(scope, {**self.names, **arguments}, self.depth + 1)
            with contextlib.suppress(*([Unknown] if ceiling else [])):
                return inner.expression(value)
        if ceiling:
            return _ceil(*args)
        if macro is not None and macro.arguments is not None:
            arguments = {name: f"({ast.unparse(of)})" for name, of in zip(macro.arguments, args)}
            inner = _Translation(self.scope, {**self.names, **arguments}, self.depth + 1)
            return inner.expression(tokens(macro.body))
        if name in ("log2", "log2f") and args:  # the whole number that it becomes cuts it off
            return ast.Call(ast.Name("floor"), [ast.Call(ast.Name("log2"), args, [])], [])
        if name not in KEPT:
            raise Unknown(ast.unparse(node))
        node.args = list(map(_divided, args)) if name in ("ceil", "floor") else args
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.op, ast.MatMult):
            node.op = ast.Div() if self.real else ast.FloorDiv()
        if isinstance(node.left, ast.Constant) and isinstance(node.right, ast.Constant):
            try:
                return ast.Constant(evaluate(ast.unparse(node)))
            except ExpressionError as error:  # a division by zero
                raise Unknown(ast.unparse(node)) from error
        return _rounded_up(node)

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        super().generic_visit(node)
        with contextlib.suppress(ExpressionError, TypeError):
            return node.body if evaluate(ast.unparse(node.test)) else node.orelse
        return _rounded_up(node)


def _ceil(over: ast.expr, under: ast.expr) -> ast.expr:
    if isinstance(under, ast.Constant) and under.value == 1:
        return over
    return ast.Call(ast.Name("ceil"), [ast.BinOp(over, ast.Div(), under)], [])


def _divided(node: ast.expr) -> ast.expr:
    """Return a division of real numbers: ``n / 32`` for ``n / 8 / 4``."""
    if ast.unparse(node).startswith("floor(log2("):
        return cast(ast.Call, node).args[0]
    if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv | ast.Div)):
        return node
    over, under = node.left, node.right
    while isinstance(over, ast.BinOp) and isinstance(over.op, ast.Div):
        under = ast.BinOp(over.right, ast.Mult(), under)
        over = over.left
    text = ast.unparse(under)
    return ast.BinOp(over, ast.Div(), under if names_in(text) else ast.Constant(evaluate(text)))


def _rounded_up(node: Any) -> ast.expr:
    """Return ``ceil(x / y)``, or y times that, for another expression with its values, as ``(x + 15) // 16``; others as they
    are."""
    inside = [part for part in ast.walk(node) if isinstance(part, ast.expr)]
    divided = (part for part in inside if isinstance(part, ast.BinOp))
    unders = {ast.unparse(part.right) for part in divided if isinstance(part.op, ast.FloorDiv)}
    text, overs = ast.unparse(node), dict.fromkeys(map(ast.unparse, inside[1:] if unders else ()))
    values = random.Random(0)
    samples = [{name: values.choice(SIDES) for name in names_in(text)} for _ in range(40)]
    for over, under in itertools.product(overs, sorted(unders)):
        with contextlib.suppress(ExpressionError, TypeError):
            for times in ("", f" * ({under})"):
                wanted = f"ceil(({over}) / ({under})){times}" if under != "1" else over
                if all(evaluate(text, sizes) == evaluate(wanted, sizes) for sizes in samples):
                    return ast.parse(wanted, mode="eval").body
    return cast(ast.expr, node)
