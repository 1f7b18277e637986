"""Gate: both sides of a pair are split over their devices in the same way (advisory)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from common.verdicts import Verdict
from fleet.reading import FleetReading, Reading
from probes.contract import GATES
from probes.judgement import Check, Figure, Kind, Skipped
from probes.pairs import Terms, compare_terms, judge_pairs

KEY = "pair_layout"
BACKEND = "attention_backend"
#: Without this on both sides nothing is told.
WANTED = ("tp_size",)


@GATES.register(KEY)
class PairLayout:
    """Compares the parallel sizes. A difference is legal, but it must be earned by a canary.

    Source: /server_info; TensorRT-LLM issue 6507 (wrong answers under unequal tensor parallelism).
    """

    title = "Both sides of a pair are split alike"
    kind = Kind.CONFIG

    def judge(self, fleet: FleetReading) -> Iterable[Check | Skipped]:
        """Answer one check a pair."""
        return judge_pairs(
            fleet, check=KEY, kind=self.kind, judge_pair=_judge_pair, needs_both=False
        )


def _judge_pair(prefill: Reading, decode: Reading) -> tuple[Verdict, str, Mapping[str, Figure]]:
    # A size that neither side shows is one that their version does not have (dcp_size in 0.5.5).
    both = (prefill.parallel, decode.parallel)
    named = {name for sizes in both for name, size in sizes.items() if size is not None}
    near, far = ({name: sizes.get(name) for name in named} for sizes in both)
    verdict, reason, figures = compare_terms(
        Terms(reading=prefill, terms=near),
        Terms(reading=decode, terms=far),
        wanted=WANTED,
        cure="run a canary round over this pair before it takes requests",
    )
    shown = [one.flags.get(BACKEND) for one in (prefill, decode)]
    if verdict is Verdict.FAIL and None not in shown:
        # Whether unlike layouts answer wrongly hangs on the attention back end.
        figures = {**figures, BACKEND: f"{shown[0]} / {shown[1]}"}
    return verdict, reason, figures
