"""`tilewave pick`: the answer from a shipped recording, and what it says of itself."""

import json
import statistics
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from samples import ROOT
from tilewave.__main__ import main
from tilewave.commands import pick
from tilewave.commands.pick import Raced, fitted, regret
from tilewave.kernel.front_matter import find_kernels
from tilewave.records.recorded import Recorded

GPU = ROOT / "resources" / "recorded" / "nvidia_h200"


@pytest.fixture(scope="module")
def raced() -> list[Raced]:
    return pick.races(Recorded(GPU), find_kernels([ROOT / "kernels"]))


def test_the_nearest_numbers_of_which_none_is_negative() -> None:
    lines, wanted = np.array([[1.0, 1.0], [1.0, 2.0], [1.0, 3.0]]), np.array([3.0, 5.0, 7.0])
    assert fitted(lines / wanted[:, None]) == pytest.approx([1, 2])
    dice = np.random.default_rng(1)
    for _ in range(50):
        rows = dice.random((dice.integers(4, 12), 4)) * 10.0 ** dice.integers(-6, 6, 4)
        each = fitted(rows)
        # No nearer: where a number is positive the slope is zero, and elsewhere it leads to negative ones.
        slope = rows.T @ (rows @ each - 1) / np.linalg.norm(rows, axis=0)
        assert (each >= 0).all() and slope.min() > -1e-9
        assert np.abs(slope[each > 0]).max() < 1e-9


def test_what_a_launch_is_taken_to_do(raced: list[Raced]) -> None:
    """Stream-K beside the same tiles dealt out whole: 270 tiles of 128 x 128 are three waves of 132."""
    by_name = {one.variant.id: one for one in raced}
    dealt, whole = by_name["matmul_dmma_stream_k"], by_name["matmul_dmma_persistent"]
    sizes = (2304, 1920, 4096)
    products = 2304 * 1920 * 4096
    assert whole.work(sizes)[1:] == (3, products, 1) and dealt.work(sizes)[1:] == (1, products, 1)
    expected = [one.expected(sizes) for one in (dealt, whole)]
    assert not any(isinstance(one, str) for one in expected) and expected[0] < expected[1]  # type: ignore[operator]


@pytest.mark.parametrize("gpu", ["nvidia_h200", "nvidia_h100_80gb_hbm3"])
def test_at_shapes_that_are_left_out(gpu: str) -> None:
    """Half of the picks are within 5 % of the fastest; what is said of one is what was measured."""
    raced = pick.races(Recorded(GPU.parent / gpu), find_kernels([ROOT / "kernels"]))
    regrets = []
    for dtype in {one.variant.dtype for one in raced}:
        mine = [one for one in raced if one.variant.dtype == dtype]
        counts = Counter(at for one in mine for at in one.us)
        for at in [at for at, count in counts.items() if count > 2]:
            found = regret(mine, at)
            assert found is None or found >= 0
            regrets += [] if found is None else [found]
    assert len(regrets) >= 80 and statistics.median(regrets) <= 5


def test_a_regret_by_hand(raced: list[Raced]) -> None:
    """Of two variants that are left out at a shape the one that is expected to be faster there is the slower one."""
    first, second = (one for one in raced if one.variant.id in ("matmul_naive", "matmul_register"))
    at = (4096, 4096, 4096)
    pairs = ((first, second), (second, first))
    swapped = [replace(one, us=one.us | {at: other.us[at]}) for one, other in pairs]
    slow, fast = sorted(one.us[at] for one in swapped)[::-1]
    assert regret([first, second], at) == 0
    assert regret(swapped, at) == pytest.approx(100 * (slow / fast - 1))
    assert regret([], at) is None


def test_why_a_variant_is_none(raced: list[Raced]) -> None:
    one = next(one for one in raced if one.variant.kernel.name == "hgemm_wmma_staged")
    assert "n = 67 is not a multiple of 8" in str(one.expected((64, 67, 64)))
    assert replace(one, us={}).expected((64, 64, 64)) == "raced at fewer than 4 shapes"


def test_where_none_can_run(raced, capsys, monkeypatch) -> None:
    one = next(one for one in raced if one.variant.kernel.name == "hgemm_wmma_staged")
    monkeypatch.setattr(pick, "races", lambda *_: [one])
    assert main(["pick", "64x67x64", "--dtype", one.variant.dtype, "--gpu", str(GPU)]) == 1
    assert "1 left out: n = 67 is not a multiple of 8" in capsys.readouterr().out
    monkeypatch.setattr(pick, "races", lambda *_: [])
    assert main(["pick", "64", "--dtype", "f16", "--gpu", str(GPU)]) == 2
    assert "no race is recorded" in capsys.readouterr().err


def test_other_code_than_was_measured_is_left_out(raced: list[Raced]) -> None:
    kernels = find_kernels([ROOT / "kernels"])
    mended = kernels["matmul_naive"]
    text = mended.text.replace("float", "double").replace("REAL", "TYPE")
    kernels["matmul_naive"] = replace(mended, text=text)
    kernels.pop("matmul_tiled")
    found = {one.variant.kernel.name for one in pick.races(Recorded(GPU), kernels)}
    assert "matmul_register" in found and not found & {"matmul_naive", "matmul_tiled"}
    assert {"matmul_naive", "matmul_tiled"} <= {one.variant.kernel.name for one in raced}


def test_text_and_document(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = ["pick", "512", "--dtype", "f32", "--gpu", str(GPU)]
    assert main(words) == 0
    text = capsys.readouterr().out
    assert main([*words, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    first, second = told["variants"][:2]
    assert told["shape"] == {"m": 512, "n": 512, "k": 512} and told["gpu"] == "NVIDIA H200"
    assert [one["us"] for one in told["variants"]] == sorted(one["us"] for one in told["variants"])
    assert text.index(first["variant"]) < text.index(f"{second['us']:.2f}")
    assert "tune --config only=best,f32 shapes=512x512x512" in text
    assert first["tflops"] == pytest.approx(2e-6 * 512**3 / first["us"])
    regrets = told["regret_percent"]
    assert f"At {len(regrets)} shapes" in text and f"{max(regrets.values()):.0f} % at worst" in text
    for at, wrong, said in (
        (1, "0x1x2", "SHAPE"),
        (1, "8x8", "SHAPE"),
        (3, "f31", "did you mean 'f32'"),
        (5, str(tmp_path / "none"), "nvidia_h200"),
        (5, str(tmp_path), "environments.json"),
    ):
        assert main([*words[:at], wrong, *words[at + 1 :]]) == 2
        assert said in capsys.readouterr().err
