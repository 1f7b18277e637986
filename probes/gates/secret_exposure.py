"""Gate: an engine shows no secret to whoever may read its settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from common.verdicts import Verdict
from fleet.reading import FleetReading, Reading
from probes.contract import GATES
from probes.doubts import doubt_about
from probes.judgement import Check, Figure, Kind, Skipped

KEY = "secret_exposure"


@GATES.register(KEY)
class SecretExposure:
    """Names the fields in which an engine shows a secret in clear; values never get this far.

    Source: SGLang /server_info, 0.5.5 to 0.5.23 (upstream issues 30166 and 37457): every start
    argument, keys included; anonymous where only an admin key is set.
    """

    title = "No secret is shown in clear"
    kind = Kind.SECRET

    def judge(self, fleet: FleetReading) -> Iterable[Check | Skipped]:
        """Answer one check a node."""
        if not fleet.readings:
            yield Skipped(check=KEY, reason="no node was named")
        for reading in fleet.readings:
            verdict, reason = _verdict(reading)
            figures: dict[str, Figure] = {
                "exposed": len(reading.exposed_secrets),
                "fields": ", ".join(reading.exposed_secrets) or None,
                "readable": _READABLE[reading.secrets_open] if reading.exposed_secrets else None,
            }
            yield Check(
                check=KEY,
                target=reading.node,
                verdict=verdict,
                kind=self.kind,
                reason=reason,
                figures=figures,
            )


#: Who gets what an engine shows. A key is no excuse: whoever has the lesser one reads the greater.
_READABLE: Mapping[bool | None, str | None] = {
    True: "without a key",
    False: "only with the key",
    None: None,
}
_TO_WHOM: Mapping[bool | None, str] = {
    True: ", readable without a key by whoever reaches its port",
    False: ", readable only with the key",
    None: "",
}


def _verdict(reading: Reading) -> tuple[Verdict, str]:
    # What was seen stays seen, whatever else of the node could not be read.
    if reading.exposed_secrets:
        names = ", ".join(reading.exposed_secrets)
        return Verdict.FAIL, (
            f"{reading.node} shows secrets in clear in {names}{_TO_WHOM[reading.secrets_open]}: "
            "let nobody but this tool reach its settings, set an API key beside the admin key, and "
            "replace what was shown"
        )
    if not reading.is_read:
        return Verdict.INCONCLUSIVE, doubt_about(reading)
    return Verdict.PASS, f"{reading.node} showed no secret in what was read of it"
