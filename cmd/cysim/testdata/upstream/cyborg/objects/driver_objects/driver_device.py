from cyborg.objects import base


class DriverDevice(base.DriverObjectBase):
    fields = {
        "vendor": str, "model": str, "type": str, "std_board_info": str, "vendor_board_info": str,
        "controlpath_id": "DriverControlPathID", "deployable_list": ["DriverDeployable"], "stub": bool,
    }
