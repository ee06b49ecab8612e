#!/usr/bin/env bash
# Sends again, in order, what clients sent to a simulated cloud. Needs curl. Who sends is
# told by the variables OS_AUTH_URL, OS_USERNAME, OS_PASSWORD and OS_PROJECT_NAME, as they
# are for OpenStack's clients and printed by cysim serve; $OS_TOKEN and $BASE win over them.
set -euo pipefail
json() { local s=${1//\\/\\\\}; printf '"%s"' "${s//\"/\\\"}"; }
token() {
  printf '{"auth": {"identity": {"methods": ["password"], "password": {"user": {"name": %s, "password": %s, "domain": {"name": "Default"}}}}, "scope": {"project": {"name": %s, "domain": {"name": "Default"}}}}}' \
    "$(json "$OS_USERNAME")" "$(json "$OS_PASSWORD")" "$(json "$OS_PROJECT_NAME")" |
    curl -sS -D - -o /dev/null -H 'Content-Type: application/json' --data-binary @- "$OS_AUTH_URL/auth/tokens" |
    sed -n 's/^[Xx]-[Ss]ubject-[Tt]oken: *\([^[:space:]]*\).*/\1/p'
}
OS_TOKEN=${OS_TOKEN:-$(token)}
BASE=${BASE:-${OS_AUTH_URL%/identity/v3}}
send() { curl -sS -g --path-as-is -w '\n%{http_code}\n' "$@" || echo "no answer"; }
OS_SERVICE_TOKEN=${OS_SERVICE_TOKEN:-$(OS_USERNAME='nova' OS_PROJECT_NAME='service' token)}

# POST /identity/v3/auth/tokens, as none: 201
# left out: the script has a token

# GET /placement/allocation_candidates, as admin/admin: 200
send -X 'GET' "$BASE"'/placement/allocation_candidates?group_policy=none&resources=VCPU%3A1%2CMEMORY_MB%3A512&resourcesdevice_profile_0=PGPU%3A1' -H "X-Auth-Token: $OS_TOKEN" -H "X-Service-Token: $OS_SERVICE_TOKEN" -H 'Content-Type: application/json' -H 'Openstack-Api-Version: placement 1.36' -H 'Accept:'

# PUT /placement/allocations/00000000-0000-4000-8000-000000000001, as admin/admin: 204
send -X 'PUT' "$BASE"'/placement/allocations/00000000-0000-4000-8000-000000000001' -H "X-Auth-Token: $OS_TOKEN" -H "X-Service-Token: $OS_SERVICE_TOKEN" -H 'Content-Type: application/json' -H 'Openstack-Api-Version: placement 1.36' -H 'Accept:' --data-raw '{"allocations":{"53b63970-45e0-4fae-aea7-e02b31a6756c":{"resources":{"MEMORY_MB":512,"VCPU":1}},"eb5aa96a-5f9b-3316-948e-6d665a823e50":{"resources":{"PGPU":1}}},"consumer_generation":null,"mappings":{"":["53b63970-45e0-4fae-aea7-e02b31a6756c"],"device_profile_0":["eb5aa96a-5f9b-3316-948e-6d665a823e50"]},"project_id":"f9a72492f73a512384555cce8995b2a6","user_id":"u"}'

# POST /accelerator/v2/accelerator_requests, as admin/admin: 201
send -X 'POST' "$BASE"'/accelerator/v2/accelerator_requests' -H "X-Auth-Token: $OS_TOKEN" -H "X-Service-Token: $OS_SERVICE_TOKEN" -H 'Content-Type: application/json' -H 'Openstack-Api-Version: accelerator 2.1' -H 'Accept:' --data-raw '{"device_profile_name":"gpu"}'

# GET /accelerator/v2/accelerator_requests, as admin/admin: 503
send -X 'GET' "$BASE"'/accelerator/v2/accelerator_requests?instance=00000000-0000-4000-8000-000000000001' -H "X-Auth-Token: $OS_TOKEN" -H "X-Service-Token: $OS_SERVICE_TOKEN" -H 'Content-Type: application/json' -H 'Openstack-Api-Version: accelerator 2.1' -H 'Accept:'

# GET /accelerator/v2/accelerator_requests, as admin/admin: 400
send -X 'GET' "$BASE"'/accelerator/v2/accelerator_requests?instanse=00000000-0000-4000-8000-000000000001' -H "X-Auth-Token: $OS_TOKEN" -H "X-Service-Token: $OS_SERVICE_TOKEN" -H 'Content-Type: application/json' -H 'Openstack-Api-Version: accelerator 2.1' -H 'Accept:'

# PATCH /accelerator/v2/accelerator_requests, as admin/admin: 403
send -X 'PATCH' "$BASE"'/accelerator/v2/accelerator_requests' -H "X-Auth-Token: $OS_TOKEN" -H 'Content-Type: application/json' -H 'Openstack-Api-Version: accelerator 2.1' -H 'Accept:' --data-raw '{"1db22531-6e55-5b4e-a92b-3ac9d6391fef": [{"op": "add", "path": "/hostname", "value": "cn0"}, {"op": "add", "path": "/device_rp_uuid", "value": "eb5aa96a-5f9b-3316-948e-6d665a823e50"},
		{"op": "add", "path": "/instance_uuid", "value": "00000000-0000-4000-8000-000000000001"}, {"op": "add", "path": "/project_id", "value": "it'\''s"}]}'

# PATCH /accelerator/v2/accelerator_requests, as admin/admin: 202
send -X 'PATCH' "$BASE"'/accelerator/v2/accelerator_requests' -H "X-Auth-Token: $OS_TOKEN" -H "X-Service-Token: $OS_SERVICE_TOKEN" -H 'Content-Type: application/json' -H 'Openstack-Api-Version: accelerator 2.1' -H 'Accept:' --data-raw '{"1db22531-6e55-5b4e-a92b-3ac9d6391fef": [{"op": "add", "path": "/hostname", "value": "cn0"}, {"op": "add", "path": "/device_rp_uuid", "value": "eb5aa96a-5f9b-3316-948e-6d665a823e50"},
		{"op": "add", "path": "/instance_uuid", "value": "00000000-0000-4000-8000-000000000001"}, {"op": "add", "path": "/project_id", "value": "it'\''s"}]}'

# GET /accelerator/v2/accelerator_requests, as ?: 401
send -X 'GET' "$BASE"'/accelerator/v2/accelerator_requests' -H 'X-Auth-Token: not-valid' -H 'X-Service-Token: not-valid' -H 'Content-Type: application/json' -H 'Openstack-Api-Version: accelerator 2.1' -H 'Accept:'

# POST /identity/v3/auth/tokens, as none: 201
# left out: the script has a token

# GET /accelerator/v2/accelerator_requests, as admin/admin: 200
send -X 'GET' "$BASE"'/accelerator/v2/accelerator_requests?instance=00000000-0000-4000-8000-000000000001&bind_state=resolved' -H "X-Auth-Token: $OS_TOKEN" -H "X-Service-Token: $OS_SERVICE_TOKEN" -H 'Content-Type: application/json' -H 'Openstack-Api-Version: accelerator 2.1' -H 'Accept:'

# DELETE /accelerator/v2/accelerator_requests, as admin/admin: 204
send -X 'DELETE' "$BASE"'/accelerator/v2/accelerator_requests?instance=00000000-0000-4000-8000-000000000001' -H "X-Auth-Token: $OS_TOKEN" -H "X-Service-Token: $OS_SERVICE_TOKEN" -H 'Content-Type: application/json' -H 'Openstack-Api-Version: accelerator 2.1' -H 'Accept:'

# DELETE /placement/allocations/00000000-0000-4000-8000-000000000001, as admin/admin: 204
send -X 'DELETE' "$BASE"'/placement/allocations/00000000-0000-4000-8000-000000000001' -H "X-Auth-Token: $OS_TOKEN" -H "X-Service-Token: $OS_SERVICE_TOKEN" -H 'Content-Type: application/json' -H 'Openstack-Api-Version: placement 1.36' -H 'Accept:'

# GET /identity/v3/auth/tokens, as admin/admin: 200
send -X 'GET' "$BASE"'/identity/v3/auth/tokens?nocatalog' -H "X-Auth-Token: $OS_TOKEN" -H "X-Subject-Token: $OS_TOKEN" -H 'Accept:'

# POST /identity/v3/auth/tokens, as admin/admin: 201
# left out: the script has a token

# POST /identity/v3/users/fc0d6c38c3f753ce8527b7018939bf20/application_credentials, as admin/admin: 201
# left out: its secret is not kept

# POST /identity/v3/auth/tokens, as admin/admin: 201
# left out: the script has a token

# POST /identity/v3/auth/tokens, as admin/admin: 401
# left out: its secret is not kept

# POST /image/v2/images, as admin/admin: 201
send -X 'POST' "$BASE"'/image/v2/images' -H "X-Auth-Token: $OS_TOKEN" -H 'Accept:' -H 'Content-Type:' --data-raw '{"id": "00000000-0000-4000-8000-000000000007", "name": "bits"}'

# PUT /image/v2/images/00000000-0000-4000-8000-000000000007/file, as admin/admin: 204
# left out: its 4 bytes of data are not kept

# GET /image/v2/images/00000000-0000-4000-8000-000000000007, as admin/admin: 200
send -X 'GET' "$BASE"'/image/v2/images/00000000-0000-4000-8000-000000000007' -H "X-Auth-Token: $OS_TOKEN" -H 'Accept:'

# DELETE /identity/v3/auth/tokens, as admin/admin: 204
# left out: it would end the script's own token

# GET /image/v2/images, as ?: 401
send -X 'GET' "$BASE"'/image/v2/images' -H 'X-Auth-Token: not-valid' -H 'Accept:'
