"""Runbook "cross-tenant KV exposure": what to do when an answer carried another tenant's text."""

from __future__ import annotations

from datetime import timedelta

from runbooks.contract import BOOKS, Runbook, StepPlan

_CAPTURE = StepPlan(
    key="capture",
    title="Capture evidence",
    what=(
        "Reads every node's allow-listed answers and keeps them sealed, with their hash, before "
        "anything is flushed or restarted. Costs four GET requests a node."
    ),
    if_it_fails="Nothing was changed. A silent node is recorded as such, and the run goes on.",
    deadline=timedelta(minutes=5),
)
_DISABLE = StepPlan(
    key="disable",
    title="Take the deployment out of rotation",
    what=(
        "Removes every worker of the deployment from its router, confirms that the router no "
        "longer lists them, and asks the engines until all their queues are empty. Customers get "
        "503 from this moment on. All that is needed to put the workers back is kept."
    ),
    if_it_fails=(
        "Workers already removed stay out. The incident stays declared until the engines are "
        "proved empty."
    ),
    needs_start=True,
    deadline=timedelta(minutes=15),
)
_PATCH = StepPlan(
    key="patch",
    title="Fixed engine, pools that cover the context",
    what=(
        "Redeploys the nodes with a guarded engine version and pools that hold the advertised "
        "context with its headroom: by the lever where the deployment has one, else a person does "
        "it. Done when the gates, read from the running engines, all pass."
    ),
    if_it_fails="The deployment stays out of rotation and the incident stays contained.",
    needs_start=True,
    deadline=timedelta(hours=6),
)
_VERIFY = StepPlan(
    key="verify",
    title="Verify with gates and two canary rounds",
    what=(
        "Runs the gates, then two independent boundary rounds with different seeds as two "
        "tenants, directly to the pairs, out of rotation. Bodies are sealed. No customer traffic "
        "is touched."
    ),
    if_it_fails="The deployment stays out of rotation and the incident stays contained.",
    deadline=timedelta(hours=1),
    settings={"rounds": 2},
)
_RESTORE = StepPlan(
    key="restore",
    title="Restore",
    what=(
        "After a second person's approval: puts the workers back, confirms that the router lists "
        "them healthy, and audits through the router as two tenants."
    ),
    if_it_fails="The deployment is taken out again by itself, and the incident is contained.",
    needs_approval=True,
    deadline=timedelta(hours=1),
)
_TELL = StepPlan(
    key="tell",
    title="Tell",
    what=(
        "A person tells customers, the authority and the status page what happened, from the "
        "post-mortem's figures, and writes down here who was told."
    ),
    if_it_fails="Service is restored already; the duty to tell stands until it is confirmed here.",
    is_manual=True,
    deadline=timedelta(days=3),
)


@BOOKS.register("cross_tenant_kv_exposure")
class CrossTenantKvExposure:
    """Capture, disable, patch, verify, restore, tell."""

    def runbook(self) -> Runbook:
        """Answer version 1."""
        return Runbook(
            key="cross_tenant_kv_exposure",
            version=1,
            title="Cross-tenant KV exposure",
            summary="For an answer that carried, or could carry, text of another tenant.",
            steps=(_CAPTURE, _DISABLE, _PATCH, _VERIFY, _RESTORE, _TELL),
        )
