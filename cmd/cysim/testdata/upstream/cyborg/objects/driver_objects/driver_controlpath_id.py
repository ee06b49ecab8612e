from cyborg.objects import base


class DriverControlPathID(base.DriverObjectBase):
    fields = {"cpid_type": str, "cpid_info": str}
