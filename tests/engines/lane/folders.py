"""Where engines are installed: a folder outside the checkout."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

HERE = Path(__file__).resolve().parent
PINS = HERE / "pins"
SHIM = HERE / "shim"

VARIABLE = "PAGEWARDEN_ENGINES"


def engines_home(environment: Mapping[str, str]) -> Path:
    """Answer the folder of the engines: the variable's, else one under the user's cache."""
    named = environment.get(VARIABLE)
    if named:
        return Path(named).expanduser().resolve()
    cache = environment.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(cache).expanduser().resolve() / "pagewarden-engines"
