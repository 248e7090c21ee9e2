# From the config to each case's results. A job takes finished cases from the store and does what is missing. A part
# holds what is compared: an operation, dtype and shape, with its tuning run and its cuBLAS.
PLAN, TARGET = f"{RESULTS}/plan.json", f"{RESULTS}/target.json"
PARTS = len(gather.parts("{scatteritem}"))
PIPELINE = parameters.code("pipeline.rules")


# Each part gets its share of the cores, so that parts that are timed at the same time do not disturb each other. On a
# cluster a part has a node to itself.
SHARE = lambda wildcards: 1024 if workflow.nodes else max(1, workflow.cores // PARTS)


# Resolves every case for the GPU of the run, live or recorded.
rule plan:
    output:
        plan=PLAN,
        target=TARGET,
    log:
        f"{RESULTS}/logs/plan.log",
    params:
        plan=parameters.planned(config),
        machine=parameters.machine(),
        recorded=parameters.recorded(config),
        library=parameters.code("pipeline.plan", "pipeline.target"),
    message:
        "Plan the cases"
    script:
        "../scripts/plan.py"


# Needs no GPU.
rule compile:
    input:
        plan=PLAN,
        target=TARGET,
    output:
        f"{RESULTS}/compiled/{{scatteritem}}.json",
    log:
        f"{RESULTS}/logs/compile/{{scatteritem}}.log",
    threads: SHARE
    params:
        library=PIPELINE,
    message:
        "Compile the variants"
    script:
        "../scripts/compile.py"


# One GPU: check, time, tune, collect counters, sample. Code on the host is checked and timed here, too.
rule measure:
    input:
        plan=PLAN,
        target=TARGET,
        compiled=gather.parts(f"{RESULTS}/compiled/{{scatteritem}}.json"),
    output:
        f"{RESULTS}/measured/{{scatteritem}}.parquet",
    log:
        f"{RESULTS}/logs/measure/{{scatteritem}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/measure/{{scatteritem}}.tsv"
    threads: SHARE
    resources:
        gpu=1,
    params:
        tried=parameters.tried(RESULTS),
        library=PIPELINE,
    message:
        "Measure the cases"
    script:
        "../scripts/measure.py"


# Executes machine code on the CPU, after all timing, which it would disturb.
rule execute:
    input:
        plan=PLAN,
        target=TARGET,
        compiled=gather.parts(f"{RESULTS}/compiled/{{scatteritem}}.json"),
        measured=gather.parts(f"{RESULTS}/measured/{{scatteritem}}.parquet"),
    output:
        f"{RESULTS}/executed/{{scatteritem}}.parquet",
    log:
        f"{RESULTS}/logs/execute/{{scatteritem}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/execute/{{scatteritem}}.tsv"
    threads: SHARE
    params:
        tried=parameters.tried(RESULTS),
        library=PIPELINE,
    message:
        "Execute machine code on the CPU"
    script:
        "../scripts/execute.py"
