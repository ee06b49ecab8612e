from cyborg.objects import base


class DriverDeployable(base.DriverObjectBase):
    fields = {
        "name": str, "num_accelerators": int, "driver_name": str,
        "attribute_list": ["DriverAttribute"], "attach_handle_list": ["DriverAttachHandle"],
    }
