"""Tables of studies that need no report."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import pandas as pd

from tilewave.basics.errors import UserError
from tilewave.kernel import result
from tilewave.pipeline import rules, tables
from tilewave.plots import best as plot
from tilewave.report import figures


def best(run: rules.Run, compiled: Sequence[Any], cores: int = 1) -> pd.DataFrame:
    """Return the best variant of each shape and dtype (`tilewave.plots.best`), from checks and tuning runs alone.
    compiled: the documents of `rules.compile_part`. Raises UserError where no study has tuning runs."""
    project = run.project
    if not project.tuned_studies:
        remedy = "Set tune: true in a study"
        raise UserError.because(project.where, "no study has tuning runs", remedy, "studies")
    tuned = dataclasses.replace(project, plan=project.tuned_plan)
    run = dataclasses.replace(run, project=tuned)
    pipeline = run.pipeline(compiled, threads=cores)
    results = pipeline.collected(rules.tune(run, pipeline, cores))
    verdict = tables.verdicts(results["check"])
    cases = tables.cases_table(tuned.plan.cases.values(), pipeline.compiled, pipeline.arch, verdict)
    flat = [*results["check"], *results[result.TUNE]]
    records = tables.records_table(cases, flat, verdict)
    none = figures.with_instruction_columns(pd.DataFrame(columns=["case"]))
    studies = (
        figures.of_tables(project, name, pipeline.target, cases, records, none)
        for name in tuned.plan.studies
    )
    bests = [plot.table(study).assign(study=study.name) for study in studies]
    return pd.concat(bests, ignore_index=True)
