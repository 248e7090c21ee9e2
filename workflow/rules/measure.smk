# The work that there is, in batches of kernels: what is in the store or in a recording has no job. The
# results go into the store; what a batch leaves here only says that it is done.
MACHINE = project.machine_fingerprint()
# On this machine's GPU what is executed waits until it times nothing any more, and runs beside stall samples and
# counters, on the cores that these leave: a job that takes all cores keeps the GPU waiting.
BESIDE = WORK.live and workflow.nodes is None


rule target:
    output:
        f"{RESULTS}/target.json",
    log:
        f"{RESULTS}/logs/target.log",
    params:
        machine=MACHINE,
        recorded=PROJECT.recorded_digest(),
        asked=[PROJECT.config.target, PROJECT.config.gpu],
        library=library.digest("target"),
    message:
        "Which GPU this run is about"
    script:
        "../scripts/target.py"


# Needs no GPU.
rule compile:
    input:
        target=f"{RESULTS}/target.json",
    output:
        temp(f"{RESULTS}/batches/compile-{{batch}}.txt"),
    log:
        f"{RESULTS}/logs/compile-{{batch}}.log",
    # Of many cores one is left to a GPU, on which those that were compiled first are checked meanwhile.
    threads: workflow.cores - 1 if WORK.live and (workflow.cores or 1) > 4 else 1024
    params:
        kernels=WORK.kernels_of("compile"),
        wanted=WORK.compiled_in,
        named=WORK.named("compile"),
    message:
        "Compile {params.named}"
    script:
        "../scripts/compile.py"


# The machine code of the kernels, executed on the CPU: no GPU is asked for anything.
rule execute:
    input:
        target=f"{RESULTS}/target.json",
        compiled=lambda wildcards: WORK.done("compile", WORK.batches["execute"][wildcards.batch]),
        timed=WORK.done("time") + WORK.done("tune") if BESIDE else [],
    output:
        temp(f"{RESULTS}/batches/execute-{{batch}}.txt"),
    log:
        f"{RESULTS}/logs/execute-{{batch}}.log",
    threads: 1 if BESIDE else 1024
    params:
        stage="execute",
        kernels=WORK.kernels_of("execute"),
        named=WORK.named("execute"),
    message:
        "Execute {params.named}"
    script:
        "../scripts/measure.py"


# One GPU, one measurement: check, then time, then counters. Code on the host is checked and timed here where no GPU is.
rule check:
    input:
        target=f"{RESULTS}/target.json",
        compiled=lambda wildcards: WORK.done("compile", WORK.batches["check"][wildcards.batch]),
    output:
        temp(f"{RESULTS}/batches/check-{{batch}}.txt"),
    log:
        f"{RESULTS}/logs/check-{{batch}}.log",
    resources:
        gpu=1,
    params:
        stage="check",
        kernels=WORK.kernels_of("check"),
        named=WORK.named("check"),
    message:
        "Check {params.named}"
    script:
        "../scripts/measure.py"


# Timing takes every core, so that nothing runs beside it: Snakemake gives a job that asks for more
# than there are as many as there are.
rule time:
    input:
        target=f"{RESULTS}/target.json",
        compiled=lambda wildcards: WORK.done("compile", WORK.batches["time"][wildcards.batch]),
        check=lambda wildcards: WORK.done("check", WORK.batches["time"][wildcards.batch]),
    output:
        temp(f"{RESULTS}/batches/time-{{batch}}.txt"),
    log:
        f"{RESULTS}/logs/time-{{batch}}.log",
    threads: 1024 if WORK.live else 1
    resources:
        gpu=1,
    params:
        stage="time",
        kernels=WORK.kernels_of("time"),
        named=WORK.named("time"),
    message:
        "Time {params.named}"
    script:
        "../scripts/measure.py"


rule counters:
    input:
        target=f"{RESULTS}/target.json",
        compiled=lambda wildcards: WORK.done("compile", WORK.batches["counters"][wildcards.batch]),
        check=lambda wildcards: WORK.done("check", WORK.batches["counters"][wildcards.batch]),
        # Which of cuBLAS' algorithms is the fastest is found out while timing: that one is counted.
        timed=lambda wildcards: WORK.done("time", WORK.batches["counters"][wildcards.batch]),
    output:
        temp(f"{RESULTS}/batches/counters-{{batch}}.txt"),
    log:
        f"{RESULTS}/logs/counters-{{batch}}.log",
    resources:
        gpu=1,
    params:
        stage="counters",
        kernels=WORK.kernels_of("counters"),
        named=WORK.named("counters"),
    message:
        "Collect counters of {params.named}"
    script:
        "../scripts/measure.py"


# Where warps wait, by instruction, and what ncu's own rules say: of one case a kernel.
rule sample:
    input:
        target=f"{RESULTS}/target.json",
        compiled=lambda wildcards: WORK.done("compile", WORK.batches["sample"][wildcards.batch]),
        check=lambda wildcards: WORK.done("check", WORK.batches["sample"][wildcards.batch]),
    output:
        temp(f"{RESULTS}/batches/sample-{{batch}}.txt"),
    log:
        f"{RESULTS}/logs/sample-{{batch}}.log",
    resources:
        gpu=1,
    params:
        stage="sample",
        kernels=WORK.kernels_of("sample"),
        named=WORK.named("sample"),
    message:
        "Sample {params.named}"
    script:
        "../scripts/measure.py"
