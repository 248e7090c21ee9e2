# One GPU, one measurement: check, then time, then counters. Where there is no GPU these rules take
# recorded figures whose key matches, else what executing the case gave, or say why there is none;
# they run again once the machine can do more, because what it can do is a parameter of theirs.


MACHINE = project.machine_fingerprint()
RECORDED = PROJECT.recorded_digest()
MEASURING = project.library_digest(
    "gpu",
    "counters",
    "processes",
    "operations",
    "stages",
    "records",
    "inputs.py",
    "dtypes.py",
    "comparison.py",
    "execution/results.py",
)


rule check:
    input:
        target=f"{RESULTS}/target.json",
        compiled=f"{RESULTS}/compile/{{kernel}}.json",
        executed=lambda wildcards: PROJECT.executions(wildcards.kernel),
    output:
        f"{RESULTS}/check/{{kernel}}.json",
    log:
        f"{RESULTS}/logs/check/{{kernel}}.log",
    resources:
        gpu=1,
    params:
        stage="check",
        plan=lambda wildcards: PROJECT.plan_digest("check", wildcards.kernel),
        machine=MACHINE,
        recorded=RECORDED,
        library=MEASURING,
    message:
        "Check {wildcards.kernel}"
    script:
        "../scripts/measure.py"


# Timing takes every core, so that nothing runs beside it: Snakemake gives a job that asks for more
# than there are as many as there are.
rule time:
    input:
        target=f"{RESULTS}/target.json",
        compiled=f"{RESULTS}/compile/{{kernel}}.json",
        check=f"{RESULTS}/check/{{kernel}}.json",
    output:
        f"{RESULTS}/time/{{kernel}}.json",
    log:
        f"{RESULTS}/logs/time/{{kernel}}.log",
    threads: 1024
    resources:
        gpu=1,
    params:
        stage="time",
        plan=lambda wildcards: PROJECT.plan_digest("time", wildcards.kernel),
        machine=MACHINE,
        recorded=RECORDED,
        library=MEASURING,
    message:
        "Time {wildcards.kernel}"
    script:
        "../scripts/measure.py"


rule counters:
    input:
        target=f"{RESULTS}/target.json",
        compiled=f"{RESULTS}/compile/{{kernel}}.json",
        check=f"{RESULTS}/check/{{kernel}}.json",
        executed=lambda wildcards: PROJECT.executions(wildcards.kernel),
    output:
        f"{RESULTS}/counters/{{kernel}}.json",
    log:
        f"{RESULTS}/logs/counters/{{kernel}}.log",
    resources:
        gpu=1,
    params:
        stage="counters",
        plan=lambda wildcards: PROJECT.plan_digest("counters", wildcards.kernel),
        machine=MACHINE,
        recorded=RECORDED,
        library=MEASURING,
        report=f"{RESULTS}/ncu/{{kernel}}.ncu-rep",
    message:
        "Collect counters of {wildcards.kernel}"
    script:
        "../scripts/measure.py"
