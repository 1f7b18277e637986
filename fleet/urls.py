"""Addresses of the fleet floor."""

from __future__ import annotations

from django.urls import path

from fleet import node_views, views

urlpatterns = [
    path("fleet/add/", views.deployment_added, name="deployment_add"),
    path("fleet/add/router/", views.router_imported, name="router_import"),
    path("fleet/<slug:name>/change/", views.deployment_changed, name="deployment_change"),
    path("fleet/<slug:name>/nodes/add/", views.node_added, name="node_add"),
    path(
        "fleet/<slug:name>/nodes/<slug:node>/retire/", node_views.node_retired, name="node_retire"
    ),
    path("fleet/<slug:name>/keys/", views.keys_set, name="credentials_set"),
    path("fleet/<slug:name>/attestations/", views.attestation_list, name="attestation_list"),
    path("fleet/<slug:name>/attestations/add/", views.attestation_added, name="attestation_add"),
    path(
        "fleet/<slug:name>/attestations/<int:pk>/withdraw/",
        views.attestation_withdrawn,
        name="attestation_withdraw",
    ),
    path("fleet/<slug:name>/grant/", views.grant_change, name="grant_change"),
]
