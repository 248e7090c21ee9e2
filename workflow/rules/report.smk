# Figures, the page, and last the verdict: a job that fails has its outputs deleted, so the one
# that may fail is not the one that writes the page.
FIGURE_FILES = [f"{REPORTS}/{path}" for path in report.FIGURE_FILES]
PAGES = [f"{REPORTS}/{name}" for name in report.PAGES]
PLOTS = {name: PROJECT.config.studies[name].plot for name in PROJECT.plan.studies}


# All of them, and the summaries of those that have one, in one process, that shares them among the cores; a figure whose data, options and code
# are as they were is taken from the store, and one that raises becomes a box with the reason.
rule figures:
    input:
        target=f"{RESULTS}/target.json",
        cases=TABLES["cases"],
        records=TABLES["records"],
        instructions=TABLES["instructions"],
    output:
        expand(FIGURE_FILES, study=PROJECT.plan.studies),
        done=f"{RESULTS}/figures.txt",
    log:
        f"{RESULTS}/logs/figures.log",
    threads: 1024
    params:
        studies=list(PROJECT.plan.studies),
        names=", ".join(PROJECT.plan.studies),
        plan=[PROJECT.plan_digest(name) for name in PROJECT.plan.studies],
        library=plots.digest("report.figures", *PLOTS.values()),
    message:
        "Draw {params.names}"
    script:
        "../scripts/figures.py"


# One figure by its path.
rule figure:
    input:
        target=f"{RESULTS}/target.json",
        cases=TABLES["cases"],
        records=TABLES["records"],
        instructions=TABLES["instructions"],
    output:
        FIGURE_FILES,
    log:
        f"{RESULTS}/logs/figure/{{study}}.log",
    params:
        studies=lambda wildcards: [wildcards.study],
        plan=lambda wildcards: PROJECT.plan_digest(wildcards.study),
        library=lambda wildcards: plots.digest("report.figures", PLOTS[wildcards.study]),
    message:
        "Draw {wildcards.study}"
    script:
        "../scripts/figures.py"


ruleorder: figure > figures


# `snakemake --cores 1 reports/figures/ladder.pdf`: for print, or as PNG for slides.
use rule figure as printed with:
    output:
        f"{REPORTS}/{report.PRINTED}",
    log:
        f"{RESULTS}/logs/figure/{{study}}_{{printed}}.log",


# `snakemake --cores 1 reports/figures/narrow/ladder.pdf`: for one column of a paper.
use rule figure as narrow with:
    output:
        f"{REPORTS}/{report.NARROW}",
    log:
        f"{RESULTS}/logs/figure/{{study}}_narrow_{{drawn}}.log",


rule page:
    input:
        figures=f"{RESULTS}/figures.txt",
        target=f"{RESULTS}/target.json",
        cases=TABLES["cases"],
        records=TABLES["records"],
        instructions=TABLES["instructions"],
        stalls=TABLES["stalls"],
        compiled=COMPILED,
        accesses=ACCESSES,
    output:
        PAGES,
        directory(expand(f"{REPORTS}/{{folder}}", folder=report.FOLDERS)),
    log:
        f"{RESULTS}/logs/page.log",
    threads: 1024
    params:
        plan=[PROJECT.plan_digest(), PROJECT.ideas_digest()],
        studies=[PROJECT.plan_digest(name) for name in PROJECT.plan.studies],
        library=plots.digest("report.site", *PLOTS.values()),
        templates=library.templates_digest(),
    message:
        "Write the pages"
    script:
        "../scripts/page.py"


rule verdict:
    input:
        page=f"{REPORTS}/index.html",
        figures=f"{RESULTS}/figures.txt",
        cases=TABLES["cases"],
        records=TABLES["records"],
    output:
        f"{RESULTS}/verdict.txt",
    log:
        f"{RESULTS}/logs/verdict.log",
    params:
        strict=PROJECT.config.strict,
        library=library.digest("report.verdict"),
    message:
        "Say whether all cases are right"
    script:
        "../scripts/verdict.py"
