"""What the agent does with a driver: agent.py CONFIG VERB [ARGUMENT...]."""

import json
import sys

import cyborg.conf
from cyborg.accelerator.drivers.gpu import utils as gpu_utils

import cyborg_cysim


def plain(value):
    """The fields of an object and of all below it."""
    if isinstance(value, list):
        return [plain(v) for v in value]
    if hasattr(value, "fields"):
        return {name: plain(getattr(value, name)) for name in value.fields}
    return value


cyborg.conf.CONF(["--config-file", sys.argv[1]], project="cyborg")
verb, arguments = sys.argv[2], sys.argv[3:]
try:
    if verb == "discover":
        json.dump(plain(cyborg_cysim.CysimDriver().discover()), sys.stdout)
    else:
        getattr(gpu_utils, verb + "_mdev_privileged")(*arguments)
except cyborg_cysim.CysimError as error:
    sys.exit("CysimError: %s" % error)
