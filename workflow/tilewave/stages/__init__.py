"""The stages of a run: what each rule does, as functions from documents to documents."""
