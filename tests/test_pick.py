"""`tilewave pick`: the answer from the shipped recording, and what it says of itself."""

from __future__ import annotations

import json
import statistics
from dataclasses import replace
from pathlib import Path

import pytest

from samples import ROOT
from tilewave.command import main
from tilewave.errors import UserError
from tilewave.kernels import find_kernels
from tilewave.picking import Picker
from tilewave.records.recorded import Recorded
from tilewave.theory import calibration, selection

GPU = ROOT / "resources" / "recorded" / "nvidia_h200"


@pytest.fixture(scope="module")
def picker() -> Picker:
    return Picker(Recorded(GPU), find_kernels([ROOT / "kernels"]))


def test_the_fastest_comes_first_with_what_it_spends(picker: Picker) -> None:
    found = picker.answer((2304, 1920, 4096), "f64").candidates
    assert len(found) > 5
    assert [one.us for one in found] == sorted(one.us for one in found)
    for one in found:
        assert sum(one.spent.values()) == pytest.approx(one.us)
        assert tuple(one.spent) == selection.COSTS and min(one.spent.values()) >= 0
        assert one.known.variant.dtype == "f64"
        fitted = {case.sizes for case in one.known.fitted}
        few = len(fitted & calibration.USUAL.keys()) < calibration.LEAST
        assert few or fitted <= set(calibration.SHAPES)
    # Stream-K beside the same tiles dealt out whole: 270 tiles are three waves of 132.
    by_name = {one.known.variant.id: one for one in found}
    dealt, whole = by_name["matmul_dmma_stream_k"], by_name["matmul_dmma_persistent"]
    assert dealt.launch.blocks == 132 and whole.launch.blocks == 270
    assert dealt.us < whole.us and whole.spent[selection.PARTS] == 0


def test_at_shapes_that_took_no_part(picker: Picker) -> None:
    """The median of the regrets is at most 5 %, and the worst at most 15 %, at forty shapes or more, also at those
    of them from which no candidate's costs are taken (of variants with few cases all are)."""
    regrets: list[float] = []
    of_none: list[float] = []
    for dtype in picker.dtypes():
        names = [name for name, one in picker.variants.items() if one.dtype == dtype]
        known = [one for one in map(picker.known, names) if one is not None]
        for sizes in {sizes for one in known for sizes in one.measured}:
            here = [one for one in known if sizes in one.measured]
            taken = [sizes in {case.sizes for case in one.fitted} for one in here]
            if len(here) < 3 or all(taken):
                continue
            there = picker.answer(sizes, dtype).candidates
            measured = {one.known.variant.id: one.measured for one in there if one.measured}
            found = selection.regret(measured, next(iter(measured)))
            regrets.append(found)
            if not any(taken):
                of_none.append(found)
    assert len(regrets) >= 40 and len(of_none) >= 30
    for some in (regrets, of_none):
        assert statistics.median(some) <= 0.05
        assert max(some) <= 0.15


def test_variants_of_a_shape_are_compared_in_one_place(picker: Picker) -> None:
    """A recording has races and times, and may be of several cards; what is known of a shape is of one that has most of it."""
    gpus = {name for name, facts in picker._recorded.environments.items() if facts.get("gpu")}
    places = set(picker._where.values())
    assert {card for card, _ in places} <= gpus and {stage for _, stage in places} == {
        "tune",
        "time",
    }
    for (dtype, shape), place in picker._where.items():
        there = [times for name, one in picker.variants.items() if one.dtype == dtype
                 if (times := picker._times[name].get(shape))]  # fmt: skip
        most = max(sum(other in times for times in there) for other in places)
        assert sum(place in times for times in there) == most


def test_why_a_variant_is_none(picker: Picker) -> None:
    answer = picker.answer((300, 500, 777), "e4m3_f32")
    assert not answer.candidates
    assert any("n = 500 is not a multiple of 8" in why for why in answer.refused)


def test_other_code_than_was_measured_is_left_out(picker: Picker) -> None:
    kernels = find_kernels([ROOT / "kernels"])
    mended = kernels["matmul_naive"]
    text = mended.text.replace("float", "double").replace("REAL", "TYPE")
    kernels["matmul_naive"] = replace(mended, text=text)
    kernels.pop("matmul_tiled")
    found = {one.kernel.name for one in Picker(Recorded(GPU), kernels).variants.values()}
    assert "matmul_register" in found and not found & {"matmul_naive", "matmul_tiled"}
    assert {"matmul_naive", "matmul_tiled"} <= {v.kernel.name for v in picker.variants.values()}


def test_text_and_document(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = ["pick", "512", "--dtype", "f32", "--gpu", str(GPU)]
    assert main(words) == 0
    text = capsys.readouterr().out
    assert main([*words, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    first, second = told["variants"][:2]
    assert told["shape"] == {"m": 512, "n": 512, "k": 512} and told["gpu"] == "NVIDIA H200"
    assert f"{first['variant']}: {first['us']:.2f} us expected" in text
    assert f"runner-up: {second['variant']} would take" in text
    assert f"tune --config only={first['variant']},{second['variant']}," in text
    for case in first["fitted"]:
        assert f"{'x'.join(map(str, case['shape'].values()))}  {case['us']:.2f} us" in text
    assert first["us"] == pytest.approx(sum(first["spent_us"].values()))
    assert first["tflops"] == pytest.approx(2e-6 * 512**3 / first["us"])
    for wrong, place in (("0x1x2", "SHAPE"), ("8x8", "SHAPE")):
        assert main(["pick", wrong, *words[2:]]) == 2
        assert place in capsys.readouterr().err
    assert main([*words[:3], "f31", *words[4:]]) == 2
    assert "did you mean 'f32'" in capsys.readouterr().err
    assert main([*words[:3], "i32", *words[4:]]) == 2
    told = capsys.readouterr().err
    assert (
        "recorded on NVIDIA H200: bf16_f32, " in told
        and "64x480x18364, and call `tilewave record`" in told
    )
    assert main([*words[:5], str(tmp_path / "none")]) == 2
    assert "nvidia_h200" in capsys.readouterr().err
    with pytest.raises(UserError, match=r"environments\.json"):
        Picker(Recorded(tmp_path), {})
