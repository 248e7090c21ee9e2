# The machine code of the kernels, executed on the CPU: no GPU is asked for anything. Runs before the
# check, because a machine without a GPU checks with it what has no recorded figure. Takes a core
# for each kernel; `--cores 2` executes two kernels at once.
EXECUTED = PROJECT.stage_kernels("execute")
INTERPRETER = [f"{RESULTS}/interpreter/{part}.json" for part in (0, 1)]


# Compiled once on a machine and kept by numba, in two parts for two cores. Where it is not certain
# that anything is executed, the executions compile what they need.
rule interpreter:
    output:
        f"{RESULTS}/interpreter/{{part}}.json",
    log:
        f"{RESULTS}/logs/interpreter/{{part}}.log",
    # Before the kernels' compilation, or one core would wait for it at the end.
    priority: 1
    params:
        library=project.library_digest("machine"),
    message:
        "Compile the interpreter, part {wildcards.part}"
    script:
        "../scripts/interpreter.py"


rule execute:
    input:
        interpreter=INTERPRETER if PROJECT.surely_executes else [],
        target=f"{RESULTS}/target.json",
        compiled=f"{RESULTS}/compile/{{kernel}}.json",
    output:
        f"{RESULTS}/execute/{{kernel}}.json",
    log:
        f"{RESULTS}/logs/execute/{{kernel}}.log",
    params:
        plan=lambda wildcards: PROJECT.plan_digest("execute", wildcards.kernel),
        recorded=PROJECT.recorded_digest(),
        library=project.library_digest(
            "machine",
            "execution",
            "counters",
            "comparison.py",
            "operations",
            "stages",
            "records",
            "inputs.py",
            "dtypes.py",
            "architectures.py",
        ),
    message:
        "Execute {wildcards.kernel}"
    script:
        "../scripts/execute.py"


# `snakemake --configfile config/smoke.yaml baseline` accepts the run's shared-memory excess.
rule baseline:
    input:
        target=f"{RESULTS}/target.json",
        records=f"{RESULTS}/tables/records.parquet",
    log:
        f"{RESULTS}/logs/baseline.log",
    message:
        "Write the baseline of shared-memory excess"
    script:
        "../scripts/baseline.py"
