"""A handler's answer about one instance, volume or route."""

from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from . import v1

T = TypeVar("T")


@dataclass(frozen=True)
class WithEffects(Generic[T]):
    """An outcome, and the events, annotations and conditions of the Node that go beside it."""

    outcome: T
    effects: v1.KubernetesEffects


Outcome: TypeAlias = T | v1.Absent | v1.NotManaged
# In the mapping of a batch an exception is the error of its Node.
Lookup: TypeAlias = Outcome[v1.Instance] | WithEffects[Outcome[v1.Instance]] | Exception


def absent(reason: str = "") -> v1.Absent:
    """The cloud was asked during this call, with the permission to see every object of that kind, answered in full,
    and has no such object. THE NODE MAY BE DELETED."""
    return v1.Absent(certainty=v1.ABSENCE_CERTAINTY_CONFIRMED, reason=reason)


def not_visible_yet(reason: str = "") -> v1.Absent:
    """There is none, but that may be a cache or eventual consistency. Deletes nothing."""
    return v1.Absent(certainty=v1.ABSENCE_CERTAINTY_NOT_VISIBLE_YET, reason=reason)


def not_managed(reason: str) -> v1.NotManaged:
    """Another provider, or none, owns the object. Logs have the reason."""
    return v1.NotManaged(reason=reason)


def split(outcome: T | WithEffects[T]) -> tuple[T, v1.KubernetesEffects | None]:
    """An outcome, and its effects where there are some."""
    return (outcome.outcome, outcome.effects) if isinstance(outcome, WithEffects) else (outcome, None)
