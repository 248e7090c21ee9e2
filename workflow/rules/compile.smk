# From kernel files to cubins and SASS. Needs no GPU.


rule target:
    output:
        f"{RESULTS}/target.json",
    log:
        f"{RESULTS}/logs/target.log",
    params:
        machine=project.machine_fingerprint(),
        recorded=PROJECT.recorded_digest(),
        config=PROJECT.plan_digest("target", ""),
        library=project.library_digest("target.py", "environment.py", "gpu/facts.py"),
    message:
        "Which GPU this run is about"
    script:
        "../scripts/target.py"


rule compile:
    input:
        kernel=lambda wildcards: str(PROJECT.kernels[wildcards.kernel].path),
        target=f"{RESULTS}/target.json",
    output:
        document=f"{RESULTS}/compile/{{kernel}}.json",
        cubins=directory(f"{RESULTS}/cubins/{{kernel}}"),
    log:
        f"{RESULTS}/logs/compile/{{kernel}}.log",
    params:
        plan=lambda wildcards: PROJECT.plan_digest("compile", wildcards.kernel),
        library=project.library_digest(
            "compiling",
            "stages/compiling.py",
            "kernels.py",
            "variants.py",
            "architectures.py",
        ),
    message:
        "Compile {wildcards.kernel}"
    script:
        "../scripts/compile.py"
