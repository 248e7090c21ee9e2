# Tidy tables: cases, all results, raw samples, and counters by instruction.
TABLES = {
    name: f"{RESULTS}/tables/{name}.parquet"
    for name in ("cases", "records", "samples", "instructions", "stalls")
}
# The compiled variants of each kernel, and the lanes of accesses to shared memory.
KERNELS, ACCESSES = f"{RESULTS}/kernels.json", f"{RESULTS}/accesses.json"
KNOWN = {
    "plan": PLAN,
    "target": TARGET,
    "compiled": gather.parts(f"{RESULTS}/compiled/{{scatteritem}}.json"),
    "measured": gather.parts(f"{RESULTS}/measured/{{scatteritem}}.parquet"),
    "executed": gather.parts(f"{RESULTS}/executed/{{scatteritem}}.parquet"),
}


rule tables:
    input:
        **KNOWN,
    output:
        **TABLES,
        kernels=KERNELS,
        accesses=ACCESSES,
    log:
        f"{RESULTS}/logs/tables.log",
    threads: 1024
    params:
        library=parameters.code("pipeline.rules", "pipeline.tables", "execution.lanes.captured"),
    message:
        "Collect the tables"
    script:
        "../scripts/tables.py"


# `snakemake --cores 1 results/cubins/matmul_tiled/matmul_tiled-tile32.sm_90.sass`: the machine code of a variant that
# no page shows.
rule listing:
    input:
        plan=PLAN,
        target=TARGET,
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
        **KNOWN,
        accesses=ACCESSES,
    log:
        f"{RESULTS}/logs/record.log",
    message:
        "Merge this run's measurements into resources/recorded"
    script:
        "../scripts/record.py"
