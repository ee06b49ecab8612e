package fakecyborg

import "github.com/gocyborg/gocyborg/internal/simhttp"

// inputs tells what each operation reads. Query keys beyond these are refused where the
// handler reads any (queryArgs); members of a body beyond these are ignored, as upstream
// does.
func inputs(cfg Config) map[string]simhttp.Input {
	query := func(keys ...string) simhttp.Input { return simhttp.Input{Query: keys} }
	body := func(paths ...string) simhttp.Input { return simhttp.Input{Body: paths} }
	filters := []string{"filters.field", "filters.value", "filters[*"}
	create := body("device_profile_name")
	if cfg.UseImageUUID {
		create = body("device_profile_name", "image_uuid")
	}
	const one = " /v2/accelerator_requests/{id}"
	return map[string]simhttp.Input{
		"accelerator.device_profile.list":   query("name"),
		"accelerator.device_profile.create": body("[].name", "[].description", "[].uuid", "[].groups[].*"),
		"accelerator.device_profile.delete": query("value"),
		"DELETE /v2/device_profiles/{id}":   {},
		"accelerator.arq.list":              query("bind_state", "instance"),
		"accelerator.arq.create":            create,
		"accelerator.arq.bind":              body("*[].path", "*[].op", "*[].value"),
		"accelerator.arq.delete":            query("arqs", "instance"),
		"DELETE" + one:                      query("instance"), // refused beside an id
		"accelerator.device.list":           {Query: append([]string{"type", "vendor", "hostname"}, filters...)},
		"accelerator.deployable.list":       {Query: filters},
		"accelerator.deployable.program":    body("[].path", "[].op", "[].value[].image_uuid"),
		"accelerator.attribute.list":        query("deployable_id", "key"),
		"accelerator.attribute.create":      body("deployable_id", "key", "value"),
		"accelerator.attribute.delete":      query("uuid"),
		"DELETE /v2/attributes/{id}":        {},
	}
}
