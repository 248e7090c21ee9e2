"""Arithmetic in front matter and config, evaluated without Python's own `eval`.

An expression is a number, a word or Python-like arithmetic over the names it is given:
``ceil(n / TILE)``, ``256 * sms``, ``f64 if WIDTH == 8 else f32``. Words for dtypes and layouts
stand for themselves.
"""

import ast
import functools
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

from simpleeval import DEFAULT_OPERATORS, EvalWithCompoundTypes

from tilewave.basics.validation import WIDEST
from tilewave.theory.dtypes import DTYPES, SIZES

LAYOUTS = ("row", "col")
WORDS: dict[str, Any] = {
    **{name: name for name in DTYPES},
    **{name: name for name in LAYOUTS},
    "true": True,
    "false": False,
}


LONGEST = 10_000
"""Letters of an expression."""
MOST_BITS = 128
"""Of a number on the way to a value of 64: a product may be that of two, before its remainder is taken."""
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "ceil": math.ceil,
    "floor": math.floor,
    "min": min,
    "max": max,
    "abs": abs,
    "size": SIZES.__getitem__,
}


def _for_arrays(
    plain: Callable[[Any, Any], Any], guarded: Callable[[Any, Any], Any]
) -> Callable[[Any, Any], Any]:
    """An operator without simpleeval's guard where an array takes part: the guard counts an array's
    elements as if they were a text's letters."""

    def apply(left: Any, right: Any) -> Any:
        array = hasattr(left, "__array__") or hasattr(right, "__array__")
        return (plain if array else guarded)(left, right)

    return apply


def _narrow(value: Any) -> Any:
    """A value as it is. Raises _TooWide."""
    if isinstance(value, int) and value not in WIDEST:
        raise _TooWide
    return value


def _within(apply: Callable[..., Any]) -> Callable[..., Any]:
    """An operator that has no value where that is too wide to go on with."""

    def limited(*given: Any) -> Any:
        value = apply(*given)
        if isinstance(value, int) and abs(value) >> MOST_BITS:
            raise _TooWide
        return value

    return limited


def _power(left: Any, right: Any) -> Any:
    """A power; one that would be wide is not computed."""
    if isinstance(left, int) and isinstance(right, int) and abs(left) > 1 and right > 64:
        raise _TooWide
    return DEFAULT_OPERATORS[ast.Pow](left, right)


def _remainder(left: Any, right: Any) -> Any:
    """A remainder; `%` of a text would be a format, and that as wide as it asks for."""
    if isinstance(left, str):
        raise TypeError("a remainder of a text")
    return operator.mod(left, right)


def _shift(left: Any, right: Any) -> Any:
    if isinstance(right, int) and right > 64:
        raise _TooWide
    return operator.lshift(left, right)


OPERATORS = {
    kind: _within(apply)
    for kind, apply in {
        **DEFAULT_OPERATORS,
        ast.Add: _for_arrays(operator.add, DEFAULT_OPERATORS[ast.Add]),
        ast.Mult: _for_arrays(operator.mul, DEFAULT_OPERATORS[ast.Mult]),
        ast.Pow: _power,
        ast.Mod: _remainder,
        ast.BitXor: operator.xor,
        ast.BitAnd: operator.and_,
        ast.BitOr: operator.or_,
        ast.LShift: _shift,
        ast.RShift: operator.rshift,
    }.items()
}


Expression = int | float | str
"""What a file may have where a value is asked for: the value, or a text that has it."""


class ExpressionError(ValueError):
    """An expression that cannot be evaluated; the message says why and which names exist. too_wide: because
    of a whole number of more than 64 bits."""

    too_wide = False


class _TooWide(ValueError):
    """A whole number that 64 bits do not hold."""

    def __init__(self) -> None:
        super().__init__("a whole number of more than 64 bits")


@functools.lru_cache(maxsize=4096)
def _parse(text: str) -> ast.expr:
    """The syntax tree of one expression; statements such as ``n = 3`` are refused.

    Raises SyntaxError, or ValueError for text with null bytes or too much of it.
    """
    if len(text) > LONGEST:
        raise ValueError(f"an expression of more than {LONGEST} letters")
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
    loop_names = {
        node.id for node in names if isinstance(node.ctx, ast.Store)
    }  # of a comprehension
    used = {node.id for node in names if id(node) not in called}
    return tuple(sorted(used - loop_names - set(WORDS)))


def names_in(text: Any) -> set[str]:
    """Names that an expression asks for in any of its branches, without functions and words.

    Empty for text that is no expression: `evaluate` says what is wrong with it.
    """
    return set(_names_used(text)) if isinstance(text, str) else set()


@functools.lru_cache(maxsize=1 << 16)
def _cached_value(text: str, values: tuple[tuple[str, type, Any], ...]) -> Any:
    """The value of an expression over these names; the type keeps 1, 1.0 and true apart."""
    return _evaluate(text, {name: value for name, _, value in values}, None)


def evaluate(
    text: Any,
    names: Mapping[str, Any] | None = None,
    functions: Mapping[str, Callable[..., Any]] | None = None,
) -> Any:
    """Value of ``text`` (numbers and booleans are returned as they are).

    A project asks the same few expressions thousands of times, so values are kept.
    Raises ExpressionError for a syntax error, an unknown name or an arithmetic error.
    """
    if not isinstance(text, str):
        return text
    if functions is None:
        scope = names or {}
        try:
            used = tuple((n, type(scope[n]), scope[n]) for n in _names_used(text) if n in scope)
            return _cached_value(text, used)
        except (ExpressionError, TypeError):  # no value, or an array: again, with all names to tell
            pass
    return _evaluate(text, names, functions)


def _evaluate(
    text: str,
    names: Mapping[str, Any] | None,
    functions: Mapping[str, Callable[..., Any]] | None,
) -> Any:
    scope = {**WORDS, **(names or {})}
    evaluator = EvalWithCompoundTypes(
        operators=OPERATORS, functions={**FUNCTIONS, **(functions or {})}, names=scope
    )
    try:
        return _narrow(evaluator.eval(text, previously_parsed=_parse(text)))
    except Exception as error:  # simpleeval raises many kinds; all mean: this text has no value
        available = ", ".join(sorted(set(scope) - set(WORDS))) or "none"
        said = text if len(text) <= 200 else f"{text[:200]}..."
        problem = ExpressionError(f"{said!r} has no value: {error}; names known here: {available}")
        problem.too_wide = isinstance(error, _TooWide)
        raise problem from error


def integer(text: Any, names: Mapping[str, Any] | None = None) -> int:
    """Like `evaluate`, for a whole number; a float with no fraction counts as one."""
    value = evaluate(text, names)
    whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    if isinstance(value, bool) or not whole or int(value) not in WIDEST:
        raise ExpressionError(f"{text!r} is {value!r}, not a whole number of 64 bits")
    return int(value)
