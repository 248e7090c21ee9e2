"""The evaluator of front matter and config: arithmetic and words, nothing of Python's own."""

import pytest

from tilewave.dtypes import SIZES
from tilewave.expressions import ExpressionError, evaluate, integer

NAMES = {"n": 130, "sms": 132}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (7, 7),
        (True, True),
        ("ceil(n / 16)", 9),
        ("256 * sms", 33792),
        ("n // 16 + n % 16", 10),
        ("2 ** 5", 32),
        ("min(n, 100) + max(1, 2)", 102),
        ("floor(2.5)", 2),
        ("f64 if n > 128 else f32", "f64"),
        ("row", "row"),
        ("n >= 128 and not n == 129", True),
        ("size(f16) * 8", 16),
        ("n & 7 | 8 << 1 ^ 1", 19),
    ],
)
def test_values(text, value):
    assert evaluate(text, NAMES) == value


def test_own_functions():
    assert evaluate("double(n)", NAMES, {"double": lambda x: 2 * x}) == 260


@pytest.mark.parametrize(
    "text",
    [
        "ceil(n /",
        "m + 1",
        "1 / 0",
        "__import__('os')",
        "n.__class__",
        "(1).__class__.__bases__",
        "open('/etc/passwd')",
        "lambda: 1",
        "n = 3",
        "9 ** 9 ** 9",
        "",
    ],
)
def test_refusals_say_what_was_read(text):
    with pytest.raises(ExpressionError) as caught:
        evaluate(text, NAMES)
    assert repr(text) in str(caught.value)
    assert "names known here: n, sms" in str(caught.value)


@pytest.mark.parametrize(("text", "value"), [("256 * sms", 33792), ("n / 2", 65), (3.0, 3)])
def test_integer(text, value):
    found = integer(text, NAMES)
    assert found == value
    assert type(found) is int


@pytest.mark.parametrize("text", ["n / 4", "f32", True, "n > 1", None, 2.5])
def test_integer_refuses(text):
    with pytest.raises(ExpressionError):
        integer(text, NAMES)


def test_sizes():
    assert [SIZES[dtype] for dtype in ("f64", "tf32", "bf16", "u8")] == [8, 4, 2, 1]
