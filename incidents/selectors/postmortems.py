"""Gathers what a post-mortem holds from an incident and the audits around it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from common.clock import now
from incidents.contract import EventKind, Source, Status
from incidents.impact import exposure_windows
from incidents.models import Incident
from incidents.postmortem import (
    ChainState,
    Entry,
    EvidenceLine,
    Figure,
    FigureLine,
    FindingLine,
    GateLine,
    GateSide,
    Impact,
    Person,
    Postmortem,
    Subject,
    durations_of,
)
from incidents.selectors.audits import audits_of
from incidents.selectors.canary import canary_lines
from incidents.selectors.incidents import standing_moments
from incidents.selectors.timelines import chain_state, status_changes, timeline
from probes.models import Audit, AuditCheck, AuditState
from probes.selectors import proof_standing


def postmortem_build(incident: Incident) -> Postmortem:
    """Answer everything that an export of this incident shows, as it stands now."""
    incident = Incident.objects.select_related("deployment", "commander").get(pk=incident.pk)
    entries = timeline(incident)
    audits = list(audits_of(incident))
    judged = [audit for audit in audits if audit.state == AuditState.DONE]
    first = judged[0] if judged else None
    last = judged[-1] if len(judged) > 1 else None
    moments = standing_moments(incident)
    findings = _finding_lines(incident)
    chain = chain_state(incident)
    return Postmortem(
        subject=_subject(incident),
        generated_at=now(),
        people=_people(incident, entries),
        impact=Impact(
            windows=exposure_windows(incident.impact_start_at, status_changes(incident)),
            basis=incident.impact_basis,
        ),
        moments=moments,
        durations=durations_of(moments),
        findings=findings,
        first_audit=first.pk if first else None,
        last_audit=last.pk if last else None,
        gates=_gate_lines(first, last),
        canary=canary_lines(audit.pk for audit in audits),
        actions=tuple(entry for entry in entries if entry.source == Source.RUN),
        evidence=_evidence_lines(incident),
        entries=entries,
        chain=chain,
        open_questions=tuple(_open_questions(incident, findings, chain)),
    )


def _subject(incident: Incident) -> Subject:
    deployment = incident.deployment
    return Subject(
        reference=incident.reference,
        title=incident.title,
        kind=incident.kind,
        status=incident.status,
        is_restricted=incident.is_restricted,
        deployment=deployment.name,
        model=deployment.model,
        engine=deployment.engine,
    )


def _people(incident: Incident, entries: Sequence[Entry]) -> tuple[Person, ...]:
    """Answer the commander, who declared, and everybody else who wrote, each named once a part."""
    people = []
    if incident.commander is not None:
        people.append(Person(name=incident.commander.get_username(), part="commander"))
    written = [entry for entry in entries if entry.source == Source.PERSON]
    people += [
        Person(name=entry.actor, part="declared it")
        for entry in written
        if entry.kind == EventKind.DECLARED
    ]
    named = {person.name for person in people}
    others = dict.fromkeys(entry.actor for entry in written if entry.actor not in named)
    return tuple(people) + tuple(Person(name=name, part="took part") for name in others)


def _finding_lines(incident: Incident) -> tuple[FindingLine, ...]:
    return tuple(
        FindingLine(
            check=finding.check_name,
            target=finding.target,
            kind=finding.kind,
            reason=finding.reason,
            first_seen_at=finding.first_seen_at,
            resolved_at=finding.resolved_at,
        )
        for finding in incident.findings.order_by("first_seen_at", "pk")
    )


def _gate_lines(first: Audit | None, last: Audit | None) -> tuple[GateLine, ...]:
    """Answer the checks of both audits side by side, in the order of the first."""
    before, after = _sides(first), _sides(last)
    return tuple(
        GateLine(check=check, target=target, before=before.get(place), after=after.get(place))
        for place in dict.fromkeys([*before, *after])
        for check, target in [place]
    )


def _sides(audit: Audit | None) -> dict[tuple[str, str], GateSide]:
    if audit is None:
        return {}
    checks = AuditCheck.objects.filter(audit=audit).order_by("pk")
    return {
        (check.check_name, check.target): GateSide(
            audit=audit.pk, verdict=check.verdict, figures=_figure_lines(check.figures)
        )
        for check in checks
    }


def _figure_lines(figures: Mapping[str, object]) -> tuple[FigureLine, ...]:
    return tuple(FigureLine(name=name, value=_figure(value)) for name, value in figures.items())


def _figure(value: object) -> Figure:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, list) and all(isinstance(end, int) for end in value):
        return tuple(value)
    return str(value)


def _evidence_lines(incident: Incident) -> tuple[EvidenceLine, ...]:
    return tuple(
        EvidenceLine(
            number=kept.number,
            title=kept.title,
            sha256=kept.sha256,
            size_bytes=kept.size_bytes,
            taken_at=kept.taken_at,
        )
        for kept in incident.evidence.defer("sealed_document").order_by("number")
    )


def _open_questions(
    incident: Incident, findings: Sequence[FindingLine], chain: ChainState
) -> Iterator[str]:
    yield "Who was affected is not yet determined: classify the request logs of the impact window."
    if incident.status != Status.CLOSED:
        yield f"The incident is {incident.status}; what follows is not in this document."
    unresolved = [finding for finding in findings if finding.resolved_at is None]
    for finding in unresolved:
        yield f"{finding.check} of {finding.target} is not resolved."
    if proof_standing(incident.deployment) is None:
        yield f"{incident.deployment} has no standing proof at this moment."
    if not chain.holds:
        yield (
            f"The timeline is not as it was written from entry {chain.break_sequence} on: "
            f"{chain.break_reason}."
        )
