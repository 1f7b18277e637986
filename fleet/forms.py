"""What people type to name deployments, nodes and keys. Keys are written, never shown again."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django import forms

from common.clock import now
from fleet.attesting import LONGEST, AttestationTerms
from fleet.choices import engine_choices, router_choices
from fleet.discovery import RouterOrder
from fleet.fields import METRICS_SHAPE, AddressField, PlansField, key_input
from fleet.importing import RouterImport
from fleet.models import Deployment, Node, Purpose
from fleet.reading import DEFAULT_HEADROOM, Role
from fleet.services import DeploymentTerms, Key, NodeTerms
from fleet.validation import validate_attestable


class DeploymentForm(forms.Form):
    """What people say of a deployment. Unit of lengths: tokens."""

    name = forms.SlugField(
        max_length=60, help_text="Short and unique; it is typed to confirm dangerous acts."
    )
    model = forms.CharField(
        label="Served model", max_length=200, help_text="As clients name it in their requests."
    )
    engine = forms.ChoiceField(choices=engine_choices)
    router_kind = forms.ChoiceField(
        label="Kind of router",
        choices=lambda: [("", "told by its answers"), *router_choices()],
        required=False,
    )
    router_url = AddressField(
        label="Router address",
        required=False,
        help_text="Workers are listed, taken out and put back here.",
    )
    router_metrics_url = AddressField(
        label="Router metrics address",
        required=False,
        shape=METRICS_SHAPE,
        help_text="Its Prometheus page; only there circuit breakers show.",
    )
    control_url = AddressField(
        label="Drill control address",
        required=False,
        help_text="Only a drill cluster has one.",
    )
    advertised_context = forms.IntegerField(
        required=False,
        min_value=1,
        help_text="Tokens promised to clients. It may raise what the engine says, never lower it.",
    )
    headroom = forms.DecimalField(
        min_value=1,
        max_digits=5,
        decimal_places=3,
        initial=DEFAULT_HEADROOM,
        help_text="Wanted pool as a factor on the context.",
    )
    granted_tokens = forms.IntegerField(
        label="Boundary grant",
        min_value=0,
        initial=0,
        help_text="Tokens that one boundary round may cost. 0: no boundary round is sent.",
    )
    plans = PlansField()

    def tell_costs(self, deployment: Deployment) -> None:
        """Show what each plan would cost on a deployment."""
        self.fields["plans"] = PlansField(deployment)

    def clean_name(self) -> str:
        """Answer the name, unless another deployment has it."""
        name: str = self.cleaned_data["name"]
        if name != self.initial.get("name") and Deployment.objects.filter(name=name).exists():
            raise forms.ValidationError(f"A deployment is called {name} already.")
        return name

    def terms(self) -> DeploymentTerms:
        """Answer what was typed, once the form is valid."""
        return DeploymentTerms(**self.cleaned_data)


class RouterForm(forms.Form):
    """A router from which a whole deployment is made. Keys are sealed, never shown again."""

    name = forms.SlugField(
        max_length=60, help_text="Short and unique; it is typed to confirm dangerous acts."
    )
    router_url = AddressField(
        label="Router address", help_text="Its control plane, where workers are listed."
    )
    router_metrics_url = AddressField(
        label="Router metrics address",
        required=False,
        shape=METRICS_SHAPE,
        help_text="Its Prometheus page; only there circuit breakers show.",
    )
    model = forms.CharField(
        label="Served model",
        max_length=200,
        required=False,
        help_text="Leave empty where the router names exactly one.",
    )
    engine = forms.ChoiceField(
        choices=lambda: [("", "as is usual behind such a router"), *engine_choices()],
        required=False,
    )
    router_key = forms.CharField(
        label="Router control key", required=False, max_length=4096, widget=key_input()
    )
    node_key = forms.CharField(
        label="Node key",
        required=False,
        max_length=4096,
        widget=key_input(),
        help_text="Opens the engines' own interface. Type keys again after a look.",
    )

    def clean_name(self) -> str:
        """Answer the name, unless another deployment has it."""
        name: str = self.cleaned_data["name"]
        if Deployment.objects.filter(name=name).exists():
            raise forms.ValidationError(f"A deployment is called {name} already.")
        return name

    def wanted(self) -> RouterImport:
        """Answer what was typed, once the form is valid."""
        typed: Mapping[str, str] = self.cleaned_data
        return RouterImport(
            name=typed["name"],
            order=RouterOrder(
                url=typed["router_url"],
                engine=typed["engine"],
                model=typed["model"],
                metrics_url=typed["router_metrics_url"],
                key=typed["router_key"],
            ),
            node_key=typed["node_key"],
        )


class NodeForm(forms.Form):
    """What people say of a node."""

    name = forms.SlugField(max_length=60)
    url = AddressField(label="Address", help_text="Of the engine itself, not of a router.")
    role = forms.ChoiceField(choices=[(role.value, role.value) for role in Role])
    bootstrap_port = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=65535,
        help_text="Of a prefill node; needed to probe a pair out of rotation.",
    )

    def __init__(self, *args: Any, deployment: Deployment, **kwargs: Any) -> None:  # noqa: ANN401 - Django's signature
        super().__init__(*args, **kwargs)
        self._nodes = Node.objects.filter(deployment=deployment)

    def clean_name(self) -> str:
        """Answer the name, unless another node of the deployment has it."""
        name: str = self.cleaned_data["name"]
        known = self._nodes.filter(name=name).first()
        if known is not None and known.retired_at is not None:
            raise forms.ValidationError(
                f"{name} was retired, and its name with it: choose another, or bring it back with "
                "fleet import."
            )
        if known is not None:
            raise forms.ValidationError(f"A node is called {name} already.")
        return name

    def clean_url(self) -> str:
        """Answer the address, unless another node of the deployment stands there."""
        url: str = self.cleaned_data["url"]
        if self._nodes.filter(url=url, retired_at=None).exists():
            raise forms.ValidationError("A node stands at this address already.")
        return url

    def terms(self) -> NodeTerms:
        """Answer what was typed, once the form is valid."""
        typed: Mapping[str, Any] = self.cleaned_data
        return NodeTerms(
            name=typed["name"],
            url=typed["url"],
            role=Role(typed["role"]),
            bootstrap_port=typed["bootstrap_port"],
        )


def _key_field(label: str, says: str = "") -> forms.CharField:
    hint = f"{says} Leave empty to keep what is set.".strip()
    return forms.CharField(
        label=label,
        required=False,
        max_length=4096,
        strip=True,
        help_text=hint,
        widget=key_input(),
    )


def _name_field(label: str) -> forms.CharField:
    return forms.CharField(label=label, required=False, max_length=60, strip=True)


class KeysForm(forms.Form):
    """Keys to be sealed. No field ever shows what is set."""

    node_key = _key_field("Node key", "Opens the engines' own interface.")
    admin_key = _key_field("Node admin key")
    router_key = _key_field("Router control key", "Lists, removes and adds workers.")
    tenant_a_name = _name_field("Name of tenant A")
    tenant_a_key = _key_field("Key of tenant A", "A synthetic tenant: it fills the pool.")
    tenant_b_name = _name_field("Name of tenant B")
    tenant_b_key = _key_field("Key of tenant B", "Another synthetic tenant: it asks.")

    def keys(self) -> tuple[Key, ...]:
        """Answer what was typed, once the form is valid."""
        typed: Mapping[str, str] = self.cleaned_data
        return (
            Key(purpose=Purpose.NODE, key=typed["node_key"]),
            Key(purpose=Purpose.ADMIN, key=typed["admin_key"]),
            Key(purpose=Purpose.ROUTER, key=typed["router_key"]),
            Key(purpose=Purpose.TENANT_A, key=typed["tenant_a_key"], name=typed["tenant_a_name"]),
            Key(purpose=Purpose.TENANT_B, key=typed["tenant_b_key"], name=typed["tenant_b_name"]),
        )


class GrantForm(forms.Form):
    """What a boundary round may cost. Unit: tokens."""

    granted_tokens = forms.IntegerField(
        label="Tokens that one boundary round may cost",
        min_value=0,
        help_text=(
            "Filling a pool evicts customers' caches while it runs. "
            "0: no boundary round is sent, and what needs one is not exercised."
        ),
    )


class AttestationForm(forms.Form):
    """What a person vouches for, because the engine does not show it."""

    key = forms.CharField(
        label="Setting",
        max_length=80,
        validators=[validate_attestable],
        widget=forms.TextInput(
            attrs={"list": "attestable", "autocomplete": "off", "spellcheck": "false"}
        ),
        help_text="As gates and advisories ask for it, such as transfer_backend.",
    )
    value = forms.CharField(max_length=300, strip=True)
    node = forms.ModelChoiceField(
        queryset=Node.objects.none(),
        required=False,
        empty_label="every node",
        help_text="What is said of one node stands before what is said of all.",
    )
    reason = forms.CharField(
        label="How do you know?",
        max_length=500,
        widget=forms.Textarea(attrs={"rows": 2}),
    )
    days = forms.IntegerField(
        label="Good for, in days", min_value=1, max_value=LONGEST.days, initial=30
    )

    def __init__(self, *args: Any, deployment: Deployment, **kwargs: Any) -> None:  # noqa: ANN401 - Django's signature
        super().__init__(*args, **kwargs)
        chosen = self.fields["node"]
        if isinstance(chosen, forms.ModelChoiceField):
            chosen.queryset = Node.objects.filter(deployment=deployment, retired_at=None)

    def terms(self) -> AttestationTerms:
        """Answer what was typed, once the form is valid."""
        typed: Mapping[str, Any] = self.cleaned_data
        return AttestationTerms(
            key=typed["key"],
            value=typed["value"],
            reason=typed["reason"],
            node=typed["node"],
            until=now() + timedelta(days=typed["days"]),
        )
