"""A pytest plugin: tests of OpenStack clients get a simulated cloud with accelerators, and fail if they leak any."""

import json
import os
import shlex
import signal
import subprocess
import urllib.error
import urllib.request

import pytest


def pytest_addoption(parser):
    parser.addini("cysim", "command that serves the cloud, with its flags", type="args", default=["cysim", "serve"])


def pytest_configure(config):
    config.addinivalue_line("markers", "cysim_leaks: the test may leak resources of the cloud")


class Cysim:
    """A cloud of cysim serve. clouds.yaml is at the path clouds_yaml; environ has the variables for clients, None for those to unset."""

    def __init__(self, environ):
        self.environ = environ
        self.url = environ["CYSIM_URL"]
        self.clouds_yaml = environ["OS_CLIENT_CONFIG_FILE"]
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def request(self, method, path, body=None):
        """Sends a request to the control API, such as GET /_sim/requests, and returns the answer as bytes."""
        headers = {"X-Control-Token": os.environ.get("CYSIM_CONTROL_TOKEN", "")}
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        try:
            return self._opener.open(urllib.request.Request(self.url + path, data, headers, method=method)).read()
        except urllib.error.HTTPError as refused:
            raise ValueError(f"{method} {path}: {refused.read().decode().strip()}") from None

    def fault(self, operation, action, **fields):
        """Adds a fault rule: fault("accelerator.arq.bind", "status", status=503). The test ends with all rules removed."""
        self.request("POST", "/_sim/faults", [{"operation": operation, "action": action, **fields}])

    def clear_faults(self):
        """Removes all fault rules."""
        self.request("DELETE", "/_sim/faults")

    def leaks(self):
        """Returns the leaked resources, one sentence for each."""
        return [leak["text"] for leak in json.loads(self.request("GET", "/_sim/leaks"))["leaks"]]


@pytest.fixture(scope="session")
def cysim_session(pytestconfig, tmp_path_factory):
    """The cloud of all tests of a process; most tests use the fixture cysim."""
    directory = tmp_path_factory.mktemp("cysim")
    command = [*pytestconfig.getini("cysim"), "--daemon", "--clouds-yaml", str(directory / "clouds.yaml"), "--log", str(directory / "log")]
    started = subprocess.run(command, text=True, capture_output=True)
    if started.returncode:
        pytest.exit(f"{shlex.join(command)}: {started.stderr.strip()}", returncode=started.returncode)
    environ = {}
    for words in map(shlex.split, started.stdout.splitlines()):
        if words[0] == "export":
            environ.update([words[1].split("=", 1)])
        elif "&&" in words:  # command -v unset >/dev/null && unset NAME...
            environ.update(dict.fromkeys(words[words.index("unset", 3) + 1 :]))
    yield Cysim(environ)
    os.kill(int(environ["CYSIM_PID"]), signal.SIGTERM)


@pytest.fixture
def cysim(cysim_session, monkeypatch, request):
    """A cloud as it was at the start, which clients find in the environment. The test fails if it leaks resources."""
    for name, value in cysim_session.environ.items():
        monkeypatch.delenv(name, raising=False) if value is None else monkeypatch.setenv(name, value)
    before = cysim_session.request("GET", "/_sim/state")
    yield cysim_session
    leaks = cysim_session.leaks()
    cysim_session.request("PUT", "/_sim/state", before)
    if leaks and not request.node.get_closest_marker("cysim_leaks"):
        pytest.fail("leaked: " + "\n".join(leaks), pytrace=False)
