from cyborg.objects import base


class DriverAttachHandle(base.DriverObjectBase):
    fields = {"attach_type": str, "attach_info": str, "in_use": bool}
