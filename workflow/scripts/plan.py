"""The plan: every case, resolved for the live GPU or a recorded one."""

from tilewave.pipeline import rules

if __name__ == "__main__":
    rules.make_plan(snakemake)
