"""The results of a batch: exactly one for each item of the request."""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

from google.protobuf.message import Message

from . import v1
from .call import Call
from .contract import key_of
from .errors import Error, cut, status_of
from .logs import logger

T = TypeVar("T")


@dataclass(frozen=True)
class WithEffects(Generic[T]):
    """An outcome, and the events, annotations and conditions of the Node that go beside it."""

    outcome: T
    effects: v1.KubernetesEffects


# The answer of a handler about one item. An exception is the error of that item.
Outcome: TypeAlias = T | v1.Absent | v1.NotManaged | Exception
Answer: TypeAlias = Outcome[T] | WithEffects[Outcome[T]]
Lookup: TypeAlias = Answer[v1.Instance]
VolumeLookup: TypeAlias = Answer[v1.VolumeTopology]


def absent(reason: str = "", *, age: float = 0) -> v1.Absent:
    """The cloud was asked during this call, with the permission to see every object of that kind, answered in full,
    and has no such object. THE NODE MAY BE DELETED. `age` is how many seconds old that answer of the cloud is: one
    from before this call is sent as not visible yet."""
    answer = v1.Absent(certainty=v1.ABSENCE_CERTAINTY_CONFIRMED, reason=reason)
    if age > 0:
        answer.age.FromNanoseconds(int(age * 1e9))
    return answer


def not_visible_yet(reason: str = "") -> v1.Absent:
    """There is none, but that may be a cache or eventual consistency. Deletes nothing."""
    return v1.Absent(certainty=v1.ABSENCE_CERTAINTY_NOT_VISIBLE_YET, reason=reason)


def not_managed(reason: str) -> v1.NotManaged:
    """Another provider, or none, owns the object. Logs have the reason."""
    return v1.NotManaged(reason=reason)


class Results:
    """Writes outcomes into results, which have the same fields in each batch."""

    def __init__(self, call: Call, response: type[Message], handler: str) -> None:
        self.call, self.handler, self.response = call, handler, response
        kind: Any = response.DESCRIPTOR.fields_by_name["results"].message_type
        self.has_effects = "effects" in kind.fields_by_name
        self.began = time.monotonic()

    def put(self, result: Any, outcome: object) -> None:
        """Writes one outcome; one of a wrong type is an error of its item."""
        if isinstance(outcome, WithEffects):
            if self.has_effects:
                result.effects.CopyFrom(outcome.effects)
            outcome = outcome.outcome
        if isinstance(outcome, v1.Absent) and result.DESCRIPTOR.fields_by_name.get("absent"):
            result.absent.CopyFrom(outcome)
            result.absent.reason = cut(outcome.reason)
            # An observation from before the call is a cache, whatever the handler says.
            if outcome.age.ToNanoseconds() / 1e9 > time.monotonic() - self.began:
                result.absent.certainty = v1.ABSENCE_CERTAINTY_NOT_VISIBLE_YET
        elif isinstance(outcome, v1.NotManaged) and result.DESCRIPTOR.fields_by_name.get("not_managed"):
            result.not_managed.reason = cut(outcome.reason)
        elif (
            isinstance(outcome, Message)
            and outcome.DESCRIPTOR is result.DESCRIPTOR.fields_by_name["found"].message_type
        ):
            result.found.CopyFrom(outcome)
        else:
            if not isinstance(outcome, Exception):
                expected = result.DESCRIPTOR.fields_by_name["found"].message_type.name
                text = f"{self.handler} has answered {type(outcome).__name__} about {result.key!r}"
                outcome = TypeError(f"{text}, and not {expected} or another outcome")
            self._fail(result, outcome)

    def _fail(self, result: Any, error: Exception) -> None:
        effects = error.effects if isinstance(error, Error) else None
        if isinstance(error, Error) and not self.has_effects:
            result.error.CopyFrom(error.call_status())
            return
        result.error.CopyFrom(status_of(error, self.call.request_id))
        if effects is not None and not result.HasField("effects"):
            result.effects.CopyFrom(effects)

    def respond(self, items: Iterable[Message], outcomes: object) -> Any:
        """The response to a batch, whose items without an outcome have an error."""
        if not isinstance(outcomes, Mapping):
            raise TypeError(
                f"{self.handler} has answered {type(outcomes).__name__}, and not a mapping of outcomes by key"
            )
        response: Any = self.response()
        keys = [key_of(item) for item in items]
        for key in keys:
            outcome = outcomes.get(key, LookupError(f"{self.handler} has no result for {key!r}"))
            self.put(response.results.add(key=key), outcome)
        for key in outcomes.keys() - set(keys):
            logger.warning("a batch has a result for an item that the request does not have", extra={"item": key})
        if (size := response.ByteSize()) > self.call.max_send_bytes:
            self._fit(response, size)
        return response

    def _fit(self, response: Any, size: int) -> None:
        """Leaves effects out of a response that is too large with them: the caller must learn the outcomes."""
        if not self.has_effects:
            return
        for result in response.results:
            result.ClearField("effects")
        if response.ByteSize() < size:
            text = "the effects of a batch are left out, since its answer is too large; send fewer or shorter ones"
            logger.warning(text, extra={"bytes": size, "limit": self.call.max_send_bytes})
