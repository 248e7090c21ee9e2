"""The figure of work and traffic, drawn from invented measurements."""

from dataclasses import replace
from typing import Any

import pandas as pd
import pytest
from matplotlib.figure import Figure

import synthetic
import synthetic_studies
from tilewave.basics.errors import UserError
from tilewave.plots import base, check_options, traffic
from tilewave.plots.base import StudyData
from tilewave.plots.style import Style

THIN = "cublas-typef16_f32@8192x8192x128"
NAIVE = "matmul_naive@256x384x128"


def row(study: StudyData, case: str) -> dict[str, Any]:
    table = traffic.table(study)
    return {str(k): v for k, v in table[table["case"] == case].iloc[0].to_dict().items()}


def test_the_documents_example_has_its_bound_on_this_gpu() -> None:
    thin = row(synthetic_studies.traffic(), THIN)
    assert thin["intensity (FLOP/byte)"] == pytest.approx(124.1, abs=0.05)
    # The fastest f16 probe: 800 TFLOP/s over 4 TB/s; below it 124.12 * 4 are attainable.
    assert thin["balance of this GPU (FLOP/byte, measured ceilings)"] == pytest.approx(200)
    assert thin["bound on this GPU (model)"] == "memory"
    assert thin["TFLOP/s / attainable (%)"] == pytest.approx(100 * 400 / (4 * 128 / 1.03125))
    # 138,412,032 bytes at 4 TB/s.
    assert thin["least duration (us, model)"] == pytest.approx(34.603008)
    assert thin["DRAM bytes / compulsory (counted)"] == pytest.approx(1.1)


def test_the_balance_is_that_of_the_dtype() -> None:
    vector = row(synthetic_studies.traffic(), "matmul_naive@8192x1x8192")
    # 60 TFLOP/s over 4 TB/s.
    assert vector["balance of this GPU (FLOP/byte, measured ceilings)"] == pytest.approx(15)


def test_loads_of_the_naive_product_are_those_without_reuse() -> None:
    naive = row(synthetic_studies.traffic(), NAIVE)
    requested = "loads of an element of A and B, asked for by lanes ({})"
    # 2 * 256 * 384 * 128 over 256 * 128 + 128 * 384 elements, and counted requests say the same.
    modelled, counted = (naive[requested.format(kind)] for kind in ("model", "counted"))
    assert modelled == counted == pytest.approx(307.2)
    for name in ("load requests", "load sectors", "store requests", "store sectors"):
        assert naive[f"{name} (model)"] == naive[f"{name} (counted)"]
    tiled = row(synthetic_studies.traffic(), "matmul_tiled@2048x2048x2048")
    assert tiled[requested.format("model")] == 128


@pytest.mark.parametrize(
    "study",
    [
        synthetic_studies.traffic(ceilings=False),
        synthetic_studies.traffic(probe_environment="here"),
        synthetic_studies.traffic(verdict="wrong"),
    ],
    ids=["no ceiling", "another GPU's ceiling", "wrong"],
)
def test_no_share_without_a_ceiling_of_the_same_machine_or_of_a_wrong_case(study) -> None:
    assert not base.present(row(study, THIN)["TFLOP/s / attainable (%)"])
    shown = [text for text, _ in synthetic.texts_of(synthetic.draw(traffic, study, Style()))]
    assert not any(text.startswith("80.6 %") for text in shown)


def test_accesses_that_are_none() -> None:
    check_options("traffic", {"accesses": synthetic_studies.ACCESSES})
    for kernel, pattern in (
        ({"a": {"lanes": 4}}, r"accesses\.matmul_naive\.a: unknown key lanes.*rows"),
        ({"a": {"rows": 9, "columns": 8}}, r"accesses\.matmul_naive\.a.*32 lanes"),
        ({"d": {}}, "unknown key d"),
        ({"tile": [1, 2]}, r"accesses\.matmul_naive\.tile"),
    ):
        with pytest.raises(UserError, match=pattern):
            check_options("traffic", {"accesses": {"matmul_naive": kernel}})
    # An access that does not divide the tile predicts nothing.
    odd = row(
        synthetic_studies.traffic(accesses={"matmul_tiled": {"a": {"rows": 1, "columns": 32}}}),
        "matmul_tiled@2048x2048x2048",
    )
    assert not base.present(odd["load requests (model)"])


def test_no_prediction_for_columns() -> None:
    full = synthetic_studies.traffic()
    layouts = '{"a": "row", "b": "col", "c": "row"}'
    columns = row(replace(full, cases=full.cases.assign(layouts=layouts)), NAIVE)
    assert not base.present(columns["load requests (model)"])
    assert columns["load requests (counted)"] == 786432


@pytest.fixture(scope="module")
def drawn() -> Figure:
    return synthetic.draw(traffic, synthetic_studies.traffic(), Style())


def test_predictions_are_strokes_and_counters_marks(drawn: Figure) -> None:
    at: dict[str, set[float]] = {}
    for points in drawn.axes[0].collections:
        label = str(points.get_label())
        at.setdefault(label, set()).update(round(float(x), 6) for x in points.get_offsets()[:, 0])
    # Naive, tiled, tiled 32 and two outputs, register, double-buffered.
    assert {2048.0, 128.0, 64.0, 32.0, 16.0} <= at.pop("predicted")
    assert {2048.0, 128.0, 64.0} <= set().union(*at.values())


def test_a_panel_has_a_single_gpu(drawn: Figure) -> None:
    assert not any("V100" in text for text, _ in synthetic.texts_of(drawn))


def test_no_variant_stands_at_another_shape() -> None:
    naive = "matmul_naive@2048x2048x2048"
    study = synthetic.changed(synthetic_studies.traffic(), {"status": "stale"}, case=naive)
    (ax,) = synthetic.draw(traffic, study, Style()).axes
    assert len(synthetic.labels(ax)) == 5 and "matmul_naive" not in synthetic.labels(ax)
    assert "up to 8 times" in synthetic.finding("traffic", study), "from 128 to 16 loads"


def test_nothing_measured() -> None:
    bare = synthetic.empty("traffic")
    assert "No traffic" in synthetic.said(synthetic.draw(traffic, bare, Style(width_mm=86)))
    assert len(traffic.table(bare)) == 13, "no row of a ceiling"


@pytest.mark.parametrize("kept", [slice(0, 6), slice(6, 13)], ids=["above", "below"])
def test_half_of_it(kept: slice) -> None:
    full = synthetic_studies.traffic()
    cases = pd.concat([full.cases.iloc[kept], full.cases.iloc[13:]])
    records = full.records[full.records["case"].isin(cases["case"])]
    synthetic.draw(traffic, replace(full, cases=cases, records=records), Style())
