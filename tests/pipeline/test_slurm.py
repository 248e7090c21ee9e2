"""A run through `sbatch`, on three nodes that Slurm's own daemons simulate on this machine."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from samples import ROOT

DAEMONS = ("munged", "slurmctld", "slurmd", "sbatch")
if missing := [name for name in DAEMONS if not shutil.which(name)]:
    pytest.skip(f"no {missing[0]}: apt install slurm-wlm munge", allow_module_level=True)
if not importlib.util.find_spec("snakemake_executor_plugin_slurm"):
    pytest.skip("`make slurm` installs Snakemake's executor for Slurm", allow_module_level=True)

CONFIG = """
fresh: true
execute: {when: always}
studies:
  executed:
    plot: correctness
    title: t
    cases: [{kernels: [matmul_naive, matmul_tiled, matmul_register], macros: defaults, shapes: %s}]
  timed: {plot: correctness, title: t, time: true, cases: [{kernels: [matmul_cpu], macros: defaults, shapes: [61]}]}
""" % [*range(200, 216)]

SNAKEMAKE = """
from snakemake.cli import main
from snakemake_executor_plugin_slurm import Executor
# It asks after 1 s, 11 s more, 21 s more ...: most of the test would be waiting.
Executor.next_seconds_between_status_checks = property(lambda self: 1, lambda self, seconds: None)
main()
"""


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """The function that runs tools/slurm_cluster.sh; the cluster's clients are on PATH."""
    folder = tmp_path_factory.mktemp("cluster")

    def tool(do, *node):
        return output(str(ROOT / "tools" / "slurm_cluster.sh"), do, str(folder), *node)

    before = dict(os.environ)
    try:
        settings = dict(re.findall(r"(\w+)=(\S+)", tool("up")))
        settings["PATH"] = os.path.expandvars(settings["PATH"])
        os.environ.update({name: settings[name] for name in ("SLURM_CONF", "PATH")})
        yield tool
    finally:
        tool("down")
        os.environ.clear()
        os.environ.update(before)


def jobs():
    """Return what Slurm knows of each job, by rule and wildcards."""
    by_comment = {}
    for text in output("scontrol", "show", "jobs").split("\n\n"):
        fields = dict(re.findall(r"(\w+)=(\S*)", text))
        if "Comment" in fields:
            by_comment[fields["Comment"]] = fields
    return by_comment


def executed(folder):
    return {path: path.read_bytes() for path in folder.glob(".tilewave/results/*/execute/*/*.json")}


def test_a_node_dies_and_nothing_is_lost(cluster, tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG)
    options = {
        "-s": ROOT / "Snakefile", "-d": tmp_path, "--workflow-profile": "slurm",
        "--max-threads": os.cpu_count(),  # so that each part fills a node
        "--set-scatter": "parts=2",  # a node is left for the part of the one that dies
        "--slurm-status-command": "squeue",  # no accounting here
        "--configfile": config,
    }  # fmt: skip
    command = [sys.executable, "-c", SNAKEMAKE, "results/tables/records.parquet"]
    command += [str(word) for option in options.items() for word in option]
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    with (tmp_path / "said.txt").open("w") as said:
        run = subprocess.Popen(command, env=environment, stdout=said, stderr=subprocess.STDOUT)
        running = []
        while not (executed(tmp_path) and running) and run.poll() is None:
            executing = [job for name, job in jobs().items() if "execute" in name]
            running = [job for job in executing if job["JobState"] == "RUNNING"]
            time.sleep(0.1)
        assert running, (tmp_path / "said.txt").read_text()
        died = running[0]
        cluster("fail", died["NodeList"])
        before = executed(tmp_path)
        time.sleep(2)
        cluster("start", died["NodeList"])
        code = run.wait(timeout=600)
    assert code == 0, (tmp_path / "said.txt").read_text()
    after = executed(tmp_path)
    assert len(before) < len(after) == 48
    assert {path: after[path] for path in before} == before
    finished = jobs()
    parts = [job for name, job in finished.items() if "execute" in name]
    assert len(parts) == 2
    assert {job["JobState"] for job in finished.values()} == {"COMPLETED"}
    assert [job["JobId"] for job in parts if job["Restarts"] == "1"] == [died["JobId"]]
    # Jobs that measure have their node alone, all others share theirs.
    alone = [name for name, job in finished.items() if job["OverSubscribe"] == "NO"]
    assert len(alone) == 2 and all("measure" in name for name in alone)
    logs = (tmp_path / ".snakemake" / "slurm_logs").glob("rule_execute/*/*.log")
    assert sum("execute: 24 cases" in path.read_text() for path in logs) == 2
    target = json.loads((tmp_path / "results" / "target.json").read_text())
    assert {Path(path).parents[2].name for path in after} == {target["host"]}
