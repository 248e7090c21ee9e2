# All results in one tidy table, raw samples and per-instruction counters beside it.


rule tables:
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
    output:
        cases=f"{RESULTS}/tables/cases.parquet",
        records=f"{RESULTS}/tables/records.parquet",
        samples=f"{RESULTS}/tables/samples.parquet",
        instructions=f"{RESULTS}/tables/instructions.parquet",
        records_csv=f"{REPORTS}/tables/records.csv",
        instructions_csv=f"{REPORTS}/tables/instructions.csv",
    log:
        f"{RESULTS}/logs/tables.log",
    params:
        plan=PROJECT.plan_digest("tables", ""),
        library=project.library_digest("records", "stages"),
    message:
        "Collect the tables"
    script:
        "../scripts/tables.py"
