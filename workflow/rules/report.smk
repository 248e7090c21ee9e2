# Figures, pages, and last the verdict. Snakemake deletes the outputs of a failed job, so the verdict, which may fail,
# is not the job that writes the pages.
from tilewave import report as tilewave_report

FIGURE_FILES = [f"{REPORTS}/{path}" for path in tilewave_report.FIGURE_FILES]
PAGES = [f"{REPORTS}/{name}" for name in tilewave_report.PAGES]
PLOTS = {name: f"plots.{config['studies'][name]['plot']}" for name in STUDIES}
# If `only` names kernels or shapes, the plan decides which studies have cases.
DRAWN = [] if parameters.narrowed(config) else STUDIES


# One process draws all figures and summaries on all cores. A figure with unchanged data, options and code comes from
# the store; one that raises becomes a box with the reason.
rule figures:
    input:
        plan=PLAN,
        target=TARGET,
        cases=TABLES["cases"],
        records=TABLES["records"],
        instructions=TABLES["instructions"],
    output:
        # The figures first: `snakemake --report report.zip` shows them with their captions.
        [
            report(
                f"{REPORTS}/figures/{study}.svg",
                caption=Path(REPORTS, "figures", f"{study}.txt").resolve() if CHECKOUT else None,
                category="Figures",
                labels={"study": study, "question": config["studies"][study].get("question", "")},
            )
            for study in DRAWN
        ],
        expand([path for path in FIGURE_FILES if not path.endswith(".svg")], study=DRAWN),
        done=f"{RESULTS}/figures.txt",
    log:
        f"{RESULTS}/logs/figures.log",
    threads: 1024
    params:
        studies=parameters.drawn(config, STUDIES),
        modules=parameters.modules(config),
        library=parameters.code("report.figures", *PLOTS.values()),
    message:
        "Draw the figures"
    script:
        "../scripts/figures.py"


# Draws one figure, asked for by its path.
rule figure:
    input:
        plan=PLAN,
        target=TARGET,
        cases=TABLES["cases"],
        records=TABLES["records"],
        instructions=TABLES["instructions"],
    output:
        FIGURE_FILES,
    log:
        f"{RESULTS}/logs/figure/{{study}}.log",
    params:
        studies=lambda wildcards: parameters.drawn(config, [wildcards.study]),
        modules=parameters.modules(config),
        library=lambda wildcards: parameters.code("report.figures", PLOTS[wildcards.study]),
    message:
        "Draw {wildcards.study}"
    script:
        "../scripts/figures.py"


ruleorder: figure > figures


rule page:
    input:
        figures=f"{RESULTS}/figures.txt",
        plan=PLAN,
        target=TARGET,
        cases=TABLES["cases"],
        records=TABLES["records"],
        instructions=TABLES["instructions"],
        stalls=TABLES["stalls"],
        kernels=KERNELS,
        accesses=ACCESSES,
    output:
        PAGES,
        directory(expand(f"{REPORTS}/{{folder}}", folder=tilewave_report.FOLDERS)),
        judged=f"{RESULTS}/judged.json",
    log:
        f"{RESULTS}/logs/page.log",
    threads: 1024
    params:
        kernels=parameters.texts(config),
        studies=parameters.drawn(config, STUDIES),
        modules=parameters.modules(config),
        strict=config.get("strict"),
        library=parameters.code("report.site", *PLOTS.values()),
        templates=parameters.templates(),
    message:
        "Write the pages"
    script:
        "../scripts/page.py"


rule verdict:
    input:
        page=f"{REPORTS}/index.html",
        judged=f"{RESULTS}/judged.json",
        figures=f"{RESULTS}/figures.txt",
    output:
        f"{RESULTS}/verdict.txt",
    log:
        f"{RESULTS}/logs/verdict.log",
    params:
        library=parameters.code("report.ending"),
    message:
        "Judge whether all cases are correct"
    script:
        "../scripts/verdict.py"
