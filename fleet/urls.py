"""Addresses of the fleet floor."""

from __future__ import annotations

from django.urls import path

from fleet import views

urlpatterns = [
    path("fleet/add/", views.deployment_added, name="deployment_add"),
    path("fleet/<slug:name>/change/", views.deployment_changed, name="deployment_change"),
    path("fleet/<slug:name>/nodes/add/", views.node_added, name="node_add"),
    path("fleet/<slug:name>/keys/", views.keys_set, name="credentials_set"),
    path("fleet/<slug:name>/grant/", views.grant_change, name="grant_change"),
]
