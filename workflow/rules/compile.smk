# From kernel files to cubins and SASS. Needs no GPU.


def kernel_file(wildcards):
    return str(PROJECT.kernels[wildcards.kernel].path)


def compile_plan(wildcards):
    return PROJECT.plan_digest("compile", wildcards.kernel)


rule target:
    message:
        "Which GPU this run is about"
    output:
        f"{RESULTS}/target.json",
    log:
        f"{RESULTS}/logs/target.log",
    params:
        machine=project.machine_fingerprint(),
        recorded=PROJECT.recorded_digest(),
        config=PROJECT.plan_digest("target", ""),
        library=project.library_digest("target.py", "gpu/environment.py"),
    script:
        "../scripts/target.py"


rule compile:
    message:
        "Compile {wildcards.kernel}"
    input:
        kernel=kernel_file,
        target=f"{RESULTS}/target.json",
    output:
        document=f"{RESULTS}/compile/{{kernel}}.json",
        cubins=directory(f"{RESULTS}/cubins/{{kernel}}"),
    log:
        f"{RESULTS}/logs/compile/{{kernel}}.log",
    params:
        plan=compile_plan,
        library=project.library_digest("compiling", "stages/compiling.py", "kernels.py", "variants.py"),
    script:
        "../scripts/compile.py"
