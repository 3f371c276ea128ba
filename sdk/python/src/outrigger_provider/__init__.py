"""Serves a cloud to Outrigger's controller over a Unix socket: implement Instances, LoadBalancers, Routes or Volumes,
and call main. Messages are those of the contract, in v1."""

from . import v1 as v1
from .batcher import Batcher as Batcher
from .call import Call as Call, Cluster as Cluster
from .errors import CallerGoneError as CallerGoneError, Error as Error, Reason as Reason
from .health import probe as probe
from .identity import Dependencies as Dependencies
from .instances import Instances as Instances, Query as Query
from .load_balancers import (
    ABSENT as ABSENT,
    NOT_MANAGED as NOT_MANAGED,
    RETAINED as RETAINED,
    Answer as Answer,
    LoadBalancers as LoadBalancers,
    differs as differs,
    in_progress as in_progress,
    ready as ready,
)
from .logs import init_logging as init_logging
from .main import main as main
from .node_sets import Targets as Targets
from .outcomes import (
    Lookup as Lookup,
    Outcome as Outcome,
    WithEffects as WithEffects,
    absent as absent,
    not_managed as not_managed,
    not_visible_yet as not_visible_yet,
)
from .provider import Provider as Provider
from .routes import Routes as Routes
from .server import serve as serve
from .socket_file import SocketError as SocketError, path_of as path_of
from .volumes import Volumes as Volumes
