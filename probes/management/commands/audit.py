"""Verb ``audit``: audits a deployment from the shell and exits by the verdict."""

from __future__ import annotations

import json
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from common.exits import EXIT_FAIL, EXIT_INCONCLUSIVE, EXIT_PASS, EXIT_TOOL, UsageError, VerdictExit
from common.operator import operator_name
from common.verdicts import Verdict
from fleet.models import Deployment
from probes.canary.contract import PLANS
from probes.conduct import audit_conduct
from probes.models import Audit, Way
from probes.services import AuditError, audit_queue_alone

_EXIT = {Verdict.PASS: EXIT_PASS, Verdict.FAIL: EXIT_FAIL, Verdict.ERROR: EXIT_TOOL}


class Command(BaseCommand):
    """``audit DEPLOYMENT [--gates-only] [--plan NAME]... [--json]``."""

    help = "audit a deployment: gates, and canary rounds through its router"

    def add_arguments(self, parser: CommandParser) -> None:
        """Take the deployment's name and what to leave out."""
        parser.add_argument("deployment")
        parser.add_argument("--gates-only", action="store_true", help="send no canary")
        parser.add_argument(
            "--plan",
            action="append",
            default=[],
            metavar="NAME",
            choices=[*PLANS.all()],
            help="a canary plan, else those of the deployment: " + ", ".join(PLANS.all()),
        )
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ANN401 - Django's signature
        """Queue the audit, conduct it here, print it, exit by its verdict."""
        deployment = Deployment.objects.filter(name=options["deployment"]).first()
        if deployment is None:
            names = ", ".join(Deployment.objects.values_list("name", flat=True)) or "none yet"
            raise UsageError(f"no deployment is called {options['deployment']}; there are: {names}")
        try:
            audit = audit_queue_alone(
                deployment=deployment,
                actor=operator_name(),
                way=Way.NONE if options["gates_only"] else Way.ROUTER,
                plans=options["plan"],
            )
        except AuditError as error:
            raise UsageError(str(error)) from error
        self.stderr.write(f"audit {audit.pk} of {deployment}")
        audit_conduct(audit_pk=audit.pk)
        audit.refresh_from_db()
        self._print(audit, as_json=options["json"])
        raise VerdictExit(_EXIT.get(Verdict(audit.verdict), EXIT_INCONCLUSIVE))

    def _print(self, audit: Audit, *, as_json: bool) -> None:
        document = audit_document(audit)
        if as_json:
            self.stdout.write(json.dumps(document))
            return
        for check in document["checks"]:
            mark = "" if check["required"] else " (advisory)"
            self.stdout.write(f"{check['verdict']:<14} {check['check']} {check['target']}{mark}")
            self.stdout.write(f"    {check['reason']}")
        self.stdout.write(f"{audit.verdict}: {audit.headline}")


def audit_document(audit: Audit) -> dict[str, Any]:
    """Answer an audit as a judgement (design, "A judgement"), with its number and cost."""
    return {
        "audit": audit.pk,
        "deployment": audit.deployment.name,
        "verdict": audit.verdict,
        "cost_tokens": audit.cost_tokens,
        "checks": [
            {
                "check": check.check_name,
                "target": check.target,
                "verdict": check.verdict,
                "required": check.required,
                "kind": check.kind,
                "reason": check.reason,
                "figures": check.figures,
            }
            for check in audit.checks.all()
        ],
        "skipped": audit.skipped,
    }
