"""Tables of constants: YAML documents beside the modules that use them."""

from pathlib import Path
from typing import Any

import yaml


def table_beside(module: str) -> Any:
    """Return the YAML document beside a module, by the module's `__file__`; by libyaml if PyYAML has it."""
    text = Path(module).with_suffix(".yaml").read_text("utf-8")
    return yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
