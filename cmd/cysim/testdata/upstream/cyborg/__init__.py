"""What cyborg_cysim uses of OpenStack Cyborg, for a machine without it.

Classes, fields and their types are those of cyborg/objects/driver_objects; a
field that upstream does not have, or of another type, is refused.
"""
