"""`tilewave pick`: the prediction from a shipped recording, and its stated error."""

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


def test_fitted_is_the_nonnegative_least_squares_solution() -> None:
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


def test_work_of_a_launch(raced: list[Raced]) -> None:
    """Stream-K beside the same tiles dealt out whole: 270 tiles of 128 x 128 are three waves of 132."""
    by_name = {racer.variant.id: racer for racer in raced}
    stream_k, persistent = by_name["matmul_dmma_stream_k"], by_name["matmul_dmma_persistent"]
    sizes = (2304, 1920, 4096)
    products = 2304 * 1920 * 4096
    assert persistent.work(sizes)[1:] == (3, products, 1) and stream_k.work(sizes)[1:] == (
        1,
        products,
        1,
    )
    expected = [racer.expected(sizes) for racer in (stream_k, persistent)]
    assert not any(isinstance(racer, str) for racer in expected) and expected[0] < expected[1]  # type: ignore[operator]


@pytest.mark.parametrize("gpu", ["nvidia_h200", "nvidia_h100_80gb_hbm3"])
def test_regret_at_held_out_shapes(gpu: str) -> None:
    """Half of the picks are within 5 % of the fastest, and no pick is faster than the fastest."""
    raced = pick.races(Recorded(GPU.parent / gpu), find_kernels([ROOT / "kernels"]))
    regrets = []
    for dtype in {racer.variant.dtype for racer in raced}:
        racers = [racer for racer in raced if racer.variant.dtype == dtype]
        counts = Counter(at for racer in racers for at in racer.us)
        for at in [at for at, count in counts.items() if count > 2]:
            percent = regret(racers, at)
            assert percent is None or percent >= 0
            regrets += [] if percent is None else [percent]
    assert len(regrets) >= 80 and statistics.median(regrets) <= 5


def test_a_regret_by_hand(raced: list[Raced]) -> None:
    """The regret is the time lost when the slower of two variants is expected to be the faster."""
    first, second = (
        racer for racer in raced if racer.variant.id in ("matmul_naive", "matmul_register")
    )
    at = (4096, 4096, 4096)
    pairs = ((first, second), (second, first))
    swapped = [
        replace(racer, us=racer.us | {at: other_racer.us[at]}) for racer, other_racer in pairs
    ]
    slow, fast = sorted(racer.us[at] for racer in swapped)[::-1]
    assert regret([first, second], at) == 0
    assert regret(swapped, at) == pytest.approx(100 * (slow / fast - 1))
    assert regret([], at) is None


def test_reasons_why_a_variant_is_not_picked(raced: list[Raced]) -> None:
    racer = next(racer for racer in raced if racer.variant.kernel.name == "hgemm_wmma_staged")
    assert "n = 67 is not a multiple of 8" in str(racer.expected((64, 67, 64)))
    assert replace(racer, us={}).expected((64, 64, 64)) == "raced at fewer than 4 shapes"


def test_exit_code_when_no_variant_can_run(raced, capsys, monkeypatch) -> None:
    racer = next(racer for racer in raced if racer.variant.kernel.name == "hgemm_wmma_staged")
    monkeypatch.setattr(pick, "races", lambda *_: [racer])
    assert main(["pick", "64x67x64", "--dtype", racer.variant.dtype, "--gpu", str(GPU)]) == 1
    assert "1 skipped: n = 67 is not a multiple of 8" in capsys.readouterr().out
    monkeypatch.setattr(pick, "races", lambda *_: [])
    assert main(["pick", "64", "--dtype", "f16", "--gpu", str(GPU)]) == 2
    assert "no race is recorded" in capsys.readouterr().err


def test_changed_code_has_no_races(raced: list[Raced]) -> None:
    kernels = find_kernels([ROOT / "kernels"])
    changed = kernels["matmul_naive"]
    text = changed.text.replace("float", "double").replace("REAL", "TYPE")
    kernels["matmul_naive"] = replace(changed, text=text)
    kernels.pop("matmul_tiled")
    names = {racer.variant.kernel.name for racer in pick.races(Recorded(GPU), kernels)}
    assert "matmul_register" in names and not names & {"matmul_naive", "matmul_tiled"}
    assert {"matmul_naive", "matmul_tiled"} <= {racer.variant.kernel.name for racer in raced}


def test_text_and_document(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    arguments = ["pick", "512", "--dtype", "f32", "--gpu", str(GPU)]
    assert main(arguments) == 0
    text = capsys.readouterr().out
    assert main([*arguments, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    first, second = answer["variants"][:2]
    assert answer["shape"] == {"m": 512, "n": 512, "k": 512} and answer["gpu"] == "NVIDIA H200"
    assert [row["us"] for row in answer["variants"]] == sorted(
        row["us"] for row in answer["variants"]
    )
    assert text.index(first["variant"]) < text.index(f"{second['us']:.2f}")
    assert "tune --config only=best,f32 shapes=512x512x512" in text
    assert first["tflops"] == pytest.approx(2e-6 * 512**3 / first["us"])
    regrets = answer["regret_percent"]
    assert (
        f"At {len(regrets)} raced shapes" in text
        and f"{max(regrets.values()):.0f} % at worst" in text
    )
    for at, wrong, said in (
        (1, "0x1x2", "SHAPE"),
        (1, "8x8", "SHAPE"),
        (3, "f31", "did you mean 'f32'"),
        (5, str(tmp_path / "none"), "nvidia_h200"),
        (5, str(tmp_path), "environments.json"),
    ):
        assert main([*arguments[:at], wrong, *arguments[at + 1 :]]) == 2
        assert said in capsys.readouterr().err
