"""The tidy tables of all stages' results, each made on first use."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tilewave.kernel import result
from tilewave.kernel.result import Result
from tilewave.pipeline.pipeline import Pipeline
from tilewave.records.measured import STALLS
from tilewave.workers import pool

if TYPE_CHECKING:
    import pandas as pd

NAMES = ("cases", "records", "samples", "instructions", "stalls")
# Two processes make these at the same time.
PARTS = (("instructions", "stalls"), ("samples", "cases", "records"))


class Tables:
    """The tables of a pipeline's results (see `pipeline.tables`)."""

    def __init__(self, pipeline: Pipeline, results: Mapping[str, list[Result]]) -> None:
        # pandas loads slowly, and not every process that imports this module makes tables.
        from tilewave.pipeline import tables

        self._tables = tables
        self.pipeline, self.results = pipeline, results
        self._origins = functools.cache(pipeline.origins)

    @functools.cached_property
    def _verdict(self) -> dict[str, str]:
        return self._tables.verdicts(self.results["check"], self.results["execute"])

    @functools.cached_property
    def cases(self) -> pd.DataFrame:
        cases, pipeline = self.pipeline.plan.cases.values(), self.pipeline
        return self._tables.cases_table(cases, pipeline.compiled, pipeline.arch, self._verdict)

    @functools.cached_property
    def samples(self) -> pd.DataFrame:
        timed = [*self.results["time"], *self.results["tune"]]
        return self._tables.samples_table(timed, self.pipeline.recorded)

    @functools.cached_property
    def records(self) -> pd.DataFrame:
        order = {name: number for number, name in enumerate(self.pipeline.project.plan.kernels)}

        def kernel(outcome: Result) -> int:
            return order[self.pipeline.plan.cases[outcome.case].kernel.name]

        # By stage, then kernel: pages number environments in the order of these rows.
        stages = (sorted(self.results[stage], key=kernel) for stage in result.STAGES)
        flat = itertools.chain.from_iterable(stages)
        table = self._tables.records_table(self.cases, flat, self._verdict)
        table = self._tables.paired_shares(table, self.samples)
        doubtful = self.pipeline.doubtful(self.results)
        return self._tables.with_cublas(table, self.pipeline.products, doubtful)

    @functools.cached_property
    def instructions(self) -> pd.DataFrame:
        counted = [*self.results["counters"], *self.results["execute"]]
        return self._tables.instructions_table(counted, self.pipeline.recorded, self._origins)

    @functools.cached_property
    def stalls(self) -> pd.DataFrame:
        sampled, recorded = self.results[result.SAMPLE], self.pipeline.recorded
        return self._tables.instructions_table(sampled, recorded, self._origins, STALLS)

    def all(self) -> dict[str, pd.DataFrame]:
        return {name: getattr(self, name) for name in NAMES}

    def write(self, paths: Mapping[str, str | Path], cores: int = 1) -> Iterator[object]:
        """Return an iterator that ends when each table is at its path. With several cores, others write meanwhile."""

        def write_tables(names: tuple[str, ...]) -> None:
            for name in names:
                getattr(self, name).to_parquet(paths[name], index=False)

        return pool.shared(write_tables, PARTS, cores)
