"""Serve the real Keystone on a free loopback port until standard input ends.

The one argument is a directory for the configuration, the keys and the
database. The password of the user admin of the project admin is secret.
"""

import base64
import logging
import os
import sqlite3
import subprocess
import sys
import threading
from wsgiref import simple_server

CONFIG = """\
[DEFAULT]
log_options = False
[database]
connection = sqlite:///{directory}/keystone.sqlite
sqlite_synchronous = False
[fernet_tokens]
key_repository = {directory}/fernet
[fernet_receipts]
key_repository = {directory}/fernet
[credential]
key_repository = {directory}/credential
[identity]
password_hash_rounds = 4
[oslo_policy]
policy_file = {directory}/policy.yaml
"""


class Handler(simple_server.WSGIRequestHandler):
    def address_string(self):
        return self.client_address[0]

    def log_message(self, format, *args):
        pass


def configure(directory):
    config = os.path.join(directory, 'keystone.conf')
    with open(config, 'w') as out:
        out.write(CONFIG.format(directory=directory))
    with open(os.path.join(directory, 'policy.yaml'), 'w') as out:
        out.write('# nothing overridden\n')
    for name in 'fernet', 'credential':
        os.mkdir(os.path.join(directory, name), 0o700)
        for number in '0', '1':
            with open(os.path.join(directory, name, number), 'wb') as out:
                out.write(base64.urlsafe_b64encode(os.urandom(32)))
    return config


def manage(config, *args):
    subprocess.run(['keystone-manage', '--config-file', config, *args],
                   check=True, stdout=sys.stderr)


def end_with_input():
    sys.stdin.read()
    os._exit(0)


def main():
    # Whatever is logged belongs to standard error; only the port is for the test.
    out = os.fdopen(os.dup(1), 'w')
    os.dup2(2, 1)
    directory = sys.argv[1]
    sys.argv = sys.argv[:1]
    threading.Thread(target=end_with_input, daemon=True).start()
    server = simple_server.make_server('127.0.0.1', 0, None, handler_class=Handler)
    url = 'http://127.0.0.1:%d/v3' % server.server_port
    config = configure(directory)
    manage(config, 'db_sync')
    # Keystone writes while another of its sessions still reads.
    database = sqlite3.connect(os.path.join(directory, 'keystone.sqlite'))
    database.execute('PRAGMA journal_mode=WAL')
    database.close()
    manage(config, 'bootstrap', '--bootstrap-password', 'secret', '--bootstrap-region-id', 'RegionOne',
           '--bootstrap-public-url', url, '--bootstrap-internal-url', url, '--bootstrap-admin-url', url)
    os.environ['OS_KEYSTONE_CONFIG_FILES'] = config
    os.environ['OS_KEYSTONE_CONFIG_DIR'] = directory
    from keystone.server.wsgi import initialize_public_application
    server.set_app(initialize_public_application())
    logging.getLogger('keystone').setLevel(logging.CRITICAL)  # it logs each refusal with a traceback
    print(server.server_port, file=out, flush=True)
    server.serve_forever()


main()
