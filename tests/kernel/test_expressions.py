"""The evaluator of front matter and config: arithmetic and keywords, without Python's eval."""

import pytest

from samples import table
from tilewave.kernel.expressions import ExpressionError, evaluate, integer
from tilewave.theory.dtypes import SIZES

NAMES = {"n": 130, "sms": 132}


@pytest.mark.parametrize(("text", "value"), table("expressions"))
def test_values(text, value):
    assert evaluate(text, NAMES) == value


REFUSED = "ceil(n /;m + 1;1 / 0;__import__('os');n.__class__;lambda: 1;n = 3;9 ** 9 ** 9;"


@pytest.mark.parametrize("text", REFUSED.split(";"))
def test_refusals_say_what_was_read(text):
    with pytest.raises(ExpressionError) as caught:
        evaluate(text, NAMES)
    assert repr(text) in str(caught.value)
    assert "names known here: n, sms" in str(caught.value)


def test_whole_numbers():
    numbers = [integer(text, NAMES) for text in ("256 * sms", "n / 2", 3.0)]
    assert numbers == [33792, 65, 3] and {*map(type, numbers)} == {int}
    for text in ("n / 4", "f32", True, "n > 1", None, 2.5):
        with pytest.raises(ExpressionError):
            integer(text, NAMES)


def test_sizes_and_additional_functions():
    assert [SIZES[dtype] for dtype in ("f64", "tf32", "bf16", "u8")] == [8, 4, 2, 1]
    assert evaluate("double(n)", NAMES, {"double": lambda x: 2 * x}) == 260
