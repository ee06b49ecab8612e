#!/usr/bin/env bash
# Plays the scenario that was recorded from the real Cyborg against cysim and
# compares status and keys, step by step:
#
#   recorded.sh CYSIM RECORDINGS OUT
#
# The world is the one of the recording, with the defects of the real service.
# Fails when fewer steps agree than the committed floor, which only ever rises.
set -euo pipefail
cysim=$1 recordings=$2 out=$3
here=$(dirname "${BASH_SOURCE[0]}")
floor=$(<"$here/recorded-floor")

"$cysim" serve --model "$here/recorded-world.json" >"$out/recorded.env" 2>"$out/recorded-serve.log" &
server=$!
trap 'kill "$server" 2>/dev/null || true' EXIT
for _ in $(seq 100); do
  grep -q CYSIM_PID "$out/recorded.env" && break
  kill -0 "$server" || { cat "$out/recorded-serve.log"; exit 1; }
  sleep 0.1
done
# shellcheck disable=SC1091
. "$out/recorded.env"

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

python3 "$recordings/record.py" "$CYSIM_URL" "$out/recorded.json" \
  "$(token admin admin)" "$(token demo demo)" "$(token nova service)" >"$out/recorded-steps.txt"
python3 "$recordings/diff.py" "$recordings/cyborg-master.json" "$out/recorded.json" | tee "$out/recorded.txt"
agree=$(sed -n 's/^\([0-9]*\) identical .*/\1/p' "$out/recorded.txt")
echo "floor: $floor"
if [ "${agree:-0}" -lt "$floor" ]; then
  echo "fewer steps agree than the $floor of .ci/recorded-floor"
  exit 1
elif [ "$agree" -gt "$floor" ]; then
  echo "more steps agree than before: write $agree into .ci/recorded-floor"
fi
