//go:build differential

package differential_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
)

// cyborgWorld draws requests that suit what the real Cyborg holds.
type cyborgWorld struct {
	draws
	profiles   []string // names that requests created, or tried to
	arqs       []string // labels
	attributes []string // labels of created ones
	made       int      // labels
}

var (
	instances   = []string{"11111111-0000-4000-8000-000000000001", "11111111-0000-4000-8000-000000000002", "11111111-0000-4000-8000-000000000003"}
	ownUUIDs    = []string{"22222222-0000-4000-8000-000000000001", "22222222-0000-4000-8000-000000000002", "22222222-0000-4000-8000-000000000003"}
	strangeUUID = "33333333-0000-4000-8000-000000000001"
	projectID   = "4444444400004000800000000000000a"
)

const (
	hardware = acceleratorHosts * 3
	json1    = "application/json"
)

// firstProfiles are in each world.
func (w *cyborgWorld) firstProfiles() []request {
	var list []request
	for _, profile := range []struct{ name, group string }{
		{"gpu", `{"resources:PGPU": "1", "trait:CUSTOM_GPU_NVIDIA": "required"}`},
		{"vgpu", `{"resources:VGPU": "1"}`},
		{"fpga", `{"resources:FPGA": "2"}`},
	} {
		w.profiles = append(w.profiles, profile.name)
		list = append(list, w.build("POST", "/device_profiles", "admin", fmt.Sprintf(`[{"name": %q, "groups": [%s]}]`, profile.name, profile.group)))
	}
	return list
}

// build is a request with a body if it is not empty.
func (w *cyborgWorld) build(method, target, user, body string) request {
	req := request{method: method, target: cyborgPath + target, body: body}
	req.set("Accept", json1)
	req.set("X-Auth-Token", tokenOf(user))
	if version := pick(w.draws, "", "2.0", "2.1", "2.2", "2.3", "2.3", "2.3", "latest"); version != "" {
		req.set("OpenStack-API-Version", "accelerator "+version)
	}
	if body != "" {
		req.set("Content-Type", json1)
	}
	return req
}

// user draws a role, mostly the administrator.
func (w *cyborgWorld) user() string {
	if w.chance(75) {
		return "admin"
	}
	return pick(w.draws, "demo", "demo", "nova", "reader", "manager", "alice")
}

// withService adds an X-Service-Token, mostly one that binds accept.
func (w *cyborgWorld) withService(req request) request {
	switch {
	case w.chance(85):
		req.set("X-Service-Token", tokenOf("nova"))
	case w.chance(70):
		req.set("X-Service-Token", pick(w.draws, tokenOf("demo"), tokenOf("admin"), "no-token", ""))
	}
	return req
}

// next draws a request.
func (w *cyborgWorld) next() request {
	draw := pickWeighted(w.draws, []weighted[func() request]{
		{6, w.createProfile}, {8, w.createOddProfile}, {8, w.readProfiles}, {5, w.deleteProfiles},
		{15, w.createRequests}, {12, w.bind}, {6, w.unbind}, {4, w.oddPatch}, {9, w.deleteRequests}, {10, w.readRequests},
		{7, w.devices}, {2, w.switchDevice}, {4, w.deployables}, {1, w.program}, {7, w.attribute}, {3, w.odd},
	})
	req := draw()
	if w.chance(2) {
		w.spoilPath(&req)
	}
	return req
}

// spoilPath writes a path in another way.
func (w *cyborgWorld) spoilPath(req *request) {
	path, query, found := strings.Cut(req.target, "?")
	path = pick(w.draws, path+"/", path+".json", strings.Replace(path, "/v2", "", 1), strings.Replace(path, "/v2/", "/v2//", 1))
	req.target = path
	if found {
		req.target += "?" + query
	}
}

func (w *cyborgWorld) profile() string { return pick(w.draws, w.profiles...) }

func (w *cyborgWorld) group() map[string]any {
	class := pick(w.draws, "PGPU", "VGPU", "FPGA")
	group := map[string]any{"resources:" + class: pick(w.draws, "1", "1", "1", "2")}
	if w.chance(40) {
		group["trait:CUSTOM_"+pick(w.draws, "GPU_NVIDIA", "FPGA_INTEL", "FPGA_XILINX", "OTHER")] = pick(w.draws, "required", "required", "forbidden")
	}
	if w.chance(10) {
		group["accel:"+pick(w.draws, "other", "note")] = pick(w.draws, "3AFB", strangeUUID)
	}
	return group
}

func (w *cyborgWorld) goodProfile() map[string]any {
	profile := map[string]any{"name": fmt.Sprintf("profile-%d", w.IntN(8)), "groups": []any{w.group()}}
	if w.chance(30) {
		profile["groups"] = []any{w.group(), w.group()}
	}
	if w.chance(25) {
		profile["description"] = pick[any](w.draws, "text", "\u00fc", "", nil)
	}
	if w.chance(25) {
		profile["uuid"] = pick(w.draws, ownUUIDs...)
	}
	return profile
}

func (w *cyborgWorld) createProfile() request {
	profile := w.goodProfile()
	w.profiles = append(w.profiles, profile["name"].(string))
	return w.build("POST", "/device_profiles", w.user(), asJSON([]any{profile}))
}

// anyValue draws a value of every JSON type.
func (w *cyborgWorld) anyValue() any {
	return pick[any](w.draws, nil, true, 0, 1, -1, 1.5, "", "x", " 1 ", []any{}, []any{"x"}, map[string]any{}, map[string]any{"x": 1})
}

func (w *cyborgWorld) createOddProfile() request {
	profile := w.goodProfile()
	group := profile["groups"].([]any)[0].(map[string]any)
	var body any = []any{profile}
	switch w.IntN(15) {
	case 0:
		delete(profile, pick(w.draws, "name", "groups"))
	case 1:
		profile["name"] = pick[any](w.draws, w.anyValue(), "a b", "\u00fc", strings.Repeat("x", 255), strings.Repeat("x", 256), "a.b", "a\n", "-")
	case 2:
		profile["groups"] = pick[any](w.draws, w.anyValue(), []any{map[string]any{}}, []any{[]any{}}, []any{nil}, []any{1}, map[string]any{"resources:FPGA": "1"})
	case 3, 4:
		group[pick(w.draws, "other", "resources", "trait", "Resources:FPGA", "resources:", "resources:VCPU", "resources:CUSTOM_", "resources:CUSTOM_X", "resources:fpga",
			"resources: FPGA ", "resources:FPGA:X", "trait:", "trait:HW_X", "trait: CUSTOM_B ", "accel:", "")] = pick[any](w.draws, "1", "required", w.anyValue())
	case 5, 6:
		group["resources:FPGA"] = pick[any](w.draws, w.anyValue(), "0", "-1", "1_0", "99999", "1.0", "+1", "0x1", "\u0663")
	case 7:
		group["trait:CUSTOM_OTHER"] = pick[any](w.draws, w.anyValue(), "Required", "optional")
	case 8:
		profile["uuid"] = pick[any](w.draws, w.anyValue(), "bad", strings.ToUpper(strangeUUID), strings.ReplaceAll(strangeUUID, "-", ""), "{"+strangeUUID+"}")
	case 9:
		profile[pick(w.draws, "other", "created_at", "updated_at", "profile_json", "links")] = w.anyValue()
	case 14: // any number would be stored, and change the order
		profile["id"] = pick[any](w.draws, nil, "", "x", []any{}, map[string]any{"x": 1})
	case 10:
		profile["description"] = pick[any](w.draws, w.anyValue(), strings.Repeat("x", 255), strings.Repeat("x", 256), strings.Repeat("x", 70000))
	case 11:
		body = pick[any](w.draws, w.anyValue(), profile, []any{profile, map[string]any{"name": "second", "groups": []any{w.group()}}}, []any{nil}, []any{5}, map[string]any{"device_profiles": []any{profile}})
	case 12:
		return w.build("POST", "/device_profiles", "admin", pick(w.draws, "{", "null", "[", `"`, "[NaN]", "nope", asJSON(body)[:10]))
	case 13:
		profile["name"] = pick(w.draws, "gpu", "GPU", "Gpu", "gpu ")
	}
	return w.build("POST", "/device_profiles", "admin", asJSON(body))
}

func (w *cyborgWorld) readProfiles() request {
	name := url.PathEscape(w.profile())
	return w.build("GET", "/device_profiles"+pick(w.draws, "", "?name="+name, "?name="+name+",gpu", "?name=", "?name=nope", "?other=1", "?name=nope&name="+name, "?name=GPU",
		"/"+name, "/"+name, "/"+pick(w.draws, ownUUIDs...), "/"+strings.ToUpper(ownUUIDs[0]), "/"+strings.ReplaceAll(ownUUIDs[0], "-", ""), "/"+strangeUUID, "/nope", "/a%20b", "/%C3%BC", "/"+name+"/x"), w.user(), "")
}

func (w *cyborgWorld) deleteProfiles() request {
	name := url.QueryEscape(w.profile())
	return w.build("DELETE", "/device_profiles"+pick(w.draws, "/"+name, "/"+pick(w.draws, ownUUIDs...), "?value="+name, "?value="+name+","+ownUUIDs[0], "?value="+name+",nope",
		"", "?value=", "?value=nope", "/nope", "/"+strangeUUID, "?other=1", "?value=nope&value=profile-7", "?value=profile-6&value="+name), w.user(), "")
}

func (w *cyborgWorld) createRequests() request {
	body := map[string]any{"device_profile_name": w.profile()}
	if w.chance(12) {
		body["device_profile_name"] = pick[any](w.draws, "nope", "GPU", w.anyValue())
	}
	if w.chance(6) {
		body["image_uuid"] = strangeUUID
	}
	if w.chance(6) {
		body["device_profile_group_id"] = pick[any](w.draws, 0, 1, 9)
	}
	if w.chance(4) {
		body["other"] = 1
	}
	text := asJSON(body)
	if w.chance(4) {
		text = pick(w.draws, "{", "null", "[]", "{}", `"x"`, "5", asJSON([]any{body}), `{"name": "gpu"}`)
	}
	return w.build("POST", "/accelerator_requests", pick(w.draws, "admin", "admin", "admin", "demo", "demo", "nova", "alice", "reader"), text)
}

// arq draws the label of a request, seldom one that there is not.
func (w *cyborgWorld) arq() string {
	if len(w.arqs) == 0 || w.chance(6) {
		return pick(w.draws, strangeUUID, "bad")
	}
	return w.arqs[w.IntN(len(w.arqs))]
}

func (w *cyborgWorld) patchOne(op, instance string) []map[string]any {
	i := w.IntN(hardware)
	list := []map[string]any{
		{"path": "/hostname", "op": op, "value": acceleratorHost(i / 3)},
		{"path": "/device_rp_uuid", "op": op, "value": providerLabel(i)},
		{"path": "/instance_uuid", "op": op, "value": instance},
	}
	if w.chance(30) {
		list = append(list, map[string]any{"path": "/project_id", "op": op, "value": pick(w.draws, projectID, strangeUUID)})
	}
	if op == "remove" && w.chance(70) {
		for _, item := range list {
			delete(item, "value")
		}
	}
	return list
}

func (w *cyborgWorld) patchAll(op string) map[string]any {
	instance, body := pick(w.draws, instances...), make(map[string]any)
	for range pick(w.draws, 1, 1, 1, 2) {
		body[w.arq()] = w.patchOne(op, instance)
	}
	return body
}

func (w *cyborgWorld) sendPatch(body any) request {
	target := "/accelerator_requests"
	if w.chance(5) {
		target += "/" + w.arq()
	}
	return w.withService(w.build("PATCH", target, pick(w.draws, "admin", "admin", "admin", "demo", "demo", "nova", "alice"), asJSON(body)))
}

func (w *cyborgWorld) bind() request   { return w.sendPatch(w.patchAll("add")) }
func (w *cyborgWorld) unbind() request { return w.sendPatch(w.patchAll("remove")) }

func (w *cyborgWorld) oddPatch() request {
	arq := w.arq()
	list := w.patchOne("add", pick(w.draws, instances...))
	item := list[w.IntN(3)]
	var body any = map[string]any{arq: &list}
	switch w.IntN(10) {
	case 0:
		list = list[pick(w.draws, 1, 2):]
	case 1:
		item[pick(w.draws, "path", "op", "value")] = pick[any](w.draws, w.anyValue(), "replace", "/other", "remove", "hostname", "//hostname", "/hostname/")
	case 2:
		delete(item, pick(w.draws, "path", "op", "value"))
	case 3:
		list = append(list, map[string]any{"path": pick(w.draws, "/other", "hostname", "/", "", "/state", "/project_id"), "op": "add", "value": "x"})
	case 4:
		body = map[string]any{arq: w.anyValue()}
	case 5:
		body = w.anyValue()
	case 6:
		body = map[string]any{pick(w.draws, "bad", "", strangeUUID, strings.ToUpper(arq)): list}
	case 7:
		item["value"] = pick[any](w.draws, w.anyValue(), strangeUUID, strings.ToUpper(instances[0]), strings.Repeat("x", 300))
	case 8:
		item["op"] = "remove"
	case 9:
		list = append(list, list[0])
	}
	return w.sendPatch(body)
}

func (w *cyborgWorld) deleteRequests() request {
	instance := pick(w.draws, instances...)
	return w.withService(w.build("DELETE", "/accelerator_requests"+pick(w.draws,
		"?instance="+instance, "?instance="+instance, "?arqs="+w.arq(), "?arqs="+w.arq(), "?arqs="+w.arq()+","+w.arq(), "/"+w.arq(), "",
		"?instance="+pick(w.draws, "bad", "", strangeUUID, strings.ToUpper(instance), strings.ReplaceAll(instance, "-", "")),
		"?arqs="+pick(w.draws, "", ",", "bad", "x,"), "?instance="+instance+"&arqs="+strangeUUID, "?other=1", "?instance="+instance+"&other=1", "?instance="+instance+"&instance="+instances[0]),
		pick(w.draws, "admin", "admin", "admin", "demo", "nova", "alice"), ""))
}

func (w *cyborgWorld) readRequests() request {
	instance := pick(w.draws, instances...)
	req := w.build("GET", "/accelerator_requests"+pick(w.draws, "", "", "?instance="+instance, "?instance="+instance+"&bind_state=resolved", "?bind_state=resolved",
		"?"+pick(w.draws, "bind_state=", "bind_state=Bound", "bind_state=unresolved", "instance=", "instance=bad", "other=1", "limit=1", "instance={"+instance+"}",
			"instance="+strings.ToUpper(instance), "instance="+strings.ReplaceAll(instance, "-", ""), "instance="+instance+"&instance="+instances[0]),
		"/"+w.arq(), "/"+w.arq(), "/"+pick(w.draws, strings.ToUpper(w.arq()), "x", strings.ReplaceAll(strangeUUID, "-", ""))), w.user(), "")
	if w.chance(15) {
		return w.withService(req)
	}
	return req
}

// filters are the other form of conditions on lists.
func (w *cyborgWorld) filters(fields ...string) string {
	field := pick(w.draws, append(fields, "limit", "sort_key", "sort_dir", "marker", "nope")...)
	pair := "filters[0].field=" + field + "&filters[0].value=" + pick(w.draws, "GPU", "nvidia", "1", "x", "desc", "name", "hostname")
	return pick(w.draws, pair, pair, url.PathEscape(pair), "filters=x", "filters[0].field="+field, "filters[0].value=x", "filters[0].x=1", "filters.field=type&filters.value=GPU", "filters[1].field="+field+"&filters[1].value=x")
}

func (w *cyborgWorld) devices() request {
	device := deviceLabel(w.IntN(hardware))
	return w.build("GET", "/devices"+pick(w.draws, "", "?type="+pick(w.draws, "GPU", "FPGA", "gpu", "", "X"), "?vendor="+pick(w.draws, "10de", "8086", "", "x"),
		"?hostname="+pick(w.draws, acceleratorHost(0), strings.ToUpper(acceleratorHost(0)), "", "x"), "?type=GPU&vendor=10de&hostname="+acceleratorHost(1), "?type=GPU&type=FPGA",
		"?"+pick(w.draws, "other=1", "limit=2", "limit=x", "sort_key=hostname", "sort_dir=desc", "marker=x"), "?"+w.filters("type", "vendor", "hostname"),
		"/"+device, "/"+device, "/"+pick(w.draws, "bad", strangeUUID, strings.ToUpper(device)), "/"+device+"/"+pick(w.draws, "nope", "enable")), w.user(), "")
}

func (w *cyborgWorld) switchDevice() request {
	device := pick(w.draws, deviceLabel(w.IntN(hardware)), deviceLabel(w.IntN(hardware)), deviceLabel(w.IntN(hardware)), strangeUUID, "bad")
	return w.build("POST", "/devices/"+device+"/"+pick(w.draws, "disable", "disable", "enable", "nope", "disable/x"), w.user(), "")
}

func (w *cyborgWorld) deployables() request {
	deployable := deployableLabel(w.IntN(hardware))
	return w.build("GET", "/deployables"+pick(w.draws, "", "", "?"+pick(w.draws, "other=1", "name=x", "limit=1"), "?"+w.filters("name", "driver_name", "rp_uuid"), "/"+deployable, "/"+deployable, "/"+strangeUUID, "/bad"), w.user(), "")
}

func (w *cyborgWorld) program() request {
	one := func(path, op string, value any) any {
		return []any{map[string]any{"path": path, "op": op, "value": value}}
	}
	image := []any{map[string]any{"image_uuid": strangeUUID}}
	body := pick(w.draws, w.anyValue(), one("/program", "replace", []any{}), one("/program", "replace", []any{map[string]any{}}), one("/bitstream_id", "replace", []any{map[string]any{"image_uuid": "bad"}}),
		one("/name", "replace", image), one("/uuid", "add", "x"), one("/program", "remove", nil), one("/program", "move", 1), one("x", "replace", 1))
	return w.build("PATCH", "/deployables/"+pick(w.draws, deployableLabel(2), strangeUUID, "bad")+"/program", w.user(), asJSON(body))
}

// attributeID draws the label of an attribute of the hardware or of a request.
func (w *cyborgWorld) attributeID() string {
	if len(w.attributes) > 0 && w.chance(50) {
		return pick(w.draws, w.attributes...)
	}
	return attributeLabel(w.IntN(hardware * 2))
}

func (w *cyborgWorld) attribute() request {
	switch w.IntN(4) {
	case 0, 1:
		return w.build("GET", "/attributes"+pick(w.draws, "", "?key="+pick(w.draws, "rc", "RC", "nope", ""), "?deployable_id="+pick(w.draws, deployableIDLabel(0), "x", "", "0", "999", "-1", "1.5"),
			"?deployable_id="+deployableIDLabel(1)+"&key=rc", "?other=1", "/"+w.attributeID(), "/"+w.attributeID(), "/"+strangeUUID, "/bad"), w.user(), "")
	case 2:
		return w.build("DELETE", "/attributes"+pick(w.draws, "/"+w.attributeID(), "/"+w.attributeID(), "/"+strangeUUID, "/bad", "", "?uuid="+w.attributeID()), w.user(), "")
	}
	body := map[string]any{"deployable_id": 0, "key": pick(w.draws, "key", "rc", "trait9"), "value": pick(w.draws, "value", "CUSTOM_OTHER")}
	switch w.IntN(6) {
	case 0:
		delete(body, pick(w.draws, "key", "value"))
	case 1:
		body[pick(w.draws, "key", "value")] = pick[any](w.draws, w.anyValue(), strings.Repeat("x", 300))
	case 2:
		body[pick(w.draws, "uuid", "other")] = strangeUUID
	}
	text := strings.Replace(asJSON(body), `"deployable_id":0`, `"deployable_id":`+deployableIDLabel(w.IntN(hardware)), 1)
	switch w.IntN(10) {
	case 0:
		body["deployable_id"] = pick[any](w.draws, nil, 0, -1, 999, "", "x", []any{}, map[string]any{"x": 1}) // the numbers of deployables are the service's
		text = asJSON(body)
	case 1:
		text = pick(w.draws, "[]", "null", "{", "5", `"x"`, "{}")
	}
	return w.build("POST", "/attributes", w.user(), text)
}

// odd is a request for no route, with a method that the route does not have, or with a header that is spoilt.
func (w *cyborgWorld) odd() request {
	req := w.build(pick(w.draws, "GET", "GET", "GET", "HEAD", "OPTIONS", "PUT", "POST", "DELETE", "PATCH"), "", w.user(), "")
	req.target = pick(w.draws, "/accelerator/", "/accelerator", "/accelerator/v1", "/accelerator/v2.0", "/accelerator/v3/devices", cyborgPath, cyborgPath+"/", cyborgPath+"/nope",
		cyborgPath+"/devices", cyborgPath+"/device_profiles", cyborgPath+"/accelerator_requests", cyborgPath+"/deployables", cyborgPath+"/attributes", cyborgPath+"/Devices", cyborgPath+"/devices/x/y/z")
	switch w.IntN(7) {
	case 0:
		req.unset("X-Auth-Token")
	case 1:
		req.set("X-Auth-Token", pick(w.draws, "no-token", ""))
	case 2:
		req.set("OpenStack-API-Version", pick(w.draws, "accelerator 2.99", "accelerator 1.0", "accelerator x.y", "2.2", "", "accelerator", "placement 1.36", "accelerator 2", "Accelerator 2.1",
			"accelerator 2.1, placement 1.1", "accelerator 3.0", "latest", "accelerator 2.-1", "accelerator 2.1.1"))
	case 3:
		req.unset("Accept")
		if accept := pick(w.draws, "", "text/html", "*/*", "application/xml", "text/plain"); accept != "" {
			req.set("Accept", accept)
		}
	case 4:
		req.set("X-Service-Token", pick(w.draws, "no-token", tokenOf("demo"), tokenOf("nova"), ""))
	case 5:
		if req.method == "POST" || req.method == "PUT" || req.method == "PATCH" {
			req.body = "{}"
			req.set("Content-Type", pick(w.draws, "text/plain", "application/xml", "application/json; charset=utf-8"))
		}
	case 6:
		req.set("X-Openstack-Request-Id", pick(w.draws, "req-abc", "req-"+strangeUUID))
	}
	return req
}

// learn labels what a request created.
func (w *cyborgWorld) learn(req request, s *side, got answer) (labels []string) {
	if req.method != "POST" || got.status != 201 {
		return nil
	}
	var body struct {
		UUID string
		ARQs []struct{ UUID string }
	}
	if json.Unmarshal([]byte(got.body), &body) != nil {
		return nil
	}
	for i, arq := range body.ARQs {
		label := madeLabel(w.made + i)
		s.names[label] = arq.UUID
		labels = append(labels, label)
	}
	if body.UUID != "" && isUUID(body.UUID) && body.ARQs == nil {
		if _, own := ownUUID(body.UUID); !own {
			label := madeLabel(w.made)
			s.names[label] = body.UUID
			labels = append(labels, label)
		}
	}
	return labels
}

// ownUUID reports whether a request chose an identifier.
func ownUUID(id string) (string, bool) {
	for _, own := range append(ownUUIDs, strangeUUID) {
		if own == id {
			return own, true
		}
	}
	return "", false
}
