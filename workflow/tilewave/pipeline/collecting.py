"""The tidy tables of what came of all stages, each made when it is first asked for."""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewave.kernel import result
from tilewave.kernel.result import Result
from tilewave.pipeline.pipeline import Pipeline
from tilewave.records.recorded import STALLS
from tilewave.workers import pool

if TYPE_CHECKING:
    import pandas as pd

NAMES = ("cases", "records", "samples", "instructions", "stalls")
# Processes make these at the same time.
PARTS = (("instructions", "stalls"), ("samples", "cases", "records"))


class Tables:
    """The tables of a pipeline's results (see `pipeline.tables`)."""

    def __init__(self, pipeline: Pipeline, results: Mapping[str, list[Result]]) -> None:
        # pandas takes long to load, and not every process that imports this makes tables.
        from tilewave.pipeline import tables

        self._made = tables
        self.pipeline, self.results = pipeline, results

    @functools.cached_property
    def _verdict(self) -> dict[str, str]:
        return self._made.verdicts(self.results["check"], self.results["execute"])

    @functools.cached_property
    def cases(self) -> pd.DataFrame:
        """A row a case."""
        one = self.pipeline
        return self._made.cases_table(
            one.plan.cases.values(), one.compiled, one.arch, self._verdict
        )

    @functools.cached_property
    def samples(self) -> pd.DataFrame:
        """A row a sample."""
        timed = [*self.results["time"], *self.results["tune"]]
        return self._made.samples_table(timed, self.pipeline.recorded)

    @functools.cached_property
    def records(self) -> pd.DataFrame:
        """A row a figure."""
        place = {name: number for number, name in enumerate(self.pipeline.project.plan.kernels)}

        def kernel(made: Result) -> int:
            return place[self.pipeline.plan.cases[made.case].kernel.name]

        # By stage, then kernel: environments are numbered in the order in which they come.
        flat = [made for stage in result.STAGES for made in sorted(self.results[stage], key=kernel)]
        found = self._made.records_table(self.cases, flat, self._verdict)
        found = self._made.paired_shares(found, self.samples)
        doubtful = self.pipeline.doubtful(self.results)
        return self._made.with_cublas(found, self.pipeline.products, doubtful)

    @functools.cached_property
    def instructions(self) -> pd.DataFrame:
        """A row an instruction, with what was counted of it."""
        counted = [*self.results["counters"], *self.results["execute"]]
        one = self.pipeline
        return self._made.instructions_table(counted, one.recorded, one.origins)

    @functools.cached_property
    def stalls(self) -> pd.DataFrame:
        """A row an instruction, with where warps were seen to wait."""
        one, sampled = self.pipeline, self.results[result.SAMPLE]
        return self._made.instructions_table(sampled, one.recorded, one.origins, STALLS)

    def all(self) -> dict[str, pd.DataFrame]:
        """Name -> table."""
        return {name: getattr(self, name) for name in NAMES}

    def write(self, paths: Mapping[str, str | Path], cores: int = 1) -> None:
        """Write each table to its path."""

        def one(names: tuple[str, ...]) -> None:
            for name in names:
                getattr(self, name).to_parquet(paths[name], index=False)

        for _ in pool.shared(one, PARTS, cores):
            pass

    def about_kernels(self, shown: Collection[str]) -> dict[str, dict[str, Any]]:
        """See `Pipeline.about_kernels`."""
        sampled = self.results[result.SAMPLE]
        return self.pipeline.about_kernels(self.results["counters"], sampled, shown)
