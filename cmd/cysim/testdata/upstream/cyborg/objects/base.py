class DriverObjectBase(object):
    """An object with the fields of its class alone."""

    fields = {}

    def __init__(self, **values):
        for name, value in values.items():
            setattr(self, name, value)
        for name in self.fields:
            getattr(self, name)  # upstream fails later, when the conductor reads it

    def __setattr__(self, name, value):
        if name not in self.fields:
            raise AttributeError("%s has no field %s" % (type(self).__name__, name))
        wanted = self.fields[name]
        if isinstance(wanted, list):
            if not isinstance(value, list) or not all(type(v).__name__ == wanted[0] for v in value):
                raise ValueError("%s is no list of %s" % (name, wanted[0]))
        elif isinstance(wanted, str):
            if type(value).__name__ != wanted:
                raise ValueError("%s is no %s" % (name, wanted))
        elif type(value) is not wanted:
            raise ValueError("%s is %r, no %s" % (name, value, wanted.__name__))
        super().__setattr__(name, value)
