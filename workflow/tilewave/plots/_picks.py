"""What three rules would have picked at each shape, for the figures that judge them.

A rule predicts a time of each variant, and picks the shortest. All know the same few measured cases:
the costs of a variant are taken from those of `calibration.SHAPES` (or, where it has too few, from all of
its cases), the rule of whole waves from the largest of these shapes, and the third takes whatever is the
best there. Elsewhere they predict.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from tilewave import racing
from tilewave.dtypes import product_sizes
from tilewave.plots import base
from tilewave.plots.base import BASELINE, StudyData
from tilewave.theory import calibration, selection
from tilewave.theory.calibration import Case
from tilewave.theory.nearby import Sizes
from tilewave.theory.occupancy import SmLimits
from tilewave.theory.selection import Launch, Shape

RACED, TIMED = "tune", "time"
DURATIONS = {RACED: "tune_duration", TIMED: "duration"}
BEHIND = "tune_behind"
COSTS, WAVES, ALWAYS = RULES = ("costs", "whole waves", "the best at the largest shape")
SHAPE = ("m", "n", "k")
_FACTS = (
    "tile_m", "tile_n", "tile_k", "blocks", "working_blocks", "block_threads", "registers"
)  # fmt: skip
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Group:
    """The variants of one dtype at one shape, as one stage measured them in one environment.

    own, vendor: case -> microseconds, of correct cases of this project's kernels and of cuBLAS (one
    for each of its layouts; where it was timed, at the clock of that moment). predicted: rule -> case ->
    microseconds. rows: case -> row of the table of cases. fitted: the rules know variants, and were given the measured times of all of these at this shape.
    """

    stage: str
    dtype: str
    shape: Mapping[str, int]
    environment: str
    own: Mapping[str, float]
    vendor: Mapping[str, float]
    predicted: Mapping[str, Mapping[str, float]]
    rows: Mapping[str, Row]
    fitted: bool

    @property
    def ranked(self) -> list[str]:
        """The cases from fast to slow."""
        return sorted(self.own, key=lambda case: self.own[case])

    @property
    def cublas(self) -> float | None:
        """cuBLAS's time, in the layouts that suit it best; None where there is none."""
        return min(self.vendor.values(), default=None)

    def pick(self, rule: str = COSTS) -> str | None:
        """A rule's choice; None where it knows no variant."""
        return selection.pick(self.predicted[rule])

    def regret(self, rule: str = COSTS) -> float | None:
        """Of that choice; None without one, and where it is no prediction."""
        chosen = self.pick(rule)
        return None if chosen is None or self.fitted else selection.regret(self.own, chosen)

    @property
    def flops(self) -> float:
        return 2.0 * self.shape["m"] * self.shape["n"] * self.shape["k"]

    def share(self, case: str) -> float | None:
        """Speed of a case in percent of cuBLAS."""
        return None if self.cublas is None else 100 * self.cublas / self.own[case]


def fitted_at() -> str:
    """The shapes of `calibration.SHAPES`, as a note tells them."""
    usual, special = (
        ", ".join(base.shape_label(dict(zip(SHAPE, sizes))) for sizes in shapes)
        for shapes in (calibration.USUAL, calibration.SPECIAL)
    )
    kinds = f"{selection.LINES} or {selection.PIECES}, {selection.RAGGED} or {selection.NARROW}"
    return f"{usual}; what it takes more for {kinds} is looked up at {special} and at its other shapes, the nearer the more"


def launch(row: Row, environment: Mapping[str, Any]) -> Launch | None:
    """A case's launch as the models see it; None where something of it is not known."""
    if not all(base.present(row.get(name)) for name in (*_FACTS, *SHAPE)):
        return None
    rows, columns, depth, grid, working, threads, registers = (int(row[name]) for name in _FACTS)
    scratch, shared, added_by_all, cluster = (
        int(row[name]) if base.present(row.get(name)) else absent
        for name, absent in (
            ("scratch_bytes", 0),
            ("shared_bytes", 0),
            ("added_by_all", 0),
            ("cluster_blocks", 1),
        )
    )
    limits = SmLimits.known(environment)
    if limits is None:
        return None
    shape = {size: int(row[size]) for size in SHAPE}
    return selection.Launch.of(
        shape, (rows, columns, depth), grid, working, scratch, limits, threads, registers, shared,
        cluster=cluster, added_by_all=bool(added_by_all),
    )  # fmt: skip


def times(study: StudyData, stage: str) -> pd.Series[float]:
    """Microseconds of each case that the stage measured, such that they may be compared (`racing.durations`, a leader
    in another environment left out; `racing.at_one_clock`)."""
    own = base.value_of(study, DURATIONS[stage], stage)
    where = base.environment_of(study, DURATIONS[stage], stage)
    if stage != RACED:
        rows = study.cases[["case", "dtype", *SHAPE]].itertuples(index=False)
        places = {str(case): (where.get(str(case)), *place) for case, *place in rows}
        baselines = base.value_of(study, "baseline_duration", stage)
        return pd.Series(racing.at_one_clock(dict(own), dict(baselines), places), dtype=float)
    ratios, leaders = base.value_of(study, BEHIND, stage), base.text_of(study, BEHIND)
    behind = {
        case: (leader, float(ratios[case]))
        for case, leader in leaders.items()
        if where.get(leader) == where.get(case)
    }
    told = {str(case): float(us) for case, us in own.items()}
    return pd.Series(racing.durations(told, behind), dtype=float)


def _measured(study: StudyData, stage: str) -> pd.DataFrame:
    """Correct cases of a known shape that the stage measured: their rows with us, environment."""
    durations = times(study, stage)
    environments = base.environment_of(study, DURATIONS[stage], stage)
    cases = study.cases[study.cases["case"].isin(base.ranking(study))]
    cases = cases[cases["case"].isin(durations.index)].dropna(subset=list(SHAPE))
    return cases.assign(
        stage=stage,
        us=cases["case"].map(durations).astype(float),
        environment=cases["case"].map(environments),
    )


def groups(study: StudyData, stages: Sequence[str] = (RACED, TIMED)) -> list[Group]:
    """What the stages measured, in the config's order, dtype by dtype; only with an own kernel.

    Cases that were raced and timed are fitted as raced.
    """
    measured = pd.concat([_measured(study, stage) for stage in (RACED, TIMED)])
    found: list[Group] = []
    for dtype in base.dtypes_in_order(study):
        mine = measured[measured["dtype"].astype(str) == dtype]
        if mine.empty:
            continue
        # Ratios are formed in one environment: the one that most of the dtype's figures are from.
        environment = str(mine["environment"].mode().iloc[0])
        rows = mine[mine["environment"] == environment].to_dict("records")
        elements = product_sizes(dtype)
        rules = _Rules(rows, study.environments.get(environment, {}), elements)
        places: dict[tuple[str, Sizes], list[Row]] = {}
        for row in rows:
            if row["stage"] in stages:
                places.setdefault((row["stage"], _sizes(row)), []).append(row)
        for (stage, sizes), here in places.items():
            own = {str(r["case"]): float(r["us"]) for r in here if r["kernel"] != BASELINE}
            if own:
                found.append(
                    Group(
                        stage,
                        dtype,
                        dict(zip(SHAPE, sizes)),
                        environment,
                        own,
                        {str(r["case"]): float(r["us"]) for r in here if r["kernel"] == BASELINE},
                        rules.predictions(here),
                        {str(r["case"]): r for r in here},
                        rules.took_part(here),
                    )
                )
    return found


def _sizes(row: Row) -> Sizes:
    m, n, k = (int(row[size]) for size in SHAPE)
    return m, n, k


class _Rules:
    """The rules, as far as the measured cases of a dtype let them know its variants."""

    def __init__(
        self, rows: Iterable[Row], environment: Mapping[str, Any], elements: selection.Elements
    ) -> None:
        self._environment = environment
        self._sms = int(environment.get("sms") or 0)
        self._launches: dict[str, Launch] = {}
        cases: dict[str, dict[str, list[Case]]] = {}
        for row in rows:
            one = self._launch(row)
            if one is not None:
                mine = cases.setdefault(str(row["kernel"]), {})
                mine.setdefault(str(row["variant"]), []).append(
                    Case(_sizes(row), one, float(row["us"]))
                )
        self._costs = dict[str, selection.Costs]()
        self._at_largest = dict[str, list[Case]]()
        largest = max(calibration.SHAPES, key=math.prod)
        for variants in cases.values():
            each = {
                name: calibration.at(known, dict.fromkeys(one.sizes for one in known))
                for name, known in variants.items()
            }
            self._costs |= calibration.costs(each, self._sms, elements)
            for name, known in variants.items():
                self._at_largest[name] = calibration.at(known, [largest])

    def _launch(self, row: Row) -> Launch | None:
        case = str(row["case"])
        if row["kernel"] != BASELINE and self._sms and case not in self._launches:
            found = launch(row, self._environment)
            if found is not None:
                self._launches[case] = found
        return self._launches.get(case)

    def _known(self, rows: Iterable[Row]) -> Iterator[tuple[str, str, Shape, Launch]]:
        """Case, variant, shape and launch where the variant's costs are known."""
        for row in rows:
            variant, here = str(row["variant"]), self._launch(row)
            if here is not None and variant in self._costs:
                yield str(row["case"]), variant, dict(zip(SHAPE, _sizes(row))), here

    def took_part(self, rows: Iterable[Row]) -> bool:
        """Whether the costs of all whose costs are known, and of one at least, are taken from these cases."""
        told = [
            tuple(shape.values()) in self._costs[name].fitted_at
            for _, name, shape, _ in self._known(rows)
        ]
        return bool(told) and all(told)

    def predictions(self, rows: Iterable[Row]) -> dict[str, dict[str, float]]:
        """Rule -> case -> microseconds, of the variants whose costs are known."""
        found: dict[str, dict[str, float]] = {rule: {} for rule in RULES}
        for case, variant, shape, here in self._known(rows):
            found[COSTS][case] = self._costs[variant].duration(shape, here, self._sms)
            for known in self._at_largest.get(variant, ()):
                step = selection.step_time(known.us, known.shape, known.launch, self._sms)
                found[WAVES][case] = selection.predicted_duration(shape, here, self._sms, step)
                found[ALWAYS][case] = known.us
        return found
