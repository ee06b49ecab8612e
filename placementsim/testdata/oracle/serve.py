"""Serve the real Placement on a free loopback port until standard input ends.

The first argument is a directory for the configuration and the database. The
database is migrated once; a POST to /reset-for-oracle copies that state back.
With a second one, the URL of a Keystone whose administrator's password is
secret, tokens are validated there, each at every request.
"""

import io
import logging
import os
import sqlite3
import sys
import threading
from wsgiref import simple_server

CONFIG = """\
[DEFAULT]
log_options = False
[api]
auth_strategy = {strategy}
[placement_database]
connection = sqlite:///{database}
sqlite_synchronous = False
sync_on_startup = True
[oslo_policy]
policy_file = {policy}
[keystone_authtoken]
www_authenticate_uri = {keystone}
auth_url = {keystone}
auth_type = password
username = admin
password = secret
project_name = admin
user_domain_id = default
project_domain_id = default
token_cache_time = -1
service_token_roles_required = true
"""


class Handler(simple_server.WSGIRequestHandler):
    """Tells the application whether there was a Content-Type at all."""

    def get_environ(self):
        environ = super().get_environ()
        if self.headers.get('content-type') is None:
            environ.pop('CONTENT_TYPE', None)
        return environ

    def address_string(self):
        return self.client_address[0]

    def log_message(self, format, *args):
        pass


def placement_app(directory, keystone):
    database = os.path.join(directory, 'placement.sqlite')
    policy = os.path.join(directory, 'policy.yaml')
    with open(policy, 'w') as out:
        out.write('# nothing overridden\n')
    with open(os.path.join(directory, 'placement.conf'), 'w') as out:
        out.write(CONFIG.format(
            database=database, policy=policy, keystone=keystone,
            strategy='keystone' if keystone else 'noauth2'))
    os.environ['OS_PLACEMENT_CONFIG_DIR'] = directory
    sys.argv = sys.argv[:1]
    from placement import wsgi
    app = wsgi.init_application()
    logging.getLogger().setLevel(logging.ERROR)
    return app, database


def resettable(app, database):
    """The application with the route that empties it."""
    pristine = sqlite3.connect(':memory:', check_same_thread=False)
    with sqlite3.connect(database) as source:
        source.backup(pristine)

    def serve(environ, start_response):
        # A body that is left unread would reset the connection.
        length = environ.get('CONTENT_LENGTH') or '0'
        body = environ['wsgi.input'].read(int(length)) if length.isdigit() else b''
        environ['wsgi.input'] = io.BytesIO(body)
        if environ['PATH_INFO'] != '/reset-for-oracle':
            return app(environ, start_response)
        target = sqlite3.connect(database)
        pristine.backup(target)
        target.close()
        start_response('204 No Content', [])
        return []

    return serve


def end_with_input():
    sys.stdin.read()
    os._exit(0)


def main():
    # Whatever is logged belongs to standard error; only the port is for the test.
    out = os.fdopen(os.dup(1), 'w')
    os.dup2(2, 1)
    app, database = placement_app(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else '')
    server = simple_server.make_server('127.0.0.1', 0, resettable(app, database), handler_class=Handler)
    threading.Thread(target=end_with_input, daemon=True).start()
    print(server.server_port, file=out, flush=True)
    server.serve_forever()


main()
