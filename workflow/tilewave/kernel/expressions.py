"""Arithmetic in front matter and config, evaluated without Python's `eval`: ``f64 if WIDTH == 8 else f32``.
An expression is a number, a keyword (a dtype or layout) or Python-like arithmetic over names."""

import ast
import functools
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

from simpleeval import DEFAULT_OPERATORS, EvalWithCompoundTypes, FeatureNotAvailable

from tilewave.basics.validation import WIDEST
from tilewave.theory.dtypes import DTYPES, SIZES

Names = Mapping[str, Any]
"""Names in expressions and their values."""
Sizes = Mapping[str, int]
"""A shape: the sizes by the names of the dimensions."""
LAYOUTS = ("row", "col")
WORDS: dict[str, Any] = {name: name for name in (*DTYPES, *LAYOUTS)}
WORDS |= {"true": True, "false": False}
LONGEST = 10_000
"""Limit of an expression, in characters."""
MOST_BITS = 128
"""Limit of an intermediate number: a product of two of 64 bits, before its remainder is taken."""
ROUNDING = {"ceil": math.ceil, "floor": math.floor}
FUNCTIONS: dict[str, Callable[..., Any]] = {**ROUNDING, "min": min, "max": max, "abs": abs}
FUNCTIONS |= {"log2": math.log2, "size": SIZES.__getitem__}
FUNCTIONS["power_of_2"] = lambda number: number > 0 and not number & (number - 1)


def _for_arrays(
    plain: Callable[[Any, Any], Any], guarded: Callable[[Any, Any], Any]
) -> Callable[[Any, Any], Any]:
    """Make an operator that skips simpleeval's guard for arrays, whose elements it counts as characters."""

    def apply(left: Any, right: Any) -> Any:
        array = hasattr(left, "__array__") or hasattr(right, "__array__")
        return (plain if array else guarded)(left, right)

    return apply


def _narrow(value: Any) -> Any:
    if isinstance(value, int) and value not in WIDEST:
        raise _TooWide
    return value


def _within(apply: Callable[..., Any]) -> Callable[..., Any]:
    """Make an operator that raises _TooWide for a result over `MOST_BITS`."""

    def limited(*operands: Any) -> Any:
        value = apply(*operands)
        if isinstance(value, int) and abs(value) >> MOST_BITS:
            raise _TooWide
        return value

    return limited


def _power(left: Any, right: Any) -> Any:
    """Return a power. A wide one is refused before it is computed."""
    if isinstance(left, int) and isinstance(right, int) and abs(left) > 1 and right > 64:
        raise _TooWide
    return DEFAULT_OPERATORS[ast.Pow](left, right)


def _remainder(left: Any, right: Any) -> Any:
    """Return a remainder. `%` of a text would be a format, of any width."""
    if isinstance(left, str):
        raise TypeError("a remainder of a text")
    return operator.mod(left, right)


def _shift(left: Any, right: Any) -> Any:
    if isinstance(right, int) and right > 64:
        raise _TooWide
    return operator.lshift(left, right)


_OWN = {
    ast.Add: _for_arrays(operator.add, DEFAULT_OPERATORS[ast.Add]),
    ast.Mult: _for_arrays(operator.mul, DEFAULT_OPERATORS[ast.Mult]),
    ast.Pow: _power,
    ast.Mod: _remainder,
    ast.LShift: _shift,
}
OPERATORS = {kind: _within(apply) for kind, apply in {**DEFAULT_OPERATORS, **_OWN}.items()}
Expression = int | float | str
"""A value in a file: the value itself, or a text to evaluate."""


class ExpressionError(ValueError):
    """An expression without a value, and why. too_wide: the cause is a whole number of more than 64 bits."""

    too_wide = False


class _TooWide(ValueError):
    """A whole number of more than 64 bits."""

    def __init__(self) -> None:
        super().__init__("a whole number of more than 64 bits")


@functools.lru_cache(maxsize=4096)
def _parse(text: str) -> ast.expr:
    """Return an expression's syntax tree. Raises SyntaxError, or ValueError if too long or with null bytes."""
    if len(text) > LONGEST:
        raise ValueError(f"an expression of more than {LONGEST} characters")
    tree = ast.parse(text.strip(), mode="eval").body
    if any(isinstance(node, ast.JoinedStr) for node in ast.walk(tree)):
        raise ValueError("a text with values in it")
    return tree


@functools.lru_cache(maxsize=4096)
def _names_used(text: str) -> tuple[str, ...]:
    try:
        tree = _parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    stored = {node.id for node in names if isinstance(node.ctx, ast.Store)}  # comprehensions
    used = {node.id for node in names if id(node) not in called}
    return tuple(sorted(used - stored - set(WORDS)))


def names_in(text: Any) -> set[str]:
    """Return the names that an expression uses in any branch, but no functions or keywords; none if it is invalid."""
    return set(_names_used(text)) if isinstance(text, str) else set()


@functools.lru_cache(maxsize=1 << 16)
def _cached_value(text: str, values: tuple[tuple[str, type, Any], ...]) -> Any:
    """Return the value of an expression over these names. Their types keep 1, 1.0 and true apart."""
    return _evaluate(text, {name: value for name, _, value in values}, None)


def evaluate(
    text: Any, names: Names | None = None, functions: Mapping[str, Callable[..., Any]] | None = None
) -> Any:
    """Return the cached value of ``text``; numbers and booleans stay as they are. Raises ExpressionError."""
    if not isinstance(text, str):
        return text
    if functions is None:
        scope = names or {}
        try:
            used = tuple((n, type(scope[n]), scope[n]) for n in _names_used(text) if n in scope)
            return _cached_value(text, used)
        except (ExpressionError, TypeError):
            pass  # no value, or an array: again, with all names for the message
    return _evaluate(text, names, functions)


def _evaluate(
    text: str, names: Names | None, functions: Mapping[str, Callable[..., Any]] | None
) -> Any:
    scope, callables = {**WORDS, **(names or {})}, {**FUNCTIONS, **(functions or {})}
    evaluator = EvalWithCompoundTypes(operators=OPERATORS, functions=callables, names=scope)
    try:
        return _narrow(evaluator.eval(text, previously_parsed=_parse(text)))
    except Exception as error:  # simpleeval raises many kinds; all mean: this text has no value
        available = ", ".join(sorted(set(scope) - set(WORDS))) or "none"
        quoted = text if len(text) <= 200 else f"{text[:200]}..."
        why = error.msg if isinstance(error, SyntaxError) else error
        if isinstance(error, FeatureNotAvailable):
            why = "it uses syntax that expressions do not have"
        problem = ExpressionError(f"{quoted!r} has no value: {why}; names known here: {available}")
        problem.too_wide = isinstance(error, _TooWide)
        raise problem from error


def integer(text: Any, names: Names | None = None) -> int:
    """Return the whole number of an expression, as `evaluate`. A float without a fraction counts as one."""
    value = evaluate(text, names)
    is_whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    if isinstance(value, bool) or not is_whole or int(value) not in WIDEST:
        raise ExpressionError(f"{text!r} is {value!r}, not a whole number of 64 bits")
    return int(value)
