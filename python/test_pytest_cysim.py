"""Tests of the plugin: suites that use it, in processes of their own, as pytest runs them."""

import os
import subprocess

import pytest

pytest_plugins = ["pytester"]

LEAK = """
import openstack
import pytest

INSTANCE = "bbbbbbbb-0000-4000-8000-000000000001"


def leak(cysim):
    # An allocation of an accelerator that no instance has.
    cloud = openstack.connect(cloud="sim")
    gpu = next(p for p in cloud.placement.resource_providers() if p.name == "cn0_0000:3b:00.0")
    body = {"allocations": {gpu.id: {"resources": {"PGPU": 1}}}, "project_id": "p", "user_id": "u", "consumer_generation": None}
    cloud.placement.put(f"/allocations/{INSTANCE}", json=body, microversion="1.28").raise_for_status()
    assert cysim.leaks()
"""


@pytest.fixture
def suite(pytester, monkeypatch):
    """Runs a suite with the plugin, and returns its result. The test fails if its cloud goes on."""
    # OS_CLOUD would direct clients to another cloud.
    monkeypatch.setenv("OS_CLOUD", "elsewhere")

    def run(source, *args):
        pytester.makepyfile(source)
        result = pytester.runpytest_subprocess(*args)
        for log in pytester.path.glob("**/cysim*/log"):
            assert "listens on" in log.read_text()
        return result

    return run


def test_a_cloud_for_openstacksdk(suite):
    result = suite(
        """
import openstack


def test_profiles(cysim):
    assert "gpu" in [p.name for p in openstack.connect(cloud="sim").accelerator.device_profiles()]


def test_member(cysim):
    assert cysim.clouds_yaml and cysim.url.startswith("http://127.0.0.1:")
    assert openstack.connect(cloud="sim-demo").accelerator.get("/device_profiles").status_code == 200
"""
    )
    result.assert_outcomes(passed=2)


def test_faults_end_with_their_test(suite):
    result = suite(
        """
import openstack
import pytest


def profiles():
    return list(openstack.connect(cloud="sim").accelerator.device_profiles())


def test_fault(cysim):
    cysim.fault("accelerator.device_profile.list", "status", status=500, times=-1)
    with pytest.raises(openstack.exceptions.HttpException):
        profiles()
    cysim.clear_faults()
    profiles()
    cysim.fault("accelerator.device_profile.list", "status", status=500, times=-1)


def test_next(cysim):
    profiles()


def test_wrong_rule(cysim):
    with pytest.raises(ValueError, match="paint"):
        cysim.fault("accelerator.arq.paint", "status")
"""
    )
    result.assert_outcomes(passed=3)


def test_a_leak_fails_its_test_only(suite):
    result = suite(
        LEAK
        + """
def test_leak(cysim):
    leak(cysim)


def test_next(cysim):
    assert not cysim.leaks()


@pytest.mark.cysim_leaks
def test_leak_on_purpose(cysim):
    leak(cysim)
"""
    )
    result.assert_outcomes(passed=3, errors=1)
    result.stdout.fnmatch_lines(["*ERROR at teardown of test_leak*", "leaked: *bbbbbbbb-0000-4000-8000-000000000001*"])


def test_the_cloud_ends_with_the_session(suite):
    result = suite(
        """
def test_pid(cysim):
    print("PID", cysim.environ["CYSIM_PID"])
""",
        "-s",
    )
    pid = int(next(line for line in result.outlines if "PID" in line).split()[-1].rstrip("."))
    ended = subprocess.run(["sh", "-c", f"for i in $(seq 100); do kill -0 {pid} 2>/dev/null || exit 0; sleep 0.1; done; exit 1"])
    assert ended.returncode == 0


def test_flags(suite, pytester):
    pytester.makeini("[pytest]\ncysim = cysim serve --cyborg-release zed --region Here\n")
    suite("def test_model(cysim):\n    assert b'Here' in cysim.request('GET', '/_sim/model')\n").assert_outcomes(passed=1)


def test_a_server_that_does_not_start(suite, pytester):
    pytester.makeini("[pytest]\ncysim = cysim serve --paint\n")
    result = suite("def test_model(cysim):\n    pass\n")
    assert result.ret == 2 and "unknown flag --paint" in "\n".join(result.outlines + result.errlines)


def test_without_the_fixture_no_cloud_is_started(suite, pytester):
    pytester.makeini("[pytest]\ncysim = false\n")
    suite("import os\n\n\ndef test_environment():\n    assert os.environ['OS_CLOUD'] == 'elsewhere'\n").assert_outcomes(passed=1)
