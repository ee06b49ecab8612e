"""Cyborg's API and conductor in one process, in the chroot of docs/suites/cyborg-17. Prints the URL and tokens."""

import json
import os
import socketserver
import subprocess
import sys
import wsgiref.simple_server

SERVICE = """auth_type = password
auth_url = {OS_AUTH_URL}
username = cyborg
password = {OS_PASSWORD}
user_domain_name = Default
project_name = service
project_domain_name = Default
"""
CONFIG = """[DEFAULT]
transport_url = fake://
log_file = /cyborg/cyborg.log
[database]
connection = mysql+pymysql://root@localhost/cyborg?unix_socket=/cyborg/mysql/sock
[api]
api_paste_config = /etc/cyborg/api-paste.ini
[keystone_authtoken]
www_authenticate_uri = {OS_AUTH_URL}
service_token_roles = service
""" + SERVICE + "".join(f"[{name}]\n{SERVICE}" for name in ("placement", "nova"))

open("/cyborg/cyborg.conf", "w").write(CONFIG.format(**os.environ))
sys.argv[1:], port = ["--config-file", "/cyborg/cyborg.conf"], int(sys.argv[1])
subprocess.run(["cyborg-dbsync", *sys.argv[1:], "upgrade"], check=True, stdout=sys.stderr)

import oslo_messaging  # noqa: E402
from cyborg import context, objects  # noqa: E402
from cyborg.api import wsgi_app  # noqa: E402
from keystoneauth1 import identity, session  # noqa: E402

app = wsgi_app.init_application()

from cyborg.common import constants, rpc  # noqa: E402
from cyborg.conductor import manager, rpcapi  # noqa: E402
from cyborg.objects.base import CyborgObjectSerializer  # noqa: E402


class Agent:
    """An agent as far as the conductor calls it for a vGPU. There is no card to divide."""

    def create_vgpu_mdev(self, context, pci_addr, asked_type, ah_uuid):
        pass

    remove_vgpu_mdev = create_vgpu_mdev


class Server(socketserver.ThreadingMixIn, wsgiref.simple_server.WSGIServer):
    daemon_threads = True


def mounted(environ, start_response):
    """The API below /accelerator, as a web server in front of it has it."""
    environ["SCRIPT_NAME"], environ["PATH_INFO"] = "/accelerator", environ["PATH_INFO"].removeprefix("/accelerator") or "/"
    return app(environ, start_response)


def deployable(d):
    return objects.DriverDeployable(
        name=d["name"], num_accelerators=d["num_accelerators"], driver_name=d["driver_name"],
        attribute_list=[objects.DriverAttribute(**a) for a in d["attribute_list"]],
        attach_handle_list=[
            objects.DriverAttachHandle(attach_type=a["attach_type"], attach_info=json.dumps(a["attach_info"]), in_use=False)
            for a in d["attach_handle_list"]])


def device(d):
    return objects.DriverDevice(
        vendor=d["vendor"], model=d["model"], type=d["type"], stub=False,
        std_board_info=d["std_board_info"], vendor_board_info=d.get("vendor_board_info", ""),
        controlpath_id=objects.DriverControlPathID(cpid_type="PCI", cpid_info=json.dumps(d["controlpath_id"]["cpid_info"])),
        deployable_list=[deployable(each) for each in d["deployable_list"]])


hosts = json.load(open("/cyborg/recorded-world.json"))["hosts"]
conductor = manager.ConductorManager(constants.CONDUCTOR_TOPIC, "conductor")
conductor.init_host()
for topic, name, endpoint in [(constants.CONDUCTOR_TOPIC, "conductor", conductor),
                              *((constants.AGENT_TOPIC, host["name"], Agent()) for host in hosts)]:
    rpc.get_server(oslo_messaging.Target(topic=topic, server=name), [endpoint], CyborgObjectSerializer()).start()
for host in hosts:
    rpcapi.ConductorAPI().report_data(context.get_admin_context(), host["name"], [device(d) for d in host["devices"]])

server = wsgiref.simple_server.make_server("127.0.0.1", port, mounted, Server)
print(f"CYBORG_URL=http://127.0.0.1:{port}")
for kind, user, project in ("ADMIN", "admin", "admin"), ("MEMBER", "demo", "demo"), ("SERVICE", "nova", "service"):
    auth = identity.Password(os.environ["OS_AUTH_URL"], username=user, password=os.environ["OS_PASSWORD"],
                             project_name=project, user_domain_name="Default", project_domain_name="Default")
    print(f"{kind}_TOKEN={session.Session(auth=auth).get_token()}")
print("CYBORG_READY=1", flush=True)
server.serve_forever()
