"""Records: statuses and verdicts, content keys, the store, the tidy tables, recorded values."""
