"""Judging, drawing and reading of claims, and messages for a file with a mistake."""

import dataclasses
import inspect
import math
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import synthetic
from samples import HOPPER, table
from study_builder import ENVIRONMENT, Builder
from synthetic_studies import LD
from tilewave.basics.errors import UserError
from tilewave.pipeline.project import ROOT
from tilewave.plots import claims
from tilewave.plots import style as look
from tilewave.plots.base import StudyData
from tilewave.plots.claims import forms, judging
from tilewave.plots.claims.facts import Facts
from tilewave.plots.claims.judging import Claim, JudgedClaim, Value, agrees, judge, judge_all

CASES = table("plots")

DATA = Path(__file__).parents[1] / "data" / "claims"
CLAIMS = {claim.id: claim for claim in judging.all_claims()}
CUBE = (4096, 4096, 4096)
TABLES = table("judging")


def study(builder: Builder | None = None) -> StudyData:
    """Return the builder's cases on an H200 with known limits; no cases without a builder."""
    data = (builder or Builder("claims")).study()
    environments = {name: dict(facts) for name, facts in data.environments.items()}
    environments[ENVIRONMENT] |= HOPPER | {"registers_per_block": 65536}
    return dataclasses.replace(data, environments=environments)


def nothing() -> StudyData:
    b = Builder("claims")
    b.case("matmul_naive", "f32", CUBE)
    return study(b)


@pytest.fixture(scope="module")
def recorded() -> StudyData:
    """Return the figures of an H200 for all claims (commit a2b15f2)."""
    rows = pd.read_csv(DATA / "figures.csv", dtype=str, keep_default_na=False)
    b = Builder("claims")
    for case, dtype in rows[["case", "dtype"]].drop_duplicates("case").to_numpy():
        variant, _, place = case.partition("@")
        sizes = tuple(map(int, place.split("x"))) if place[:1].isdigit() else ()
        b.case(variant, dtype, sizes, probe="" if sizes else place)
    for case, metric, value in rows[["case", "metric", "value"]].to_numpy():
        if not metric:
            b.add(case, "check", status=value)
            continue
        text = metric == "kernel_name"
        stage = "time" if metric in ("duration", "tflops") else "counters"
        b.add(case, stage, {metric: math.nan if text else float(value)}, verdict="correct")
        b.records[-1]["text"] = value if text else ""
    return dataclasses.replace(study(b), records=pd.DataFrame(b.records))


def judged(data: StudyData) -> list[JudgedClaim]:
    return judge_all(data, judging.all_claims())


def claim(claimed: Value = 100.0, **more: Any) -> Claim:
    fields = {"section": "1", "row": "Row", "statement": "A sentence", "predicted": "1"} | more
    return Claim(claimed=claimed, **fields)


@pytest.mark.parametrize("relation, good, bad", CASES["relations"])
def test_relations(relation: str, good: tuple[float, ...], bad: tuple[float, ...]) -> None:
    judged_claim = claim(relation=relation, tolerance=0.1)
    assert all(agrees(value, judged_claim) for value in good)
    assert not any(agrees(value, judged_claim) for value in (*bad, math.nan))


def test_claims_of_nothing_and_of_yes_and_no() -> None:
    """A claim of 0 has an absolute tolerance; a number answers no question."""
    assert agrees(0.9, claim(0.0, tolerance=1.0)) and not agrees(1.1, claim(0.0, tolerance=1.0))
    assert not agrees(0.1, claim(0.0))
    assert agrees(True, claim(True)) and agrees(False, claim(False))
    assert not agrees(False, claim(True)) and not agrees(1.0, claim(True))


@pytest.mark.parametrize(
    ("basis", "predicted", "measured", "elsewhere", "verdict", "by"), TABLES["verdicts"]
)
def test_the_verdict_follows_from_the_values(basis, predicted, measured, elsewhere, verdict, by):
    assert judge(claim(basis=basis), predicted, measured, elsewhere) == (verdict, by)
    assert verdict in judging.VERDICTS


def test_every_claim_is_judged_as_ever(recorded: StudyData) -> None:
    """judged.csv has the values of all claims from before they were data; its numbers come from figures.csv."""
    expected = pd.read_csv(DATA / "judged.csv", dtype=str, keep_default_na=False)
    rows = []
    for judgement in judged(recorded):
        claim = judgement.claim
        values = (claim.claimed, judgement.predicted, judgement.measured, judgement.elsewhere)
        rows.append([claim.id, *map(judging.value_text, values), judgement.verdict, judgement.by])
    pd.testing.assert_frame_equal(pd.DataFrame(rows, columns=expected.columns), expected)


def test_all_files_are_read_and_documents_have_plain_names() -> None:
    folder = ROOT / "workflow" / "tilewave" / "plots" / "claims"
    assert sorted(judging.FILES) == sorted(path.name for path in folder.glob("*.yaml"))
    assert len(CLAIMS) == len(judging.all_claims()), "two claims have one id"
    assert not any(re.search(r"[/\d]", named.document) for named in CLAIMS.values())


def test_every_function_is_called_by_a_claim() -> None:
    expressions = " ".join(
        f"{statement.predicted} {statement.measured} {statement.elsewhere}"
        for statement in CLAIMS.values()
    )
    called = {*re.findall(r"(\w+)\(", expressions)}
    functions = dict(inspect.getmembers(forms, inspect.isfunction)) | vars(Facts)
    assert {name for name in functions if not name.startswith("_")} <= called


GOOD = (DATA / "good.yaml").read_text()


def test_claims_of_a_file() -> None:
    first, second = judging.load(DATA / "good.yaml")
    assert (first.id, first.document, second.claimed) == ("first", "A document", 6)
    judgements = judge_all(nothing(), [first, second])
    assert [judgement.predicted for judgement in judgements] == [2, None]
    absent = "no tflops of matmul_naive@4096x4096x4096 (not measured: "
    assert judgements[1].missing.startswith(absent)


@pytest.mark.parametrize(("old", "new", "key", "reason"), TABLES["mistakes"])
def test_a_mistake_is_reported_in_a_line(tmp_path, old, new, key, reason):
    path = tmp_path / "broken.yaml"
    path.write_text(GOOD.replace(old, new))
    with pytest.raises(UserError) as error:
        judge_all(nothing(), judging.load(path))
    message = str(error.value)
    assert message.startswith(f"broken.yaml: {key}") and reason in message
    assert "\n" not in message


def measured(builder: Builder, name: str) -> JudgedClaim:
    return judge_all(study(builder), [CLAIMS[name]])[0]


def two(tflops: float = 10.0, verdict: str = "correct", environment: str = "") -> Builder:
    """Return the cases of the claim `two_outputs`, with these values of the second case."""
    b = Builder("claims")
    b.add(b.case("matmul_two_outputs", "f32", CUBE), "time", {"tflops": 16.0}, verdict="correct")
    second = b.case("matmul_tiled-tile32", "f32", CUBE)
    where = environment or ENVIRONMENT
    b.add(second, "time", {"tflops": tflops}, verdict=verdict, environment=where)
    return b


def test_a_speedup_decides() -> None:
    judgement = measured(two(), "two_outputs")
    assert (judgement.verdict, judgement.measured) == ("does not hold", 1.6)
    assert judgement.over_claimed(judgement.value) == 1.6
    variants = "matmul_two_outputs", "matmul_tiled-tile32"
    assert judgement.read == tuple(f"tflops of {variant}@4096x4096x4096" for variant in variants)
    assert judgement.source == "recorded:NVIDIA H200"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"verdict": "wrong"}, "matmul_tiled-tile32@4096x4096x4096 is wrong"),
        ({"environment": "here"}, "its figures come from several environments"),
        ({"tflops": 0.0}, "its divisor is 0"),
        ({"tflops": math.nan}, "no tflops of matmul_tiled-tile32@4096x4096x4096"),
    ],
)
def test_what_makes_no_ratio(changes: dict[str, Any], why: str) -> None:
    judgement = measured(two(**changes), "two_outputs")
    assert (judgement.verdict, judgement.measured, judgement.missing) == ("not measured", None, why)


def test_executed_counts_stand_beside_those_of_a_gpu() -> None:
    b, counter = Builder("claims"), LD.format("requests")
    for variant, where, count in (
        ("matmul_naive", ENVIRONMENT, 32.0),
        ("matmul_tiled-tile32", "here", 1.0),
    ):
        case = b.case(variant, "f32", (2048, 2048, 2048))
        about = {"verdict": "correct", "environment": where, "source": "executed"}
        b.add(case, "counters", {counter: count}, **about)
    assert measured(b, "tiles_save_loads").measured == 32


def test_half_precision_alone_says_nothing_of_other_types() -> None:
    b = Builder("claims")
    for variant, dtype, counted, expected in (
        ("cublas-typef16_f32", "f16_f32", 2.0 * 4096**3, None),
        ("cublas-typef64", "f64", 0.0, True),
    ):
        case = b.case(variant, dtype, CUBE)
        b.add(case, "counters", {"counted_tensor_flops": counted}, verdict="correct")
        assert measured(b, "tensor_half_only").measured is expected


def test_a_barrier_that_was_not_tried() -> None:
    b = Builder("claims")
    case = b.probe("barrier_divergent", "one_warps_part")
    b.fail(case, "not measured", "no GPU")
    b.probe("barrier_divergent", "one_lanes_part")
    judgement = measured(b, "barrier_reachable")
    assert judgement.verdict == "not measured"
    assert judgement.missing == f"{case} was not run (no GPU)"


@pytest.mark.parametrize("sms", [8, 400])
def test_a_gpu_whose_waves_do_not_end_in_the_sweep(sms: int) -> None:
    data = nothing()
    data = dataclasses.replace(data, target={**data.target, "sms": sms})
    (judgement,) = judge_all(data, [CLAIMS["wave_drop"]])
    assert judgement.predicted is None and f"no wave of {sms} SMs" in judgement.missing


def test_without_a_gpu_nothing_is_said_of_its_waves() -> None:
    nowhere = dataclasses.replace(nothing(), target={}, environments={})
    judgements = {judgement.claim.id: judgement for judgement in judged(nowhere)}
    for name in ("wave_tail", "wave_drop", "wave_longer", "tile_drop", "bound_small"):
        assert (judgements[name].predicted, judgements[name].verdict) == (None, "not measured")
    assert judgements["tensor_half_only"].predicted is None
    assert judgements["shared_small"].missing == "the environment has no shared_per_sm"
    synthetic.draw(claims, nowhere, look.Style())


def test_nothing_measured() -> None:
    for judgement in judged(nothing()):
        if judgement.claim.basis == "measurement" and judgement.claim.measured:
            assert judgement.verdict == "not measured" and judgement.missing, judgement.claim.id


def test_the_table_has_a_row_for_each_claim(recorded: StudyData) -> None:
    table = claims.table(recorded)
    assert list(table["claim"]) == [statement.statement for statement in CLAIMS.values()]
    row = table[table["claim"] == CLAIMS["intensity_large"].statement].iloc[0]
    columns = ["claimed", "predicted", "measured", "verdict", "deviation (%)", "tolerance"]
    assert row[columns].tolist() == ["4096", "2731", "823", "does not hold", -79.9, "10 %"]


def test_a_figure_has_the_documents_and_a_hatch(recorded: StudyData) -> None:
    (ax,) = synthetic.draw(claims, recorded, look.Style()).axes
    assert {claim.document for claim in CLAIMS.values()} == set(synthetic.labels(ax))
    assert {patch.get_hatch() for patch in ax.patches} == {None, "////"}


def test_takeaway_counts_the_verdicts(recorded: StudyData) -> None:
    table = claims.table(recorded)
    counts = table["verdict"].value_counts()
    share = f"{100 * counts['holds'] / len(CLAIMS):.0f} %"
    finding = f"{share} of the claims in lectures and articles hold on NVIDIA H200"
    assert claims.takeaway(recorded, table) == finding
    bare = synthetic.empty("claims")
    for rows in (table[:0], table.assign(verdict="not measured")):
        assert claims.takeaway(bare, rows) == ""
