# Figures, the page, and last the verdict: a job that fails has its outputs deleted, so the one
# that may fail is not the one that writes the page.
FIGURE_KINDS = ["svg", "pdf", "png", "csv", "json"]
SUMMARISED = PROJECT.summarised_studies


rule figure:
    input:
        target=f"{RESULTS}/target.json",
        cases=f"{RESULTS}/tables/cases.parquet",
        records=f"{RESULTS}/tables/records.parquet",
        instructions=f"{RESULTS}/tables/instructions.parquet",
    output:
        [f"{REPORTS}/figures/{{study}}.{kind}" for kind in FIGURE_KINDS],
    log:
        f"{RESULTS}/logs/figure/{{study}}.log",
    params:
        plan=lambda wildcards: PROJECT.plan_digest("figure", wildcards.study),
        library=lambda wildcards: project.figure_digest(
            PROJECT.config.studies[wildcards.study].plot
        ),
    message:
        "Draw {wildcards.study}"
    script:
        "../scripts/figure.py"


rule summary:
    input:
        target=f"{RESULTS}/target.json",
        cases=f"{RESULTS}/tables/cases.parquet",
        records=f"{RESULTS}/tables/records.parquet",
        instructions=f"{RESULTS}/tables/instructions.parquet",
    output:
        f"{REPORTS}/tables/{{study}}.csv",
    log:
        f"{RESULTS}/logs/summary/{{study}}.log",
    wildcard_constraints:
        study="|".join(SUMMARISED) or "none",
    params:
        plan=lambda wildcards: PROJECT.plan_digest("figure", wildcards.study),
        library=lambda wildcards: project.figure_digest(
            PROJECT.config.studies[wildcards.study].plot
        ),
    message:
        "Sum up {wildcards.study} in {output}"
    script:
        "../scripts/summary.py"


rule page:
    input:
        target=f"{RESULTS}/target.json",
        cases=f"{RESULTS}/tables/cases.parquet",
        records=f"{RESULTS}/tables/records.parquet",
        instructions=f"{RESULTS}/tables/instructions.parquet",
        figures=expand(
            f"{REPORTS}/figures/{{study}}.{{kind}}", study=PROJECT.plan.studies, kind=FIGURE_KINDS
        ),
        summaries=expand(f"{REPORTS}/tables/{{study}}.csv", study=SUMMARISED),
    output:
        f"{REPORTS}/index.html",
    log:
        f"{RESULTS}/logs/page.log",
    params:
        plan=PROJECT.plan_digest("page", ""),
        library=project.library_digest("report", "../report"),
    message:
        "Write the page"
    script:
        "../scripts/page.py"


rule verdict:
    input:
        page=f"{REPORTS}/index.html",
        target=f"{RESULTS}/target.json",
        cases=f"{RESULTS}/tables/cases.parquet",
        records=f"{RESULTS}/tables/records.parquet",
    output:
        f"{RESULTS}/verdict.txt",
    log:
        f"{RESULTS}/logs/verdict.log",
    params:
        strict=PROJECT.config.strict,
        baseline=PROJECT.baseline_digest(),
        library=project.library_digest(
            "report/verdict.py", "report/baseline.py", "records/model.py"
        ),
    message:
        "Say whether all cases are right"
    script:
        "../scripts/verdict.py"
