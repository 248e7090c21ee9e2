"""The report: figures with their data and sidecars, the pages, and the verdict on the run."""

FIGURE_KINDS = ("svg", "csv", "json", "txt", "tex")
"""Suffixes of a figure's files: the figure, its data, its sidecar, its caption and its LaTeX table."""
FIGURE_FILES = tuple(f"figures/{{study}}.{kind}" for kind in FIGURE_KINDS)
"""Paths of a study's files in the report's folder, written by every run."""
UNDRAWN = "undrawn"
"""Key of a figure's sidecar: why it could not be drawn."""
PAGES = ("index.html", "kernels.html", "explorer.html", "glossary.html", "summary.md", "junit.xml")
"""Documents of the report beside those in FOLDERS, the index first."""
FOLDERS = ("study", "kernel", "lesson")
"""Folders of pages and of the files that they link."""
