# Figures, the page, and last the verdict: a job that fails has its outputs deleted, so the one
# that may fail is not the one that writes the page.
FIGURE_KINDS = ["svg", "pdf", "png", "csv", "json"]


def figure_plan(wildcards):
    return PROJECT.plan_digest("figure", wildcards.study)


def figure_library(wildcards):
    plot = PROJECT.config.studies[wildcards.study].plot
    return project.library_digest(
        "plots/__init__.py",
        "plots/base.py",
        "plots/style.py",
        "plots/_quantization.py",
        f"plots/{plot}.py",
        "theory",
        "report/figures.py",
        "records/model.py",
    )


rule figure:
    message:
        "Draw {wildcards.study}"
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
        plan=figure_plan,
        library=figure_library,
    script:
        "../scripts/figure.py"


rule page:
    message:
        "Write the page"
    input:
        target=f"{RESULTS}/target.json",
        cases=f"{RESULTS}/tables/cases.parquet",
        records=f"{RESULTS}/tables/records.parquet",
        instructions=f"{RESULTS}/tables/instructions.parquet",
        figures=expand(
            f"{REPORTS}/figures/{{study}}.{{kind}}", study=PROJECT.plan.studies, kind=FIGURE_KINDS
        ),
    output:
        f"{REPORTS}/index.html",
    log:
        f"{RESULTS}/logs/page.log",
    params:
        plan=PROJECT.plan_digest("page", ""),
        library=project.library_digest("report", "../report"),
    script:
        "../scripts/page.py"


rule verdict:
    message:
        "Say whether all cases are right"
    input:
        page=f"{REPORTS}/index.html",
        cases=f"{RESULTS}/tables/cases.parquet",
        records=f"{RESULTS}/tables/records.parquet",
    output:
        f"{RESULTS}/verdict.txt",
    log:
        f"{RESULTS}/logs/verdict.log",
    params:
        strict=PROJECT.config.strict,
        library=project.library_digest("report/verdict.py", "records/model.py"),
    script:
        "../scripts/verdict.py"
