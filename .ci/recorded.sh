#!/usr/bin/env bash
# Plays the scenario that was recorded from the real Cyborg against cysim and
# compares status and keys, step by step:
#
#   recorded.sh CYSIM RECORDINGS OUT
#
# The world is the one of the recordings, with the defects of the real service.
# Fails when fewer steps agree than the committed floor of a release, which only
# ever rises. A release that was not recorded has to answer each step as one of
# the two that were, or as .ci/recorded-between says. A run of 2026.2 without the defects has to differ in exactly the
# steps that docs/dev/cyborg-api.md lists.
set -euo pipefail
cysim=$1 recordings=$2 out=$3
here=$(dirname "${BASH_SOURCE[0]}")

# start MODEL FLAG... starts the simulator and reads where it is.
start() {
  : >"$out/recorded.env" # not that of the simulator before
  "$cysim" serve --model "$@" >"$out/recorded.env" 2>"$out/recorded-serve.log" &
  server=$!
  for _ in $(seq 100); do
    grep -q CYSIM_PID "$out/recorded.env" && break
    kill -0 "$server" || { cat "$out/recorded-serve.log"; exit 1; }
    sleep 0.1
  done
  # shellcheck disable=SC1091
  . "$out/recorded.env"
}

server=
trap 'kill "$server" 2>/dev/null || true' EXIT

# token USER PROJECT prints a token.
token() {
  python3 - "$OS_AUTH_URL" "$1" "$OS_PASSWORD" "$2" <<'PY'
import json, sys, urllib.request
url, user, password, project = sys.argv[1:]
domain = {"name": "Default"}
body = {"auth": {
    "identity": {"methods": ["password"], "password": {"user": {"name": user, "password": password, "domain": domain}}},
    "scope": {"project": {"name": project, "domain": domain}}}}
request = urllib.request.Request(url + "/auth/tokens", json.dumps(body).encode(), {"Content-Type": "application/json"})
print(urllib.request.urlopen(request).headers["X-Subject-Token"])
PY
}

# stop ends the simulator.
stop() {
  kill "$server" && wait "$server" || true
}

# play NAME RECORDING plays the scenario and compares it with the real service's answers.
play() {
  python3 "$recordings/record.py" "$CYSIM_URL" "$out/$1.json" \
    "$(token admin admin)" "$(token demo demo)" "$(token nova service)" >"$out/$1-steps.txt"
  python3 "$recordings/diff.py" "$recordings/$2" "$out/$1.json" | tee "$out/$1.txt"
}

# judge NAME RELEASE compares the number of steps that agree with the floor of a release.
judge() {
  local agree floor
  agree=$(sed -n 's/^\([0-9]*\) identical .*/\1/p' "$out/$1.txt")
  floor=$(sed -n "s/^$2 //p" "$here/recorded-floor")
  echo "floor: $floor ($2)"
  if [ "${agree:-0}" -lt "$floor" ]; then
    echo "fewer steps agree than the $floor of .ci/recorded-floor"
    exit 1
  elif [ "$agree" -gt "$floor" ]; then
    echo "more steps agree than before: write $agree into .ci/recorded-floor"
  fi
}

world=$here/../testdata/recorded-world.json
start "$world" --upstream-quirks
play recorded cyborg-master.json
judge recorded 2026.2
stop

# Zed cannot report the traits OWNER_*: its world is the same without them.
python3 - "$world" >"$out/recorded-zed-world.json" <<'PY'
import json, sys
world = json.load(open(sys.argv[1]))
for host in world["hosts"]:
    for device in host["devices"]:
        for part in device["deployable_list"]:
            part["attribute_list"] = [a for a in part["attribute_list"] if not a["value"].startswith("OWNER_")]
print(json.dumps(world))
PY
start "$out/recorded-zed-world.json" --upstream-quirks --release zed
play recorded-zed cyborg-zed.json
judge recorded-zed zed
stop

for release in 10.0.0 10.1.0 11.0.0 12.0.0 13.0.0 14.0.0 14.1.0 15.0.0 15.0.1 16.0.0 16.0.1 2027.1; do
  of=$world
  case $release in 10.*) of=$out/recorded-zed-world.json ;; esac
  start "$of" --upstream-quirks --release "$release"
  python3 "$recordings/record.py" "$CYSIM_URL" "$out/recorded-$release.json" \
    "$(token admin admin)" "$(token demo demo)" "$(token nova service)" >"$out/recorded-$release-steps.txt"
  stop
  python3 - "$release" "$out/recorded-$release.json" "$recordings/cyborg-zed.json" "$recordings/cyborg-master.json" "$here/recorded-between" <<'PY'
import json, sys

def keys(value):
    found = set(value) if isinstance(value, dict) else set()
    for name in list(found):
        if isinstance(value[name], list) and value[name]:
            found |= {name + "." + key for key in keys(value[name][0])}
    return found

def steps(file):
    return {step["name"]: (step["response"]["status"], keys(step["response"]["body"])) for step in json.load(open(file))}

release, played, zed, master, between = sys.argv[1:]
played, zed, master = steps(played), steps(zed), steps(master)
got = {(name, str(answer[0])) for name, answer in played.items() if answer not in (zed.get(name), master.get(name))}
want = set()
for line in open(between):
    if not line.startswith("#"):
        name, releases, status, _ = line.strip().split(" | ")
        if release in releases.split():
            want.add((name, status))
for name, status in sorted(got ^ want):
    print(f"{release}: {name}: {status}, {'which no release does' if (name, status) in got else 'expected, but not answered'}")
print(f"{release}: {len(played)} steps, {len(got)} of them as .ci/recorded-between says")
sys.exit(got != want or len(played) < 168)
PY
done

start "$world" --upstream-quirks=false
play recorded-default cyborg-master.json >/dev/null
grep -E '^[^|]* \| status ' "$out/recorded-default.txt" |
  sed -E 's/^(.*) \| status ([0-9]+) vs ([0-9]+):.*/\1|\2|\3/' | sort >"$out/recorded-differs.txt"
sed -nE 's/^\| ([^|]*) \| ([0-9]{3}) \| ([0-9]{3}) \| .* \|$/\1|\2|\3/p' "$here/../docs/dev/cyborg-api.md" | sort >"$out/recorded-documented.txt"
if ! diff "$out/recorded-documented.txt" "$out/recorded-differs.txt"; then
  echo "docs/dev/cyborg-api.md (<) and the default (>) differ about where the default differs"
  exit 1
fi
if grep -q ' | keys ' "$out/recorded-default.txt"; then
  echo 'by default, keys differ from the real ones:'
  grep ' | keys ' "$out/recorded-default.txt"
  exit 1
fi
echo "by default, $(wc -l <"$out/recorded-differs.txt") steps differ on purpose, as documented"
