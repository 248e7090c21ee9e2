"""Claims: statements of documents on matrix products, beside predictions and measurements. A document's YAML
file here has statements with closed forms (`predicted`), questions to the records (`measured`)."""

from collections import Counter

import pandas as pd
from matplotlib.figure import Figure

from tilewave.plots import style as look
from tilewave.plots._panels import rows_mm, stacks
from tilewave.plots.base import StudyData
from tilewave.plots.claims import judging
from tilewave.plots.style import AREAS, Style

EVIDENCE = [
    "tolerance", "judged by", "where it holds", "measured from", "status", "reason", "source",
]  # fmt: skip
"""Columns that the page lacks and the CSV has."""

_VERDICTS = {
    judging.HOLDS: "holds here", judging.FALSE: "does not hold", judging.ELSEWHERE: "holds in other cases",
    judging.THEORY_ONLY: "possible by theory", judging.NOT_MEASURED: judging.NOT_MEASURED,
}  # fmt: skip
"""The names of the verdicts in the legend."""


def table(study: StudyData) -> pd.DataFrame:
    """Return one row per claim: section, claimed, predicted, measured, deviation, verdict."""
    claims = () if study.cases.empty else judging.all_claims()
    return judging.frame(judging.judge_all(study, claims))


def page_table(table: pd.DataFrame) -> pd.DataFrame:
    """Return one row a claim for the page: claimed, predicted, measured, verdict. The CSV has the evidence."""
    return table.drop(columns=EVIDENCE)


def takeaway(study: StudyData, table: pd.DataFrame) -> str:
    """Return the share of the documents' claims that hold; "" where none was judged."""
    counts = Counter(table.get("verdict", ()))
    if counts.total() == counts[judging.NOT_MEASURED]:
        return ""
    share = 100 * counts[judging.HOLDS] / counts.total()
    return f"{share:.0f} % of the claims in lectures and articles hold on {study.target['label']}"


@look.styled
def draw(study: StudyData, table: pd.DataFrame, style: Style) -> Figure:
    """Draw a bar for each document: the shares of its claims by verdict."""
    look.stop_if(table.empty, "claim")
    documents = table["document"]
    counts = pd.crosstab(documents, table["verdict"]).loc[documents.unique()]
    total, held = counts.sum(axis=1), counts.reindex(columns=[judging.HOLDS], fill_value=0)
    fig, (ax,) = look.panels(style, [rows_mm(len(counts)) + 4])
    colors = dict(zip(_VERDICTS, AREAS, strict=True))
    shares = 100 * counts.div(total, axis=0)
    handles = stacks(ax, shares, colors, counts.map(str), judging.THEORY_ONLY)
    for handle in handles:
        handle.set_label(_VERDICTS[str(handle.get_label())])
    texts = [f"{n} of {of}" for n, of in zip(held[judging.HOLDS], total, strict=True)]
    look.beside(ax, texts, heading=f"{100 * held.to_numpy().sum() / total.sum():.0f} % hold")
    ax.set_xlabel("share of the document's claims (%), with their number")
    return look.finish(fig, study, style, handles, [], ())
