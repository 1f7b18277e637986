"""Tells at one glance that a large answer shows no secret, so that hardly any has to be searched.

A sweep reads thousands of answers of 40 kB in which a thousand fields are no secret. Whatever is
unusual here is no verdict: it only means that the answer is searched field by field.
"""

from __future__ import annotations

import re
import threading
from typing import Final

import hyperscan

#: Whatever a name or a text holds that ``secrets.exposed_names`` could call a secret. No part of
#: these can be written in JSON otherwise than as it is, but for escapes, which are unusual too.
_TELLING: Final = (
    rb"api[_-]?key|secret|passw|access_?key|private_?key|watermark_key"
    rb"|(?:auth|access|bearer|hf|hub)_?token|credential"
)
#: Case is told for ASCII alone, and an escape may hide a sign; json refuses numbers this long.
_UNUSUAL: Final = rb"[^\x00-\x7f]|\\u|[0-9]{1000}"
#: Behind a telling part of a name: the rest of the name, and a value that is none or is hidden.
_HARMLESS: Final = re.compile(rb'[^"\\]*"[ \t\r\n]*:[ \t\r\n]*(?:null|true|false|""|"<[^<>"\\]*>")')
_TELLS: Final = 0
#: No engine has so many names that could tell a secret.
_MOST_TELLING: Final = 500


class Glance:
    """Looks for telling names and for further patterns in one pass; safe in several threads.

    ``unusual`` are patterns (case does not count) after which an answer is searched in any case.
    """

    def __init__(self, *unusual: bytes) -> None:
        self._patterns = (_TELLING, _UNUSUAL, *unusual)
        self._database: hyperscan.Database | None = None
        self._of_thread = threading.local()

    def shows_no_secret(self, text: str) -> bool:
        """Answer whether JSON text certainly shows none; a no says nothing."""
        body = text.encode("utf-8", errors="replace")
        scratch = self._scratch()
        if scratch is None or self._database is None:
            return False
        found: list[int] = []

        def note(pattern: int, _start: int, end: int, _flags: int, _context: object) -> bool:
            found.append(end)
            return pattern != _TELLS or len(found) > _MOST_TELLING

        try:
            self._database.scan(body, match_event_handler=note, scratch=scratch)
        except hyperscan.error:  # As after being told to stop, at what is unusual.
            return False
        return all(_HARMLESS.match(body, end) for end in found)

    def _scratch(self) -> hyperscan.Scratch | None:
        """Answer the working space of this thread; None where this machine cannot do it."""
        if not hasattr(self._of_thread, "scratch"):
            self._of_thread.scratch = self._prepared()
        found: hyperscan.Scratch | None = self._of_thread.scratch
        return found

    def _prepared(self) -> hyperscan.Scratch | None:
        try:
            if self._database is None:
                self._database = _compiled(self._patterns)
            return hyperscan.Scratch(self._database)
        except hyperscan.error:
            return None


def _compiled(patterns: tuple[bytes, ...]) -> hyperscan.Database:
    database = hyperscan.Database()
    database.compile(
        expressions=list(patterns),
        ids=list(range(len(patterns))),
        elements=len(patterns),
        flags=[hyperscan.HS_FLAG_CASELESS] * len(patterns),
    )
    return database
