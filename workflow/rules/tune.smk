# `snakemake --cores 1 tune` finds the best variant for each shape without a full sweep. Candidates of
# all kernels race in one job, because they compete; it asks for nothing but their checks.
RACED = PROJECT.stage_kernels("tune")
RACES = PROJECT.races()


rule race:
    input:
        target=f"{RESULTS}/target.json",
        compiled=expand(f"{RESULTS}/compile/{{kernel}}.json", kernel=RACED),
        check=expand(f"{RESULTS}/check/{{kernel}}.json", kernel=RACED),
    output:
        f"{RESULTS}/tune/races.json",
    log:
        f"{RESULTS}/logs/tune/races.log",
    threads: 1024
    resources:
        gpu=1,
    params:
        plan=PROJECT.plan_digest("tune", ""),
        machine=MACHINE,
        recorded=RECORDED,
        library=project.library_digest(
            "gpu",
            "counters",
            "processes",
            "operations",
            "stages",
            "records",
            "inputs.py",
            "dtypes.py",
            "racing.py",
            "theory",
        ),
    message:
        "Race the candidates of each shape"
    script:
        "../scripts/race.py"


rule tune:
    input:
        target=f"{RESULTS}/target.json",
        compiled=expand(f"{RESULTS}/compile/{{kernel}}.json", kernel=RACED),
        check=expand(f"{RESULTS}/check/{{kernel}}.json", kernel=RACED),
        races=RACES,
    output:
        f"{REPORTS}/tables/best.csv",
    log:
        f"{RESULTS}/logs/tune/best.log",
    params:
        plan=PROJECT.plan_digest("tune", ""),
        library=project.library_digest(
            "plots/best.py", "plots/base.py", "theory", "records", "report/figures.py"
        ),
    message:
        "List the best variant of each shape in {output}"
    script:
        "../scripts/tune.py"
