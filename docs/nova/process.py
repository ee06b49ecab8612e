"""What one of several processes of Nova needs besides Nova.

Importing it makes transactions of SQLite lock the database from their beginning, and wait for it, as those of a database
server do. Otherwise one that reads first fails if another process has written since.
"""

import uuid

from sqlalchemy import event
from sqlalchemy.engine import Engine


@event.listens_for(Engine, "before_cursor_execute", retval=True)
def begin(conn, cursor, statement, parameters, context, executemany):
    return "BEGIN IMMEDIATE" if statement == "BEGIN" else statement, parameters


def node(host):
    """The identity of the compute node of a host."""
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, host))


def keep_identity(host):
    """Gives the compute node of a host its identity: the driver of Nova's tests makes a new one in each process."""
    try:
        from oslo_utils.fixture import uuidsentinel
    except ImportError:  # before Nova 28
        return
    setattr(uuidsentinel, "node_" + host, node(host))
