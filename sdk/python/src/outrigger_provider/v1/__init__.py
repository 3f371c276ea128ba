"""The messages of the contract cloudprovider.v1; their comments say what each field means."""

from .common_pb2 import *
from .instances_pb2 import *
from .load_balancer_options_pb2 import *
from .load_balancers_pb2 import *
from .node_sets_pb2 import *
from .options_pb2 import *
from .provider_pb2 import *
from .routes_pb2 import *
from .volumes_pb2 import *
