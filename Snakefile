# `snakemake --cores 1 report` runs it all. The workflow itself is in workflow/Snakefile.
include: "workflow/Snakefile"
