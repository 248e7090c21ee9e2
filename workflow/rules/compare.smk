# `snakemake --cores all compare --config base=main head=HEAD`: docs/comparing.md. What it compares is no file
# of the workflow, so it runs whenever it is asked for.
rule compare:
    log:
        f"{RESULTS}/logs/compare.log",
    threads: 1024
    resources:
        gpu=1,
    message:
        "Compare two sides"
    script:
        "../scripts/compare.py"
