"""How a page is asked for a fragment, and what its text says."""

from __future__ import annotations

import html
import re
from typing import Any

from django.test import Client


def ask_fragment(client: Client, address: str, target: str) -> Any:  # noqa: ANN401 - Django's test response
    """Ask for one element as htmx does."""
    return client.get(address, headers={"HX-Request": "true", "HX-Target": target})


def words_of(response: Any) -> str:  # noqa: ANN401 - Django's test response
    """Answer the text of a page without its markup, in single spaces."""
    text = re.sub(r"<script.*?</script>", " ", response.content.decode(), flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", text)).split())
