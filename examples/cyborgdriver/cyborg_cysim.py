"""A driver for the agent of OpenStack Cyborg that leaves the hardware to cysim.

Enable it beside no other driver, or beside those of other devices:

    [agent]
    enabled_drivers = cysim_driver

The agent calls discover() once a minute, which runs "cysim discover
-o driver-objects". It makes mediated devices by two functions of its own;
importing this module replaces them by "cysim mdev create" and "cysim mdev
remove", so that both sides use one configuration.

These options of cyborg.conf say where cysim is, here with their defaults:

    [cysim]
    program = /usr/local/bin/cysim
    config_file = /etc/cyborg/cysim.conf

The configuration of cysim has the form of a cyborg.conf, too, and its
[DEFAULT] host has to be that of the agent. It is a file of its own, because
cysim does not know this driver.
"""

import json
import subprocess

from oslo_config import cfg

import cyborg.conf
import cyborg.privsep
from cyborg.accelerator.drivers.gpu import utils as gpu_utils
from cyborg.objects.driver_objects import driver_attach_handle
from cyborg.objects.driver_objects import driver_attribute
from cyborg.objects.driver_objects import driver_controlpath_id
from cyborg.objects.driver_objects import driver_deployable
from cyborg.objects.driver_objects import driver_device

CONF = cyborg.conf.CONF
CONF.register_opts([
    cfg.StrOpt("program", default="/usr/local/bin/cysim", help="Path of cysim."),
    cfg.StrOpt("config_file", default="/etc/cyborg/cysim.conf", help="Configuration of cysim's drivers."),
], group="cysim")

TIMEOUT = 60  # seconds


class CysimError(Exception):
    """cysim failed; the text is what it wrote to its standard error."""


def run(verb, *args):
    """Run cysim and return what it prints.

    A failure is an exception. The agent then reports nothing at all, and
    Cyborg keeps what it knows: an empty list would delete every device.
    """
    command = [CONF.cysim.program, *verb, "--driver-config", CONF.cysim.config_file, *args]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=TIMEOUT)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CysimError("%s: %s" % (" ".join(command), error)) from error
    if done.returncode != 0:
        raise CysimError("%s: status %d: %s" % (" ".join(command), done.returncode, done.stderr.strip()))
    return done.stdout


class CysimDriver(object):
    """Reports what cysim finds. It needs no privileges."""

    def discover(self):
        return [device(d) for d in json.loads(run(["discover", "-o", "driver-objects"]))]


def device(d):
    """Make upstream's object of a device, with all below it."""
    fields = dict(d)
    fields["controlpath_id"] = driver_controlpath_id.DriverControlPathID(**d["controlpath_id"])
    fields["deployable_list"] = [deployable(p) for p in d["deployable_list"]]
    return driver_device.DriverDevice(**fields)


def deployable(p):
    fields = dict(p)
    fields["attribute_list"] = [driver_attribute.DriverAttribute(**a) for a in p["attribute_list"]]
    fields["attach_handle_list"] = [driver_attach_handle.DriverAttachHandle(**h) for h in p["attach_handle_list"]]
    return driver_deployable.DriverDeployable(**fields)


# privsep runs these as root. It accepts modules whose names begin with "cyborg".
@cyborg.privsep.sys_admin_pctxt.entrypoint
def create_mdev_privileged(pci_addr, mdev_type, ah_uuid):
    """Create a mediated device; an error fails the bind."""
    run(["mdev", "create"], pci_addr, mdev_type, ah_uuid)


@cyborg.privsep.sys_admin_pctxt.entrypoint
def remove_mdev_privileged(pci_addr, mdev_type, ah_uuid):
    """Remove a mediated device; one that is not there is no error."""
    run(["mdev", "remove"], pci_addr, mdev_type, ah_uuid)


# The agent finds them in that module when Cyborg asks for a mediated device.
gpu_utils.create_mdev_privileged = create_mdev_privileged
gpu_utils.remove_mdev_privileged = remove_mdev_privileged
