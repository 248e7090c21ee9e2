"""The report: figures with their data and sidecars, the pages, and the verdict on the run."""

FIGURE_KINDS = ("svg", "csv", "json", "txt", "tex")
"""Files of a study's figure: the figure, its data, where it came from, its caption, its table."""
FIGURE_FILES = (
    *(f"figures/{{study}}.{kind}" for kind in FIGURE_KINDS),
    "thumbnails/{study}.png",
)
"""The same with their places in the report's folder, those of every run."""
PRINTED, NARROW = "figures/{study}.{printed}", "figures/narrow/{study}.{drawn}"
"""The figure for print, and for one column of a paper, which are drawn where they are asked for."""
PAGES = ("index.html", "explorer.html", "glossary.html", "summary.md", "junit.xml")
"""Documents of the report beside those in FOLDERS, the index first."""
FOLDERS = ("study", "kernel", "lesson", "sass", "ncu")
"""Folders that the pages fill: one page a study, one a kernel, and what they link."""
