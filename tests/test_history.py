"""Recordings of several commits, and where their times change."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

import synthetic
from tilewave import plots
from tilewave.comparing import ratios
from tilewave.comparing.change_points import change_points
from tilewave.records import history, model
from tilewave.records.recorded import merge


def runs(*levels: float, noise: float = 0.002, seed: int = 1) -> list[np.ndarray]:
    dice = np.random.default_rng(seed)
    return [100 * level * (1 + dice.normal(0, noise, 20)) for level in levels]


@pytest.mark.parametrize(
    ("levels", "cuts"),
    [
        ((1, 1.02, 0.98, 1.01, 1), []),  # what runs of the same code differ by
        ((1, 1, 1.2, 1.21, 1.19), [2]),
        ((1, 1.2, 1.2, 1, 1.01), [1, 3]),
        ((1, 0.8), [1]),
        ((1,), []),
    ],
)
def test_change_points(levels: tuple[float, ...], cuts: list[int]) -> None:
    found = change_points(runs(*levels), ratios.TWO_RUNS)
    assert [one.at for one in found] == cuts
    for one in found:
        assert one.low <= one.ratio <= one.high
        assert one.ratio == pytest.approx(levels[one.at] / levels[one.at - 1], rel=0.02)


def test_no_change_is_found_where_runs_differ_by_what_two_runs_do() -> None:
    """Six runs, 2 % apart from each other: of 60 series."""
    dice = np.random.default_rng(2)
    series = [runs(*(1 + dice.normal(0, 0.02, 6)), seed=at) for at in range(60)]
    assert np.mean([bool(change_points(one, ratios.TWO_RUNS)) for one in series]) <= 0.02


def test_what_the_table_says_of_breaks_and_changes() -> None:
    table = plots.load("history").table(synthetic.make("history"))
    tiled, mma = (table[table["kernel"] == name] for name in ("matmul_tiled", "hgemm_mma"))
    (row,) = tiled[tiled["time over the one before"].notna()].to_dict("records")
    assert (row["recording"], row["code"]) == ("3c0ffee", "other code")
    assert row["time over the one before"] == pytest.approx(0.8, rel=0.01)
    assert list(mma["what is another"]) == ["", "", "", "driver 590", ""]
    assert table["code"].eq("same code, measured otherwise").any()
    assert set(table.loc[table["kernel"] == "copy", "in"]) == {"us"}
    (limited,) = set(table["state of the GPU"].dropna()) - {""}
    assert limited == "power cap, 1980 to 1480 MHz"
    told = plots.load("history").takeaway(synthetic.make("history"), table)
    assert told.startswith(
        "1 of 3 cases changed over 5 recordings, and 1 with the GPU's state alone"
    )


def timed(value: float) -> dict[str, object]:
    return model.result(
        "time", "a@64", model.OK, key="k", environment="e", source="events",
        figures=[{"metric": name, "value": value, "unit": ""} for name in ("duration", "sm_clock")],
        notes={"throttle": "power cap"},
        samples={"duration_us": [value, value + 1]},
    )  # fmt: skip


def test_recordings_of_commits(tmp_path: Path) -> None:
    """One for each commit that changed a time, one for what is not committed; repeats are listed once."""
    folder, environment = tmp_path / "recorded" / "gpu", {"e": {"gpu": "G", "driver": "1"}}

    def recorded(value: float, *message: str) -> None:
        merge(folder, [timed(value)], environment, {"a.sm_90": {"code": f"c{value}"}})
        who = ["-c", "user.name=a", "-c", "user.email=a@b"]
        for words in (["init"], ["add", "."], ["commit", "--allow-empty", "-m", *message])[
            : 3 if message else 0
        ]:
            subprocess.run(["git", *who, *words], check=True, capture_output=True, cwd=tmp_path)

    recorded(1.0)
    alone = history.table([folder], ["a@64"])
    assert alone[["recording", "date", "code", "gpu", "driver"]].drop_duplicates().to_numpy().tolist() == [
        ["gpu", "", "c1.0", "G", "1"]
    ]  # fmt: skip
    assert alone.iloc[0][["sm_mhz", "held_back"]].tolist() == [1.0, "power cap"]
    before = history.digest([folder])
    recorded(1.0, "one")
    recorded(1.0, "nothing new")
    recorded(2.0, "two")
    recorded(3.0)
    assert history.digest([folder]) != before
    found = history.table([tmp_path / "recorded"], ["a@64"])
    assert found["duration_us"].tolist() == [1, 2, 2, 3, 3, 4]
    names = found["recording"].drop_duplicates().tolist()
    assert [len(name) for name in names] == [7, 7, 3] and names[-1] == "gpu"
    assert history.table([folder], ["b@64"]).empty
