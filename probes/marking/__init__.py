"""The marker core: codes, words and facts that name their page, and the search for them."""

from __future__ import annotations
