# One GPU, one measurement: check, then time, then counters. Where there is no GPU these rules take
# recorded figures whose key matches, or say why there is none; they run again once the machine can
# do more, because what it can do is a parameter of theirs.


def check_plan(wildcards):
    return PROJECT.plan_digest("check", wildcards.kernel)


def time_plan(wildcards):
    return PROJECT.plan_digest("time", wildcards.kernel)


def counters_plan(wildcards):
    return PROJECT.plan_digest("counters", wildcards.kernel)


MACHINE = project.machine_fingerprint()
RECORDED = PROJECT.recorded_digest()
MEASURING = project.library_digest("gpu", "operations", "stages", "records", "inputs.py")


rule check:
    message:
        "Check {wildcards.kernel}"
    input:
        target=f"{RESULTS}/target.json",
        compiled=f"{RESULTS}/compile/{{kernel}}.json",
    output:
        f"{RESULTS}/check/{{kernel}}.json",
    log:
        f"{RESULTS}/logs/check/{{kernel}}.log",
    params:
        stage="check",
        plan=check_plan,
        machine=MACHINE,
        recorded=RECORDED,
        library=MEASURING,
    resources:
        gpu=1,
    script:
        "../scripts/measure.py"


# Timing takes every core, so that nothing runs beside it.
rule time:
    message:
        "Time {wildcards.kernel}"
    input:
        target=f"{RESULTS}/target.json",
        compiled=f"{RESULTS}/compile/{{kernel}}.json",
        check=f"{RESULTS}/check/{{kernel}}.json",
    output:
        f"{RESULTS}/time/{{kernel}}.json",
    log:
        f"{RESULTS}/logs/time/{{kernel}}.log",
    params:
        stage="time",
        plan=time_plan,
        machine=MACHINE,
        recorded=RECORDED,
        library=MEASURING,
    threads: workflow.cores or 1
    resources:
        gpu=1,
    script:
        "../scripts/measure.py"


rule counters:
    message:
        "Collect counters of {wildcards.kernel}"
    input:
        target=f"{RESULTS}/target.json",
        compiled=f"{RESULTS}/compile/{{kernel}}.json",
        check=f"{RESULTS}/check/{{kernel}}.json",
    output:
        f"{RESULTS}/counters/{{kernel}}.json",
    log:
        f"{RESULTS}/logs/counters/{{kernel}}.log",
    params:
        stage="counters",
        plan=counters_plan,
        machine=MACHINE,
        recorded=RECORDED,
        library=MEASURING,
        report=f"{RESULTS}/ncu/{{kernel}}.ncu-rep",
    resources:
        gpu=1,
    script:
        "../scripts/measure.py"
