"""Formulas of NumPy as references, and the catalogue by which `check` recognises kernels."""

import math
import re

import numpy as np
import pytest

from samples import table
from tilewave.commands.wrapping import recognising
from tilewave.kernel.operations import formulas

CASES = table("kernel")

A, B = np.arange(12.0), np.array([0.5, 2.0, -1.0, 3.0])
NAMES = {"a": A, "b": B, "u": 4, "s": 2.0, "g": 1, "N": 12, "B": 4, "G": 3}


@pytest.mark.parametrize("formula, expected", CASES["values of formulas"])
def test_values(formula, expected):
    numbers = formulas.value(formula, {**NAMES, "N": len(expected or range(9))})
    if expected is None:  # around each element: itself, those left of and above it
        x = np.pad(A[:9].reshape(3, 3), ((1, 0), (1, 0)))
        expected = (x[:3, :3] + x[:3, 1:] + x[1:, :3] + x[1:, 1:]).ravel()
    if "times" in formula:
        expected = [sum(A[4 * row + at] * B[at] for at in range(4)) for row in range(3)]
    np.testing.assert_allclose(numbers, expected)


def test_sizes_that_do_not_fit_give_no_numbers():
    assert np.isnan(formulas.value("a[:3]", NAMES)).tolist() == [False] * 3 + [True] * 9
    for formula in ("rows(a, 5)", "each(a, 2, 0)", "taken(b, a)"):
        assert np.isnan(formulas.value(formula, NAMES)).all()
    with pytest.raises(MemoryError):
        formulas.value("windows(a, (1 << 24, 1 << 24))", NAMES)


def test_attention_is_a_mean_of_values():
    q, k, v = (np.sin(at * A).reshape(1, 4, 3) for at in (1, 2, 3))
    attention, causal = (formulas.FUNCTIONS[name] for name in ("attention", "causal"))
    numbers = attention(q, k, v, 0.5, causal)
    weights = [math.exp(0.5 * float(q[0, 1] @ k[0, at])) for at in range(2)]
    np.testing.assert_allclose(numbers[0, 1], np.average(v[0, :2], axis=0, weights=weights))


def test_the_catalogue_uses_letters_and_functions_that_exist():
    allowed = formulas.FUNCTIONS.keys() | {*"abcdfuvwrstzegNBG", "int", "None"}
    allowed |= {*recognising.TABLES["named"]}
    for entries in recognising.FORMULAS.values():
        for name, formula in entries.items():
            words = re.findall(r"(?<![.\w'])[A-Za-z_]\w*", re.sub(r"'\w*'", "", formula))
            assert {*words} <= allowed, name
            assert {*re.findall(r"{(\w)}", name)} <= {*words}, name
