"""What the notes of `wrap` and the reasons of trials say: patterns of the texts that a verdict rests on."""

import re

from tilewave.basics.tables import table_beside

TABLES = table_beside(__file__)
PATTERNS = {name: re.compile(text) for name, text in TABLES["patterns"].items()}
UNKNOWN: str = TABLES["unknown"]
