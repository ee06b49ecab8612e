#!/usr/bin/env python3
"""A driver in Python: slices of an invented card, which are mediated devices.

It answers in the form of upstream's driver objects and keeps its slices in a file, where a real
driver would ask the hardware. Status 3 says that it could not look.
"""
import json
import os
import sys

STATE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "acme.json")
CARD = {"domain": "0000", "bus": "3b", "device": "00", "function": "0"}
SLICES = 4


def slices():
    try:
        with open(STATE) as f:
            return json.load(f)
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as err:
        print(err, file=sys.stderr)
        sys.exit(3)


def store(made):
    with open(STATE, "w") as f:
        json.dump(made, f)


def discover(asked):
    handles = [
        {"attach_type": "MDEV", "attach_info": json.dumps(dict(CARD, asked_type="acme-slice", vgpu_mark="acme-slice_%d" % i))}
        for i in range(SLICES)
    ]
    print(json.dumps([{
        "vendor": "1d55", "model": "Acme NPU", "type": "AICHIP",
        "controlpath_id": {"cpid_type": "PCI", "cpid_info": json.dumps(CARD)},
        "deployable_list": [{
            "name": asked["host"] + "_0000:3b:00.0", "num_accelerators": SLICES, "driver_name": "acme",
            "attribute_list": [{"key": "rc", "value": "CUSTOM_NPU_SLICE"}, {"key": "trait0", "value": "CUSTOM_ACME_NPU_SLICE"}],
            "attach_handle_list": handles,
        }],
    }]))


def create_mdev(asked):
    made = slices()
    if asked["uuid"] not in made:
        if len(made) == SLICES:
            sys.exit("no free slice")
        store(made + [asked["uuid"]])


def remove_mdev(asked):
    store([uuid for uuid in slices() if uuid != asked["uuid"]])


verbs = {"discover": discover, "create_mdev": create_mdev, "remove_mdev": remove_mdev}
if sys.argv[1] not in verbs:
    sys.exit("%s is not supported" % sys.argv[1])
verbs[sys.argv[1]](json.load(sys.stdin))
