"""Plan: leave while the prompt is being computed, and read what both engines make of it.

A client that leaves must not end a request whose KV is on its way: sent writes cannot be recalled,
so pages that are freed under them reach their next owner. What stands between clients and engines
lets a request run to its first token. Source: docs/adr/0014.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from probes.canary.aborts import KEY, LET_GO, judge_aborts, judge_let_go, unjudged
from probes.canary.contract import PLANS, Evidence
from probes.canary.rounds import Duty, Part, Sending, Stay, Way
from probes.canary.scene import Scene
from probes.judgement import Check

#: Requests of a round, all of one length.
_REQUESTS = 3
#: New tokens of a request whose client leaves: room to see whether decode goes on for nobody.
_NEW_TOKENS = 256
#: Below this a prompt holds little but its own ask. Unit: tokens.
_SHORTEST = 128
#: Longer prompts tell nothing more, and cost the engines more. Unit: tokens.
_LONGEST = 131_072


@PLANS.register(KEY)
class ProxyAborts:
    """Asks three times: staying, leaving, and leaving a pair that no router stands before.

    All three prompts are as long as the round may cost, because engines notice late that a client
    has left (SGLang looks every 4 s) and a short prompt is through before.
    """

    title = "A client that leaves does not end a transfer that is under way"
    oracles: Sequence[str] = (LET_GO,)
    ways: Collection[Way] = (Way.ROUTER,)
    guards: Sequence[str] = ("deferred_release",)

    def sendings(self, scene: Scene) -> tuple[Sending, ...]:
        """Answer the three requests; the one that leaves the pair shows what leaving looks like."""
        new_tokens = max(1, min(_NEW_TOKENS, scene.allowance // 8))
        affordable = (scene.allowance - 1 - (_REQUESTS - 1) * new_tokens) // _REQUESTS
        roomy = min(scene.longest_fitting(new_tokens), scene.last_admitted - new_tokens)
        length = max(_SHORTEST, min(affordable, roomy, _LONGEST))
        whole = Sending(
            part=Part.CONTROL,
            length=length,
            max_new_tokens=1,
            duty=Duty.ANSWER,
            purpose="its client stays",
        )
        leaves = Sending(
            part=Part.ASK,
            length=length,
            max_new_tokens=new_tokens,
            duty=Duty.EITHER,
            purpose="its client leaves",
            stay=Stay.LEAVES,
        )
        direct = Sending(
            part=Part.CONTROL,
            length=length,
            max_new_tokens=new_tokens,
            duty=Duty.EITHER,
            purpose="its client leaves, no router between",
            stay=Stay.LEAVES_PAIR,
        )
        return whole, leaves, direct

    def judge(self, evidence: Evidence) -> tuple[Check, ...]:
        """Answer what the proxy ended, and as advice what the engines went on with."""
        return judge_aborts(evidence), judge_let_go(evidence)

    def not_exercised(self, target: str, reason: str) -> tuple[Check, ...]:
        """Answer both checks of a round of which nothing was sent."""
        return unjudged(target, reason)
