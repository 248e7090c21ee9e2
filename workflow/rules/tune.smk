# `snakemake --cores 1 tune` finds the best variant for each shape without a full sweep. Candidates of
# all kernels race in one job, because they compete; it asks for nothing but their checks.
RACED = PROJECT.stage_kernels("tune")


rule race:
    input:
        target=f"{RESULTS}/target.json",
        compiled=WORK.done("compile", RACED),
        check=WORK.done("check", RACED),
    output:
        temp(f"{RESULTS}/batches/tune-{{batch}}.txt"),
    log:
        f"{RESULTS}/logs/tune-{{batch}}.log",
    threads: 1024
    resources:
        gpu=1,
    params:
        stage="tune",
        kernels=WORK.kernels_of("tune"),
    message:
        "Race the candidates of each shape"
    script:
        "../scripts/measure.py"


rule tune:
    input:
        target=f"{RESULTS}/target.json",
        compiled=WORK.done("compile", RACED),
        executed=[] if WORK.live else WORK.done("execute", RACED),
        check=WORK.done("check", RACED),
        races=WORK.done("tune"),
    output:
        f"{REPORTS}/tables/best.csv",
    log:
        f"{RESULTS}/logs/best.log",
    # Before a strict verdict, which ends a run.
    priority: 1
    params:
        plan=PROJECT.plan_digest(),
        machine=MACHINE,
        recorded=PROJECT.recorded_digest(),
        library=library.digest("stages.run", "plots.best", "report.figures"),
    message:
        "List the best variant of each shape in {output}"
    script:
        "../scripts/tune.py"
