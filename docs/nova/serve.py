#!/usr/bin/python3
"""A Nova beside a simulated cloud.

nova-api, nova-conductor, nova-scheduler and a nova-compute for each host run unmodified, with the driver of Nova's
own tests and SQLite: in this process, or with --transport-url in a process each beside nova-api's. The cloud is that
of the environment (OS_AUTH_URL and so on), which are those of the cloud sim-svc. Neutron is the one stub.

The Nova has the flavors of the cloud's model (CYSIM_URL), and the cloud an image "disk" for its servers.

A line "ready" on standard output says that servers can be created. Lines on standard input are commands:
"stop HOST" ends the nova-compute of a host, without notice where it has a process, and "start HOST" starts it. Each is
answered by a line "done". The end of standard input ends Nova.
"""

import eventlet

eventlet.monkey_patch()

import argparse  # noqa: E402
import contextlib  # noqa: E402
import ctypes  # noqa: E402
import glob  # noqa: E402
import json  # noqa: E402
import os  # noqa: E402
import re  # noqa: E402
import signal  # noqa: E402
import sqlite3  # noqa: E402
import subprocess  # noqa: E402
import sys  # noqa: E402
import urllib.request  # noqa: E402
import uuid  # noqa: E402

import eventlet.wsgi  # noqa: E402
from eventlet.green import select  # noqa: E402

CONFIG = """
[DEFAULT]
transport_url = {transport}
state_path = {dir}
log_file = {dir}/nova.log
debug = {debug}
my_ip = 127.0.0.1
compute_driver = {driver}
vif_plugging_is_fatal = false
vif_plugging_timeout = 0
reimage_timeout_per_gb = 1
[api]
auth_strategy = keystone
[api_database]
connection = sqlite:///{dir}/api.db?timeout=60
[database]
connection = sqlite:///{dir}/cell1.db?timeout=60
[oslo_concurrency]
lock_path = {dir}/locks
[oslo_messaging_notifications]
driver = noop
[wsgi]
api_paste_config = {dir}/api-paste.ini
[cache]
enabled = false
[compute]
resource_provider_association_refresh = 0
[libvirt]
virt_type = qemu
[conductor]
workers = 1
[scheduler]
workers = 1
discover_hosts_in_cells_interval = -1
[key_manager]
backend = nova.keymgr.conf_key_mgr.ConfKeyManager
fixed_key = 0000000000000000000000000000000000000000000000000000000000000000
[service_user]
send_service_user_token = true
{service}
[keystone_authtoken]
www_authenticate_uri = {auth_url}
service_token_roles = service
service_token_roles_required = true
{service}
[placement]
{service}
[cyborg]
{service}
[glance]
{service}
[neutron]
{service}
[cinder]
{service}
"""

# The user nova of the simulated cloud, whose password is that of all its users.
SERVICE = """auth_type = password
auth_url = {auth_url}
username = nova
password = {password}
user_domain_name = Default
project_name = service
project_domain_name = Default
region_name = {region}
valid_interfaces = internal
"""

PASTE = """
[pipeline:main]
pipeline = sizelimit authtoken keystonecontext api
[filter:sizelimit]
paste.filter_factory = oslo_middleware:RequestBodySizeLimiter.factory
[filter:authtoken]
paste.filter_factory = keystonemiddleware.auth_token:filter_factory
[filter:keystonecontext]
paste.filter_factory = nova.api.auth:NovaKeystoneContext.factory
[app:api]
paste.app_factory = nova.api.openstack.compute:APIRouterV21.factory
[composite:osapi_compute]
use = call:nova.api.openstack.urlmap:urlmap_factory
/: versions
/v2.1: main
[app:versions]
paste.app_factory = nova.api.openstack.compute.versions:Versions.factory
"""


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dir", required=True, help="for databases, configuration and nova.log; it must exist")
    parser.add_argument("--port", type=int, default=8774, help="of nova-api")
    parser.add_argument("--neutron-port", type=int, default=9696, help="of the stub for Neutron")
    parser.add_argument("--hosts", default="cn0,cn1", help="with a nova-compute each")
    parser.add_argument("--transport-url", default="fake://", help="of a RabbitMQ: a process for each service")
    parser.add_argument("--debug", action="store_true")
    return parser.parse_args()


def configure(args):
    """Writes the configuration; returns its path."""
    env = os.environ
    service = SERVICE.format(
        auth_url=env["OS_AUTH_URL"], password=env["OS_PASSWORD"], region=env.get("OS_REGION_NAME", "RegionOne"))
    path = os.path.join(args.dir, "nova.conf")
    with open(path, "w") as file:
        file.write(CONFIG.format(
            dir=args.dir, transport=args.transport_url, debug=args.debug, driver="fake.FakeDriver", service=service, auth_url=env["OS_AUTH_URL"]))
    with open(os.path.join(args.dir, "api-paste.ini"), "w") as file:
        file.write(PASTE)
    if args.transport_url == "fake://":
        write_identity(args.dir, str(uuid.uuid4()))
    return path


def write_identity(state_path, identity):
    """A nova-compute of later releases does not start again without its identity, which this driver does not keep."""
    with open(os.path.join(state_path, "compute_id"), "w") as file:
        file.write(identity)


class Neutron:
    """One network with one subnet, and the ports of servers on it."""

    NETWORK = "a5c4a1f7-5b0b-4f45-9d3a-0c1d2e3f4a5b"
    SUBNET = "b6d5b2e8-6c1c-4056-8e4b-1d2e3f4a5b6c"

    def __init__(self):
        self.ports = {}
        self.last = 9

    def __call__(self, environ, start_response):
        status, body = self.serve(environ)
        data = json.dumps(body).encode() if body is not None else b""
        start_response(status, [("Content-Type", "application/json"), ("Content-Length", str(len(data)))])
        return [data]

    def serve(self, environ):
        method = environ["REQUEST_METHOD"]
        parts = environ["PATH_INFO"].strip("/").removesuffix(".json").split("/")[1:]
        query = [pair.split("=", 1) for pair in environ.get("QUERY_STRING", "").split("&") if "=" in pair]
        length = int(environ.get("CONTENT_LENGTH") or 0)
        sent = json.loads(environ["wsgi.input"].read(length)) if length else {}
        if parts[:1] == ["ports"]:
            return self.serve_ports(method, parts[1:], query, sent)
        if parts[:1] == ["networks"]:
            return self.read("network", parts[1:], self.network(), query)
        if parts[:1] == ["subnets"]:
            return self.read("subnet", parts[1:], self.subnet(), query)
        if parts[:1] == ["quotas"]:
            return "200 OK", {"quota": {"port": -1}}
        if method == "GET" and len(parts) == 1:
            return "200 OK", {parts[0].replace("-", "_"): []}
        print("the stub for Neutron does not know", method, environ["PATH_INFO"], file=sys.stderr)
        return self.missing()

    @staticmethod
    def missing():
        return "404 Not Found", {"NeutronError": {"type": "NotFound", "message": "no such thing", "detail": ""}}

    @staticmethod
    def matches(item, query):
        asked = {}
        for key, value in query:
            asked.setdefault(key, []).append(value.replace("%3A", ":"))
        return all(str(item[key]) in values for key, values in asked.items() if key in item)

    def read(self, kind, path, item, query):
        if not path:
            return "200 OK", {kind + "s": [item] if self.matches(item, query) else []}
        if path[0] == item["id"]:
            return "200 OK", {kind: item}
        return self.missing()

    def network(self):
        return {"id": self.NETWORK, "name": "net", "status": "ACTIVE", "admin_state_up": True, "shared": True, "tenant_id": "", "project_id": "",
                "mtu": 1500, "subnets": [self.SUBNET], "router:external": False, "port_security_enabled": False,
                "provider:network_type": "flat", "provider:physical_network": "public"}

    def subnet(self):
        return {"id": self.SUBNET, "name": "subnet", "network_id": self.NETWORK, "cidr": "192.0.2.0/24", "ip_version": 4, "gateway_ip": "192.0.2.1",
                "enable_dhcp": False, "dns_nameservers": [], "host_routes": [], "allocation_pools": [], "tenant_id": "", "project_id": ""}

    def serve_ports(self, method, path, query, sent):
        if method == "POST":
            self.last += 1
            port = {"id": str(uuid.uuid4()), "network_id": self.NETWORK, "name": "", "status": "DOWN", "admin_state_up": True, "device_id": "",
                    "device_owner": "", "mac_address": "fa:16:3e:00:00:%02x" % (self.last % 256), "security_groups": [], "tenant_id": "",
                    "fixed_ips": [{"subnet_id": self.SUBNET, "ip_address": "192.0.2.%d" % self.last}], "port_security_enabled": False,
                    "binding:vnic_type": "normal", "binding:vif_type": "unbound", "binding:vif_details": {}, "binding:profile": {},
                    "resource_request": None}
            self.ports[port["id"]] = port
            self.change(port, sent["port"])
            return "201 Created", {"port": port}
        if not path:
            return "200 OK", {"ports": [p for p in self.ports.values() if self.matches(p, query)]}
        port = self.ports.get(path[0])
        if port is None:
            return self.missing()
        if method == "PUT":
            self.change(port, sent["port"])
        if method == "DELETE":
            del self.ports[port["id"]]
            return "204 No Content", None
        return "200 OK", {"port": port}

    @staticmethod
    def change(port, fields):
        port.update(fields)
        bound = bool(port.get("binding:host_id"))
        port["binding:vif_type"] = "ovs" if bound else "unbound"
        port["status"] = "ACTIVE" if bound else "DOWN"


def listen(port, app, log):
    socket = eventlet.listen(("127.0.0.1", port))
    eventlet.spawn(eventlet.wsgi.server, socket, app, log=log, log_output=False)


class Nova:
    """The services of one Nova."""

    def __init__(self, config):
        from nova import config as nova_config
        from nova import objects
        from nova import rpc
        import nova.conf

        self.conf = nova.conf.CONF
        nova_config.parse_args(["nova", "--config-file", config])
        from oslo_log import log as logging
        logging.setup(self.conf, "nova")
        objects.register_all()
        rpc.init(self.conf)
        self.computes = {}

    def create_databases(self):
        """As nova-manage api_db sync, cell_v2 map_cell0, db sync and cell_v2 create_cell."""
        from nova.cmd import manage

        for step in (
            manage.ApiDbCommands().sync,
            manage.CellV2Commands().map_cell0,
            manage.DbCommands().sync,
            lambda: manage.CellV2Commands().create_cell(name="cell1"),
        ):
            if step() not in (None, 0):
                raise SystemExit("the databases could not be created")
        # Readers and writers of several processes do not lock each other out then.
        for file in glob.glob(os.path.join(self.conf.state_path, "*.db*")):
            with contextlib.closing(sqlite3.connect(file)) as database:
                database.execute("PRAGMA journal_mode = WAL")

    def create_flavors(self, model):
        """The flavors of the cloud's model."""
        from nova.compute import flavors

        for number, given in enumerate(model["flavors"], 1):
            flavor = flavors.create(
                given["name"], given["ram"], given["vcpus"], given["disk"], given.get("ephemeral", 0), str(number), given.get("swap", 0))
            flavor.extra_specs = given.get("extra_specs", {})
            flavor.save()

    def start_api(self, port, log):
        from paste import deploy

        app = deploy.loadapp("config:" + self.conf.wsgi.api_paste_config, name="osapi_compute")
        listen(port, app, log)

    def run(self, name, host):
        """Starts a service in this process."""
        from nova import service

        self.conf.set_override("host", host)
        started = service.Service.create(binary="nova-" + name, host=host, topic=name)
        started.start()
        return started

    def start(self, host):
        self.computes[host] = self.run("compute", host)
        self.discover()

    def stop(self, host):
        self.computes.pop(host).stop()

    def discover(self):
        from nova import context
        from nova.objects import host_mapping

        # by service, as a host that was deleted and came back keeps its old, mapped record
        host_mapping.discover_hosts(context.get_admin_context(), by_service=True)


LAUNCH = "import sys; sys.path.insert(0, %r); from nova.cmd.%s import main; import process; process.keep_identity(%r); main()"


class Processes(Nova):
    """The services of one Nova, in a process each."""

    def __init__(self, config):
        super().__init__(config)
        sys.dont_write_bytecode = True  # beside this file
        import process
        self.config, self.process = config, process

    def run(self, name, host):
        state = os.path.join(self.conf.state_path, host)
        if not os.path.isdir(state):
            os.mkdir(state)
            write_identity(state, self.process.node(host))
        own = os.path.join(state, name + ".conf")
        with open(own, "w") as file:
            file.write("[DEFAULT]\nhost = %s\nstate_path = %s\nlog_file = %s/%s.log\n" % (host, state, state, name))
        child = subprocess.Popen(
            [sys.executable, "-B", "-W", "ignore", "-c", LAUNCH % (os.path.dirname(__file__), name, host), "--config-file", self.config, "--config-file", own],
            stdin=subprocess.DEVNULL, stdout=sys.stderr, preexec_fn=end_with_parent)
        self.await_service(name, host, child)
        return child

    def await_service(self, name, host, child):
        """Waits until a service answers."""
        import oslo_messaging as messaging
        from nova import context
        from nova import rpc

        target = messaging.Target(topic=name, server=host, namespace="baseapi", version="1.0")
        while child.poll() is None:
            try:
                rpc.get_client(target).prepare(timeout=1).call(context.get_admin_context(), "ping", arg="")
                return
            except messaging.MessagingTimeout:
                pass
        raise SystemExit("nova-%s of %s ended with %d" % (name, host, child.returncode))

    def stop(self, host):
        child = self.computes.pop(host)
        child.kill()
        child.wait()


def read_model():
    """The model of the cloud."""
    with urllib.request.urlopen(os.environ["CYSIM_URL"] + "/_sim/model") as answer:
        return json.load(answer)["model"]


def create_image():
    """An image for servers; the driver of Nova's tests does not read its data."""
    from keystoneauth1 import adapter
    from keystoneauth1 import session
    from keystoneauth1.identity import v3

    login = v3.Password(
        auth_url=os.environ["OS_AUTH_URL"], username="admin", password=os.environ["OS_PASSWORD"], project_name="admin",
        user_domain_id="default", project_domain_id="default")
    glance = adapter.Adapter(session.Session(login), service_type="image", region_name=os.environ.get("OS_REGION_NAME"))
    if glance.get("/v2/images?name=disk").json()["images"]:  # of an earlier run with --state
        return
    made = glance.post("/v2/images", json={"name": "disk", "visibility": "public", "disk_format": "raw", "container_format": "bare"}).json()
    glance.put("/v2/images/%s/file" % made["id"], data=b"disk", headers={"Content-Type": "application/octet-stream"})


def end_with_parent():
    """Has the kernel kill a process when that which started it ends, however it does."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def main():
    args = parse_args()
    args.dir = os.path.abspath(args.dir)
    log = open(os.path.join(args.dir, "requests.log"), "a")
    listen(args.neutron_port, Neutron(), log)
    nova = (Nova if args.transport_url == "fake://" else Processes)(configure(args))
    nova.create_databases()
    nova.create_flavors(read_model())
    create_image()
    for name in ("conductor", "scheduler"):
        nova.run(name, "controller")
    nova.start_api(args.port, log)
    for host in args.hosts.split(","):
        nova.start(host)
    print("ready", flush=True)
    while True:
        select.select([sys.stdin], [], [])
        line = sys.stdin.readline()
        if not line:
            return
        command = re.fullmatch(r"(start|stop) (\S+)", line.strip())
        if not command:
            raise SystemExit("unknown command: " + line)
        getattr(nova, command[1])(command[2])
        print("done", flush=True)


if __name__ == "__main__":
    main()
