"""Addresses of the incidents floor."""

from __future__ import annotations

from django.urls import path

from incidents import views

urlpatterns = [
    path("incidents/", views.incident_list, name="incident_list"),
    path("incidents/findings/<int:pk>/declare/", views.finding_declared, name="finding_declared"),
    path("incidents/<str:reference>/", views.incident, name="incident"),
    path("incidents/<str:reference>/declare/", views.incident_declared, name="incident_declared"),
    path("incidents/<str:reference>/command/", views.command_taken, name="command_taken"),
    path("incidents/<str:reference>/notes/", views.note_added, name="note_added"),
    path("incidents/<str:reference>/move/", views.incident_moved, name="incident_moved"),
    path("incidents/<str:reference>/close/", views.incident_closed, name="incident_closed"),
    path("incidents/<str:reference>/postmortem/<slug:form>/", views.postmortem, name="postmortem"),
    path(
        "incidents/<str:reference>/evidence/<int:number>/unseal/",
        views.evidence_opened,
        name="evidence_opened",
    ),
    path("incidents/<str:reference>/rows/<uuid:pk>/unseal/", views.row_opened, name="row_opened"),
    path(
        "deployments/<slug:name>/incident/",
        views.deployment_incident,
        name="deployment_incident",
    ),
    path("audits/<int:pk>/answers/", views.audit_answers, name="audit_answers"),
]
