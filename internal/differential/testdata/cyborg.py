"""Serve the real Cyborg, API and conductor in one process, on a free loopback port until standard input ends.

The arguments are a directory and the URL of a Keystone, whose catalog names Placement and Nova. The directory has
hosts.json: what the agents report, a list of devices for each host. MariaDB runs below the directory, too. A POST to
/reset-for-differential restores the state after the first reports.
"""

import ctypes
import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
from wsgiref import simple_server

LOGIN = """\
auth_type = password
auth_url = {keystone}
username = cyborg
password = secret
user_domain_id = default
project_name = service
project_domain_id = default
"""

CONFIG = """\
[DEFAULT]
transport_url = fake://
rpc_response_timeout = 20
log_file = {directory}/cyborg.log
[api]
api_paste_config = /etc/cyborg/api-paste.ini
[database]
connection = mysql+pymysql://root@localhost/cyborg?unix_socket={socket}
[keystone_authtoken]
www_authenticate_uri = {public}
service_token_roles = service
{login}
[placement]
{login}
[nova]
{login}
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


class Database:
    """MariaDB below a directory, which ends with this process."""

    def __init__(self, directory):
        self.socket = os.path.join(directory, 'mariadb.sock')
        data = os.path.join(directory, 'mariadb')
        log = open(os.path.join(directory, 'mariadb.log'), 'w')
        os.mkdir(data)
        subprocess.run(['mariadb-install-db', '--no-defaults', '--user=root', '--datadir=' + data,
                        '--auth-root-authentication-method=normal', '--skip-test-db'], check=True, stdout=log, stderr=log)
        libc = ctypes.CDLL(None)
        self.process = subprocess.Popen(
            ['mariadbd', '--no-defaults', '--user=root', '--datadir=' + data, '--socket=' + self.socket,
             '--skip-networking', '--tmpdir=' + directory, '--innodb-flush-log-at-trx-commit=0', '--skip-log-bin', '--innodb-doublewrite=0'],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            preexec_fn=lambda: libc.prctl(1, signal.SIGKILL))  # PR_SET_PDEATHSIG
        self.tables = {}
        deadline = time.monotonic() + 120
        while True:
            try:
                self.connect().cursor().execute('CREATE DATABASE cyborg')
                return
            except Exception:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def connect(self, **options):
        import pymysql
        return pymysql.connect(unix_socket=self.socket, user='root', autocommit=True, **options)

    def remember(self):
        with self.connect(database='cyborg') as connection, connection.cursor() as cursor:
            cursor.execute('SHOW TABLES')
            for (table,) in cursor.fetchall():
                if table != 'alembic_version':
                    cursor.execute('SELECT * FROM ' + table)
                    self.tables[table] = cursor.fetchall()

    def restore(self):
        with self.connect(database='cyborg') as connection, connection.cursor() as cursor:
            cursor.execute('SET FOREIGN_KEY_CHECKS=0')
            for table, rows in self.tables.items():
                cursor.execute('DELETE FROM ' + table)
                if rows:
                    places = ', '.join(['%s'] * len(rows[0]))
                    cursor.executemany('INSERT INTO %s VALUES (%s)' % (table, places), rows)


class Agent:
    """What an agent does for the conductor: create and remove mediated devices."""

    def create_vgpu_mdev(self, context, pci_addr, asked_type, ah_uuid):
        pass

    def remove_vgpu_mdev(self, context, pci_addr, asked_type, ah_uuid):
        pass


def report(hosts):
    """Start conductor and agents, and report the devices of each host."""
    import oslo_messaging
    from cyborg import context, objects
    from cyborg.common import constants, rpc
    from cyborg.conductor import manager, rpcapi
    from cyborg.objects.base import CyborgObjectSerializer

    def deployable(values):
        return objects.DriverDeployable(
            name=values['name'], num_accelerators=values['num_accelerators'], driver_name=values['driver_name'],
            attribute_list=[objects.DriverAttribute(key=a['key'], value=a['value']) for a in values['attribute_list']],
            attach_handle_list=[
                objects.DriverAttachHandle(attach_type=handle['attach_type'], in_use=False,
                                           attach_info=json.dumps(handle['attach_info']))
                for handle in values['attach_handle_list']])

    def device(values):
        path = values['controlpath_id']
        return objects.DriverDevice(
            vendor=values['vendor'], model=values['model'], type=values['type'], stub=False,
            std_board_info=values.get('std_board_info', ''), vendor_board_info=values.get('vendor_board_info', ''),
            controlpath_id=objects.DriverControlPathID(cpid_type=path['cpid_type'], cpid_info=json.dumps(path['cpid_info'])),
            deployable_list=[deployable(d) for d in values['deployable_list']])

    conductor = manager.ConductorManager(constants.CONDUCTOR_TOPIC, 'conductor')
    conductor.init_host()
    endpoints = [(constants.CONDUCTOR_TOPIC, 'conductor', conductor)]
    endpoints += [(constants.AGENT_TOPIC, host, Agent()) for host in hosts]
    for topic, server, endpoint in endpoints:
        rpc.get_server(oslo_messaging.Target(topic=topic, server=server), [endpoint], CyborgObjectSerializer()).start()
    for host, devices in hosts.items():
        rpcapi.ConductorAPI().report_data(context.get_admin_context(), host, [device(d) for d in devices])


def served(app, database):
    """The application below /accelerator, and the route that resets it."""
    def serve(environ, start_response):
        # An unread body would reset the connection.
        length = environ.get('CONTENT_LENGTH') or '0'
        body = environ['wsgi.input'].read(int(length)) if length.isdigit() else b''
        environ['wsgi.input'] = io.BytesIO(body)
        path = environ['PATH_INFO']
        if path == '/reset-for-differential':
            database.restore()
            start_response('204 No Content', [])
            return []
        environ['SCRIPT_NAME'] = '/accelerator'
        environ['PATH_INFO'] = path.removeprefix('/accelerator') or '/'
        return app(environ, start_response)
    return serve


def end_with_input(database):
    sys.stdin.read()
    database.process.kill()
    database.process.wait()
    os._exit(0)


def main():
    # Whatever is logged belongs to standard error; only the port is for the test.
    out = os.fdopen(os.dup(1), 'w')
    os.dup2(2, 1)
    directory, keystone = sys.argv[1:3]
    database = Database(directory)
    threading.Thread(target=end_with_input, args=[database], daemon=True).start()
    config = os.path.join(directory, 'cyborg.conf')
    with open(config, 'w') as file:
        file.write(CONFIG.format(directory=directory, socket=database.socket, keystone=keystone, public=keystone.removesuffix('/v3'),
                                 login=LOGIN.format(keystone=keystone)))
    sys.argv[1:] = ['--config-file', config]
    subprocess.run(['cyborg-dbsync', '--config-file', config, 'upgrade'], check=True, stdout=sys.stderr)
    from cyborg.api import wsgi_app
    app = wsgi_app.init_application()
    with open(os.path.join(directory, 'hosts.json')) as file:
        report(json.load(file))
    database.remember()
    server = simple_server.make_server('127.0.0.1', 0, served(app, database), handler_class=Handler)
    print(server.server_port, file=out, flush=True)
    server.serve_forever()


main()
