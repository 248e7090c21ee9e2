"""The report: figures with their data and sidecars, the pages, and the verdict on the run."""

FIGURE_KINDS = ("svg", "pdf", "png", "csv", "json", "txt", "tex")
"""Files of a study's figure: three of the figure, its data, where it came from, its caption, its table."""
FIGURE_FILES = (
    *(f"figures/{{study}}.{kind}" for kind in FIGURE_KINDS),
    *(f"figures/narrow/{{study}}.{kind}" for kind in ("svg", "pdf")),
)
"""The same with their places in the report's folder."""
PAGES = ("index.html", "explorer.html", "glossary.html", "summary.md", "junit.xml")
"""Documents of the report beside those in FOLDERS, the index first."""
FOLDERS = ("study", "kernel", "lesson", "sass", "ncu", "thumbnails")
"""Folders that the pages fill: one page a study, one a kernel, and what they link."""
