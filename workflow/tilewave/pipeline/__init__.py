"""The stages of a run: what each rule does, as functions from documents to documents."""

from tilewave.basics.garbage import collect_seldom

collect_seldom()  # here, before the stages and what they need are imported
