# `snakemake --cores 1 record` merges the last live run into resources/recorded/<gpu>/.


rule record:
    input:
        target=f"{RESULTS}/target.json",
        compiled=expand(f"{RESULTS}/compile/{{kernel}}.json", kernel=PROJECT.plan.kernels),
        check=expand(f"{RESULTS}/check/{{kernel}}.json", kernel=PROJECT.plan.kernels),
        time=expand(f"{RESULTS}/time/{{kernel}}.json", kernel=PROJECT.stage_kernels("time")),
        races=RACES,
        counters=expand(
            f"{RESULTS}/counters/{{kernel}}.json", kernel=PROJECT.stage_kernels("counters")
        ),
        execute=expand(f"{RESULTS}/execute/{{kernel}}.json", kernel=EXECUTED),
    log:
        f"{RESULTS}/logs/record.log",
    message:
        "Merge this run's measurements into resources/recorded"
    script:
        "../scripts/record.py"
