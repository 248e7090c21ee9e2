"""The figure of wavefronts: who has excess, in which order, and what it says first."""

import json
from dataclasses import replace

import synthetic
from tilewave.plots import wavefronts
from tilewave.plots.style import Style


def test_the_most_excess_stands_first_and_wrong_cases_last() -> None:
    rows = wavefronts.burdened(wavefronts.table(synthetic.make("wavefronts")))
    told = list(zip(rows["variant"], rows["kind"], strict=True))
    assert told[0] == ("matmul_double_buffered-pad0", "STS")
    assert told[-1] == ("hgemm_wmma_staged-stages2", "LDGSTS") and not rows["ranks"].iloc[-1]
    assert "matmul_tiled" not in set(rows["variant"])


def test_rows_of_several_operations_name_only_unusual_shapes() -> None:
    b = synthetic.Builder("wavefronts")
    for operation, kernel, sizes, counted in (
        ("transpose", "transpose_tiled", {"m": 64, "n": 64}, 320.0),
        ("transpose", "transpose_tiled", {"m": 64, "n": 64}, 310.0),
        ("transpose", "transpose_tiled", {"m": 32, "n": 96}, 300.0),
        ("softmax", "softmax_online", {"rows": 8, "columns": 4096}, 290.0),
    ):
        case = b.case(
            kernel, kernel, "f32", operation=operation, case=f"{kernel}@{len(b.cases)}",
            sizes=json.dumps(sizes),
        )  # fmt: skip
        b.add(case, "check", {"max_error": 0.0}, verdict="correct")
        b.add(case, "counters", {"inst": 1.0})
        b.instruction(case, "LDS", counted, 10.0)
    study = b.study()
    found = wavefronts.table(study)
    assert found.columns[:9].tolist() == "case kernel variant dtype m n k rows columns".split()
    assert found["columns"].tolist()[-1] == 4096
    fig = synthetic.draw(wavefronts, study, Style())
    tiled = ["transpose_tiled LDS", "transpose_tiled LDS", "transpose_tiled 32×96 LDS"]
    assert synthetic.labels(fig.axes[0])[:4] == [*tiled, "softmax_online LDS"]
    told = "Shape transpose 64×64, softmax 8×4096, where no other is named"
    assert told in synthetic.said(fig)


def test_variants_without_excess_are_one_row() -> None:
    study = synthetic.make("wavefronts")
    ax = synthetic.draw(wavefronts, study, Style()).axes[0]
    assert synthetic.labels(ax)[-1] == "no excess: 1 variants"
    clean = replace(study, cases=study.cases[study.cases["variant"] == "matmul_tiled"])
    assert len(synthetic.draw(wavefronts, clean, Style()).axes) == 1
    assert synthetic.finding("wavefronts", clean).startswith("0 of 1 variants")
