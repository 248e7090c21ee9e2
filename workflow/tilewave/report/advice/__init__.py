"""Advice on what to fix: rules on the counters of one case, each with a bound on the gain.

`for_case` returns the findings. A bound is the largest share of the case's cycles that a fix can save when
nothing else changes. It is not a promise. Most bounds rest on one argument: a launch takes as long as its
longest chain of events that wait for each other. Removing an event shortens that chain by at most the event's
own cycles. The launch still needs the cycles in which instructions issue or the busiest pipe multiplies.
Tests compare the bounds with pairs of kernels that were timed.
"""

from tilewave.report.advice.rules import OF_SHAPE, WAITED, for_case
from tilewave.report.advice.subject import Finding, Subject, least, place, subjects

__all__ = ["OF_SHAPE", "WAITED", "Finding", "Subject", "for_case", "least", "place", "subjects"]
