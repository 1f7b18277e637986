"""Addresses of the probes floor."""

from __future__ import annotations

from django.urls import path

from probes import api, marker_views, proof_views, router_views, sweep_views, token_views, views

urlpatterns = [
    path("api/gate", api.gate, name="api_gate"),
    path("api-tokens/", token_views.api_token_list, name="api_token_list"),
    path("api-tokens/add/", token_views.api_token_add, name="api_token_add"),
    path("api-tokens/<slug:name>/revoke/", token_views.api_token_revoke, name="api_token_revoke"),
    path("deployments/", views.deployment_list, name="deployment_list"),
    path("deployments/<slug:name>/", views.deployment, name="deployment"),
    path("deployments/<slug:name>/audit/", views.audit_start, name="audit_start"),
    path("deployments/<slug:name>/accept/", views.exposure_accepted, name="exposure_accepted"),
    path("deployments/<slug:name>/cordon/", views.cordon, name="cordon"),
    path("deployments/<slug:name>/router/", views.router, name="router"),
    path("deployments/<slug:name>/router/job/", router_views.router_job, name="router_job"),
    path("deployments/<slug:name>/router/out/", router_views.taken_out_again, name="take_out"),
    path(
        "deployments/<slug:name>/router/<slug:node>/join/",
        router_views.node_joined,
        name="node_join",
    ),
    path("sweep/", sweep_views.sweep, name="sweep"),
    path("sweep/start/", sweep_views.sweep_start, name="sweep_start"),
    path("audits/", views.audit_list, name="audit_list"),
    path("audits/<int:pk>/", views.audit, name="audit"),
    path("audits/<int:pk>/proof/", proof_views.audit_proof, name="audit_proof"),
    path("trace/", marker_views.marker_trace, name="marker_trace"),
    path("audits/public-key/", proof_views.proof_public_key, name="proof_public_key"),
]
