"""The stages of a run: one function a rule, from documents to documents."""

from tilewave.basics.garbage import collect_seldom

collect_seldom()  # here, before the stages and what they need are imported
