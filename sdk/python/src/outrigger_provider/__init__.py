"""Serves a cloud to Outrigger's controller over a Unix socket: implement Instances, LoadBalancers, Routes or Volumes,
and call main. Messages are those of the contract, in v1."""

from . import v1
from .call import Call, Cluster
from .each import each
from .errors import CallerGoneError, Error, Reason
from .identity import Dependencies
from .instances import Instances, Query
from .load_balancers import ABSENT, NOT_MANAGED, RETAINED, LoadBalancers, differs, in_progress, ready
from .logs import init_logging
from .main import main
from .probe import probe
from .provider import Provider, ProviderError
from .results import Lookup, VolumeLookup, WithEffects, absent, not_managed, not_visible_yet
from .routes import Change, Changes, Routes
from .server import serve
from .socket_file import SocketError, path_of
from .targets import Targets
from .volumes import Volumes

__all__ = [
    "ABSENT",
    "NOT_MANAGED",
    "RETAINED",
    "Call",
    "CallerGoneError",
    "Change",
    "Changes",
    "Cluster",
    "Dependencies",
    "Error",
    "Instances",
    "LoadBalancers",
    "Lookup",
    "Provider",
    "ProviderError",
    "Query",
    "Reason",
    "Routes",
    "SocketError",
    "Targets",
    "VolumeLookup",
    "Volumes",
    "WithEffects",
    "absent",
    "differs",
    "each",
    "in_progress",
    "init_logging",
    "main",
    "not_managed",
    "not_visible_yet",
    "path_of",
    "probe",
    "ready",
    "serve",
    "v1",
]
