"""Finds plotly's script inside its Python package: no build step, no copy in the repository."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import plotly
from django.contrib.staticfiles.finders import BaseFinder
from django.core.checks import CheckMessage
from django.core.files.storage import FileSystemStorage

_NAME = "plotly.min.js"
_FOLDER = Path(plotly.__file__).parent / "package_data"


class PlotlyFinder(BaseFinder):
    """Serves ``vendor/plotly.min.js`` and nothing else of the package."""

    def check(self, **_kwargs: Any) -> list[CheckMessage]:  # noqa: ANN401 - Django's signature
        """Answer no complaints: the package is pinned."""
        return []

    def find(self, path: str, find_all: bool = False, **_kwargs: Any) -> Any:  # noqa: ANN401, FBT001, FBT002 - Django's signature
        """Answer where the script lies, for its one name."""
        found = str(_FOLDER / _NAME) if path == f"vendor/{_NAME}" else None
        if find_all:
            return [found] if found else []
        return found

    def list(self, ignore_patterns: Iterable[str] | None) -> Iterator[tuple[str, Any]]:  # noqa: ARG002 - Django's signature
        """Answer the one file with the storage that holds it."""
        storage = FileSystemStorage(location=_FOLDER)
        storage.prefix = "vendor"  # type: ignore[attr-defined]
        yield _NAME, storage
