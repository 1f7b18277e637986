"""Doors to signed proofs: the bundle of an audit's pass, and the key to check it with."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from common.pages import PageRequest
from probes.models import Proof
from probes.signing import NoSigningKey, public_key


@never_cache
@require_GET
def audit_proof(request: PageRequest, pk: int) -> HttpResponse:
    """Answer the signed proof of an audit while it stands; what is void is not handed out."""
    proof = get_object_or_404(Proof.objects.select_related("deployment"), audit=pk)
    if not proof.is_standing:
        why = proof.void_reason or "it ran out"
        messages.error(request, f"This proof no longer stands: {why}. Run an audit.")
    elif not proof.bundle:
        messages.error(request, "This proof was not signed, since no key was set: run an audit.")
    else:
        name = f"{proof.deployment.name}-audit-{pk}.proof.json"
        return _file(proof.bundle, name, kind="application/json")
    return redirect("audit", pk=pk)


@require_GET
def proof_public_key(request: PageRequest) -> HttpResponse:
    """Answer the public half of the key that signs here."""
    try:
        return _file(public_key(), "pagewarden-proof.pub", kind="application/x-pem-file")
    except NoSigningKey as fault:
        messages.error(request, f"There is no public key: {fault}.")
        return redirect("audit_list")


def _file(text: str, name: str, *, kind: str) -> HttpResponse:
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return HttpResponse(text, content_type=kind, headers=headers)
