"""The report: figures with their data and sidecars, the page, and the verdict on the run."""
