from cyborg.objects import base


class DriverAttribute(base.DriverObjectBase):
    fields = {"key": str, "value": str}
