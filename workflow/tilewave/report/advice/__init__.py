"""What to fix: rules on the counters of one case, each with a bound on what mending it can gain.

`for_case` gives the findings. A bound is never a promise. It is the largest share of the case's cycles that
can go with what the rule names, everything else as it is: the same instructions at the same clock. Most rest
on one argument: a launch takes as long as its longest chain of events that wait for each other, and an event
that is taken away shortens that chain by its own cycles at most. So what occupies a part of an SM for so many
cycles costs no more than these, and what is left takes as long as the instructions that issue and the pipe
that multiplies. Tests hold the bounds against pairs of kernels that were timed.
"""

from tilewave.report.advice.rules import for_case
from tilewave.report.advice.subject import Finding, Subject

__all__ = ["Finding", "Subject", "for_case"]
