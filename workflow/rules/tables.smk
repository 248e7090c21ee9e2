# All results in one tidy table, raw samples and per-instruction counters beside it.
TABLES = {
    name: f"{RESULTS}/tables/{name}.parquet"
    for name in ("cases", "records", "samples", "instructions", "stalls")
}
COMPILED = f"{RESULTS}/compiled.json"
# Where the lanes of accesses to shared memory stand: what no store and no recording knows is executed.
ACCESSES = f"{RESULTS}/accesses.json"


rule tables:
    input:
        work=[path for stage in BATCHED for path in WORK.done(stage)],
        target=f"{RESULTS}/target.json",
    output:
        **TABLES,
        compiled=COMPILED,
        accesses=ACCESSES,
    log:
        f"{RESULTS}/logs/tables.log",
    threads: 1024
    params:
        plan=PROJECT.plan_digest(),
        machine=MACHINE,
        recorded=PROJECT.recorded_digest(),
        tried=WORK.tried,
        library=library.digest("stages.run", "records.tables", "lanes.captured"),
    message:
        "Collect the tables"
    script:
        "../scripts/tables.py"


# `snakemake --cores 1 results/cubins/matmul_tiled/matmul_tiled-tile32.sm_90.sass`: the machine code of a variant
# whose page does not show it.
rule listing:
    input:
        target=f"{RESULTS}/target.json",
    output:
        f"{RESULTS}/cubins/{{kernel}}/{{variant}}.{{arch}}.sass",
    log:
        f"{RESULTS}/logs/listing-{{kernel}}-{{variant}}.{{arch}}.log",
    wildcard_constraints:
        kernel=r"[^/]+",
        variant=r"[^/]+",
        arch=r"sm_\w+",
    message:
        "Disassemble {wildcards.variant}"
    script:
        "../scripts/listing.py"


# `snakemake --cores 1 reports/tables/records.csv`: a table for a spreadsheet.
rule csv:
    input:
        f"{RESULTS}/tables/{{table}}.parquet",
    output:
        f"{REPORTS}/tables/{{table}}.csv",
    log:
        f"{RESULTS}/logs/csv-{{table}}.log",
    wildcard_constraints:
        table="|".join(TABLES),
    message:
        "Write {output}"
    script:
        "../scripts/table_csv.py"


# `snakemake --cores 1 record` merges the last run into resources/recorded/<gpu>/.
rule record:
    input:
        target=f"{RESULTS}/target.json",
        tables=TABLES.values(),
        accesses=ACCESSES,
    log:
        f"{RESULTS}/logs/record.log",
    message:
        "Merge this run's measurements into resources/recorded"
    script:
        "../scripts/record.py"
