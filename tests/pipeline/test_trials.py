"""The judge's trials: each flaw is found by the trial that is meant for it, and right kernels pass all."""

from pathlib import Path

import pytest

import executing_support as support
from samples import ROOT, kernel_parts, needs_nvrtc, table, write_kernel
from tilewave.kernel import inputs, operations
from tilewave.pipeline import trials
from tilewave.pipeline.cases import Case

pytestmark = needs_nvrtc
TARGET = {"device": support.device("sm_90"), "arch": 90}
CASES = table("trials")


def judged(path: Path, shape: str | None = None) -> list[trials.TrialResult]:
    variant = support.choose(path)
    case = Case(variant, support.shape_of(variant, shape) if shape else None)
    entry = support.entry(variant, "sm_90")
    return trials.judged(case, "sm_90", TARGET, entry, budget_s=60)


def flawed(folder: Path, **flaw: str) -> Path:
    front, body = kernel_parts("tried")
    for place, text in {**CASES["right"], **flaw}.items():
        front, body = front.replace(place, text), body.replace(place, text)
    return write_kernel(folder, "flawed", front, body)


@pytest.mark.parametrize(("flaw", "trial", "reason"), CASES["flaws"])
def test_a_flaw_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flaw: dict[str, str], trial: str, reason: str
) -> None:
    monkeypatch.setattr(trials.JUDGE, "cubes", (131,))
    results = judged(flawed(tmp_path, **flaw))
    worst = trials.worst(results)
    assert (worst.trial.name, worst.result.verdict) == (trial, "wrong"), trials.summary(results)
    assert worst is results[-1] and reason in worst.result.reason


def test_a_softmax_that_drops_a_nan_is_wrong(tmp_path: Path) -> None:
    text = (ROOT / "kernels/operations/softmax_online.cu").read_text()
    path = tmp_path / "softmax_online.cu"
    path.write_text(text.replace("{row[j], 1}", "isnan(row[j]) ? seen : Running{row[j], 1}"))
    worst = trials.worst(judged(path))
    assert (worst.trial.kind, worst.result.verdict) == (inputs.SPECIAL, "wrong")


def test_launches_run_blocks_in_both_orders(tmp_path: Path) -> None:
    worst = trials.worst(judged(flawed(tmp_path, **CASES["counting"])))
    assert (worst.trial.name, worst.result.verdict) == ("other alpha and beta", "race")
    assert "reads byte 0 (element 0) of" in worst.result.reason


def test_an_overwritten_input_is_wrong(tmp_path: Path) -> None:
    """Block (0, 0, 0) changes a row that other blocks read: operand, element, line and thread are named."""
    path = flawed(tmp_path, AFTER="if (x == 3 && y == 2) a[2 * k + 5] = 7")
    worst = trials.worst(judged(path)).result
    faults = {fault["kind"]: fault for fault in worst.notes["faults"]}
    assert worst.verdict == "wrong" and "; A[2, 5] of this input was" in worst.reason
    assert set(faults) == {"overwritten input", "race"}
    overwritten = faults["overwritten input"]
    assert {overwritten["line"]} == support.marked(path, "the last line")
    assert overwritten["threads"] == [{"block": [0, 0, 0], "thread": [3, 2, 0]}]


def test_a_right_kernel_passes_all_trials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials.JUDGE, "cubes", (131,))
    results = judged(flawed(tmp_path), "40")
    assert all(outcome.right for outcome in results), trials.summary(results)
    assert results[0].trial.sizes == {"m": 40, "n": 40, "k": 40}
    kinds = {outcome.trial.kind for outcome in results}
    assert kinds == set(inputs.KINDS) and results[-1].trial.large
    assert "(alpha, beta) = (1, 0), (0.75, -0.5)" in results[0].result.notes["inputs"]


@pytest.mark.parametrize(
    ("file", "first", "tile"),
    [
        ("tests/foreign/sgemv_warp.cu", {"m": 129, "n": 1, "k": 56}, {"m": 3, "n": 1}),
        ("kernels/operations/transpose_tiled.cu", {"m": 129, "n": 67}, {"m": 31, "n": 31}),
        ("kernels/ladder/matmul_wgmma.cu", {"m": 129, "n": 68, "k": 56}, {}),
    ],
)
def test_shapes_are_those_that_the_variant_takes(file: str, first: object, tile: object) -> None:
    chosen = trials.trials(support.choose(ROOT / file), None, {**TARGET["device"], "arch": 90})
    assert chosen[0].sizes == first
    below = next(trial for trial in chosen if trial.name == "below the tile")
    assert tile.items() <= below.sizes.items()


def test_an_operation_of_a_user_has_uniform_numbers_only(
    alone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may inherit a product's reference and clamp it, so neither NaN nor random vectors are for it."""
    monkeypatch.setattr(trials.JUDGE, "cubes", (131,))
    (alone / "relu.py").write_text(
        "import numpy as np\nfrom tilewave.kernel.operations.matmul import Matmul\n\n\nclass Relu(Matmul):\n"
        "    def reference(self, *args):\n"
        '        return {"c": np.maximum(super().reference(*args)["c"], 0)}\n'
    )
    operations.MODULES.use([alone])
    front, body = kernel_parts("tried")
    for place, text in {**CASES["right"], "RESULT": "fmaxf(alpha * sum + before, 0.f)"}.items():
        body = body.replace(place, text)
    front = front.replace("operation: matmul", "operation: relu")
    results = judged(write_kernel(alone, "clamped", front, body))
    assert {outcome.trial.kind for outcome in results} == {"uniform"}
    assert all(outcome.right for outcome in results), trials.summary(results)


def test_a_probe_has_no_trials() -> None:
    variant = support.choose(ROOT / "kernels/probes/barrier_divergent.cu")
    assert trials.trials(variant, None, {**TARGET["device"], "arch": 90}) == []
