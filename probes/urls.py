"""Addresses of the probes floor."""

from __future__ import annotations

from django.urls import path

from probes import api, sweep_views, views

urlpatterns = [
    path("api/gate", api.gate, name="api_gate"),
    path("deployments/", views.deployment_list, name="deployment_list"),
    path("deployments/<slug:name>/", views.deployment, name="deployment"),
    path("deployments/<slug:name>/audit/", views.audit_start, name="audit_start"),
    path("deployments/<slug:name>/accept/", views.exposure_accepted, name="exposure_accepted"),
    path("deployments/<slug:name>/cordon/", views.cordon, name="cordon"),
    path("deployments/<slug:name>/router/", views.router, name="router"),
    path("deployments/<slug:name>/router/<slug:node>/join/", views.node_joined, name="node_join"),
    path("sweep/", sweep_views.sweep, name="sweep"),
    path("sweep/start/", sweep_views.sweep_start, name="sweep_start"),
    path("audits/", views.audit_list, name="audit_list"),
    path("audits/<int:pk>/", views.audit, name="audit"),
]
