package placementsim

import (
	"strings"
	"testing"
)

const (
	rpPath  = "/resource_providers/" + rp1
	fullInv = `"reserved":0,"min_unit":1,"max_unit":2147483647,"step_size":1,"allocation_ratio":1.0`
)

func TestProviderLife(t *testing.T) {
	t.Parallel()
	converse(t, newServer(t, Config{}),
		turn{"1.0", "POST", "/resource_providers", `{"name":"a","uuid":"` + strings.ToUpper(strings.ReplaceAll(rp1, "-", "")) + `"}`, 201, nil, ""},
		turn{"1.13", "GET", rpPath, "", 200, []string{`"generation":0`, `"uuid":"` + rp1 + `"`}, ""},
		turn{"1.23", "POST", "/resource_providers", `{"name":"b","uuid":"` + rp1 + `"}`, 409, []string{"Conflicting resource provider uuid: " + rp1 + " already exists."}, codeDuplicateName},
		turn{"1.23", "POST", "/resource_providers", `{"name":"a"}`, 409, []string{"Conflicting resource provider name: a already exists."}, codeDuplicateName},
		turn{"1.13", "POST", "/resource_providers", `{"name":"b","parent_provider_uuid":null}`, 400, []string{"Additional properties are not allowed ('parent_provider_uuid' was unexpected)"}, ""},
		turn{"1.20", "POST", "/resource_providers", `{"name":"b","uuid":"` + rp2 + `","parent_provider_uuid":"` + rp1 + `"}`, 200, []string{`"parent_provider_uuid":"` + rp1 + `"`, `"root_provider_uuid":"` + rp1 + `"`}, ""},
		turn{"1.20", "POST", "/resource_providers", `{"name":"c","uuid":"` + rp3 + `","parent_provider_uuid":"` + rp3 + `"}`, 400, []string{`Unable to create resource provider \"c\", ` + rp3 + `: Object action create failed because: parent provider UUID cannot be same as UUID`}, ""},
		turn{"1.20", "POST", "/resource_providers", `{"name":"c","uuid":"` + rp3 + `","parent_provider_uuid":"` + con + `"}`, 400, []string{"parent provider UUID does not exist"}, ""},
		turn{"1.20", "POST", "/resource_providers", `{"name":"c","uuid":"` + rp3 + `"}`, 200, []string{`"parent_provider_uuid":null`}, ""},
		turn{"1.36", "PUT", "/resource_providers/" + rp2, `{"name":"b","parent_provider_uuid":"` + rp3 + `"}`, 400, []string{"re-parenting a provider is not currently allowed"}, ""},
		turn{"1.36", "PUT", "/resource_providers/" + rp2, `{"name":"b","parent_provider_uuid":null}`, 400, []string{"un-parenting a provider is not currently allowed"}, ""},
		turn{"1.37", "PUT", rpPath, `{"name":"a","parent_provider_uuid":"` + rp2 + `"}`, 400, []string{"creating loop in the provider tree is not allowed."}, ""},
		turn{"1.37", "PUT", "/resource_providers/" + rp2, `{"name":"b2","parent_provider_uuid":"` + rp3 + `"}`, 200, []string{`"root_provider_uuid":"` + rp3 + `"`, `"generation":0`}, ""},
		turn{"1.37", "GET", "/resource_providers?in_tree=" + rp3, "", 200, []string{rp2, rp3}, ""},
		turn{"1.37", "PUT", "/resource_providers/" + rp2, `{"name":"a"}`, 409, []string{"Conflicting resource provider a already exists."}, codeDuplicateName},
		turn{"1.37", "DELETE", "/resource_providers/" + rp3, "", 409, []string{"It has child resource providers."}, codeCannotDeleteParent},
		turn{"1.37", "PUT", "/resource_providers/" + rp2, `{"name":"b2","parent_provider_uuid":null}`, 200, []string{`"root_provider_uuid":"` + rp2 + `"`}, ""},
		turn{"1.37", "PUT", rpPath, `{"name":"a","parent_provider_uuid":"` + rp3 + `"}`, 200, []string{`"root_provider_uuid":"` + rp3 + `"`}, ""},
		turn{"1.37", "DELETE", rpPath, "", 204, nil, ""}, // the child goes, then its parent can
		turn{"1.37", "DELETE", "/resource_providers/" + rp3, "", 204, nil, ""},
		turn{"1.37", "DELETE", "/resource_providers/" + rp3, "", 404, []string{"No resource provider with uuid " + rp3 + " found for delete"}, codeUndefined},
	)
}

func TestInventoryLife(t *testing.T) {
	t.Parallel()
	const all, vcpu = rpPath + "/inventories", rpPath + "/inventories/VCPU"
	s := newServer(t, Config{})
	addProvider(t, s, ResourceProvider{UUID: rp1, Name: "a"})
	converse(t, s,
		turn{"1.39", "POST", all, `{"resource_class":"VCPU","total":8,"resource_provider_generation":77}`, 201, []string{`"resource_provider_generation":1`, `"total":8`, fullInv}, ""},
		turn{"1.39", "POST", all, `{"resource_class":"VCPU","total":8}`, 409, []string{"Update conflict"}, codeConcurrentUpdate},
		turn{"1.39", "POST", all, `{"resource_class":"NOPE","total":8}`, 400, []string{"No such resource class NOPE"}, codeUndefined},
		turn{"1.25", "POST", all, `{"resource_class":"PGPU","total":2,"reserved":2}`, 400, []string{"Unable to create inventory for resource provider " + rp1, "greater than or equal to total"}, codeUndefined},
		turn{"1.26", "POST", all, `{"resource_class":"PGPU","total":2,"reserved":3}`, 400, []string{"greater than total"}, codeUndefined},
		turn{"1.26", "POST", all, `{"resource_class":"PGPU","total":2,"reserved":2}`, 201, nil, ""},
		turn{"1.39", "PUT", vcpu, `{"resource_provider_generation":1,"total":9}`, 409, []string{"resource provider generation conflict"}, codeConcurrentUpdate},
		turn{"1.39", "PUT", vcpu, `{"resource_provider_generation":2,"total":4.0,"allocation_ratio":16}`, 200, []string{`"total":4.0,`, `"allocation_ratio":16,`, `"max_unit":2147483647`, `"resource_provider_generation":3`}, ""},
		turn{"1.39", "GET", vcpu, "", 200, []string{`"total":4,`, `"allocation_ratio":16.0`}, ""},
		turn{"1.39", "PUT", vcpu, `{"resource_provider_generation":3,"total":true}`, 400, []string{"True is not of type 'integer'"}, ""},
		turn{"1.39", "PUT", vcpu, `{"resource_provider_generation":3,"total":0}`, 400, []string{"0 is less than the minimum of 1", "Failed validating 'minimum' in schema['properties']['total']"}, ""},
		turn{"1.39", "PUT", vcpu, `{"resource_provider_generation":3}`, 400, []string{"'total' is a required property", "Failed validating 'required' in schema"}, ""},
		turn{"1.39", "PUT", all + "/NOPE", `{"resource_provider_generation":3,"total":1}`, 404, []string{"No such resource class NOPE"}, ""},
		turn{"1.39", "PUT", all + "/FPGA", `{"resource_provider_generation":3,"total":1}`, 400, []string{"No inventory record with resource class"}, ""},
		turn{"1.39", "GET", all + "/FPGA", "", 404, []string{"No inventory of class FPGA for " + rp1}, ""},
		turn{"1.39", "PUT", all, `{"resource_provider_generation":3,"inventories":{"bad-key":{"total":1}}}`, 400, []string{"Unknown resource class in inventory"}, ""},
		turn{"1.39", "PUT", all, `{"resource_provider_generation":3,"inventories":{"bad-key":{}}}`, 400, []string{"'total' is a required property"}, ""},
		turn{"1.39", "PUT", all, `{"resource_provider_generation":3,"inventories":{"VCPU":{"total":4,"reserved":0.0}}}`, 200, []string{`"inventories":{"VCPU":{"total":4,"reserved":0.0,`, `"resource_provider_generation":4`}, ""},
		turn{"1.27", "PUT", "/allocations/" + con, `{"allocations":{"` + rp1 + `":{"resources":{"VCPU":3}}},"project_id":"p","user_id":"u"}`, 204, nil, ""},
		turn{"1.39", "PUT", all, `{"resource_provider_generation":5,"inventories":{}}`, 409, []string{"Inventory for 'VCPU' on resource provider '" + rp1 + "' in use"}, codeInventoryInUse},
		turn{"1.39", "DELETE", all, "", 409, nil, codeInventoryInUse},
		turn{"1.39", "DELETE", vcpu, "", 409, []string{"in use"}, codeConcurrentUpdate},
		turn{"1.39", "PUT", vcpu, `{"resource_provider_generation":5,"total":1}`, 200, nil, ""},
		turn{"1.39", "DELETE", rpPath, "", 409, []string{"Resource provider has allocations."}, codeProviderInUse},
		turn{"1.39", "DELETE", "/allocations/" + con, "", 204, nil, ""},
		turn{"1.39", "DELETE", vcpu, "", 204, nil, ""},
		turn{"1.39", "DELETE", vcpu, "", 404, []string{"No inventory of class VCPU found for delete"}, ""},
		turn{"1.39", "DELETE", all, "", 204, nil, ""},
		turn{"1.39", "GET", rpPath, "", 200, []string{`"generation":8`}, ""},
	)
}

func TestAggregatesAndTraitsOfAProvider(t *testing.T) {
	t.Parallel()
	const aggregates, traits = rpPath + "/aggregates", rpPath + "/traits"
	s := newServer(t, Config{})
	addProvider(t, s, ResourceProvider{UUID: rp1, Name: "a"})
	converse(t, s,
		turn{"1.0", "GET", aggregates, "", 404, nil, ""},
		turn{"1.1", "PUT", aggregates, `["` + agg + `"]`, 200, []string{`{"aggregates":["` + agg + `"]}`}, ""},
		turn{"1.1", "PUT", aggregates, `["` + agg + `","` + agg + `"]`, 400, []string{"has non-unique elements"}, ""},
		turn{"1.1", "PUT", aggregates, `["nope"]`, 400, []string{"'nope' is not a 'uuid'"}, ""},
		turn{"1.18", "PUT", aggregates, `{"aggregates":[],"resource_provider_generation":0}`, 400, []string{"is not of type 'array'"}, ""},
		turn{"1.19", "PUT", aggregates, `{"aggregates":["` + agg + `"],"resource_provider_generation":0}`, 200, []string{`"resource_provider_generation":1`}, ""},
		turn{"1.23", "PUT", aggregates, `{"aggregates":[],"resource_provider_generation":0}`, 409, []string{"Resource provider's generation already changed. Please update the generation and try again."}, codeConcurrentUpdate},
		turn{"1.3", "GET", "/resource_providers?member_of=in:" + agg + "," + con, "", 200, []string{rp1}, ""},
		turn{"1.3", "GET", "/resource_providers?member_of=" + strings.ToUpper(agg), "", 200, []string{`{"resource_providers":[]}`}, ""},
		turn{"1.3", "GET", "/resource_providers?member_of=" + agg + "," + con, "", 400, []string{"must be prefixed with the 'in:' or '!in:' keyword"}, ""},
		turn{"1.5", "GET", "/traits", "", 404, nil, ""},
		turn{"1.6", "PUT", "/traits/CUSTOM_X", "", 201, nil, ""},
		turn{"1.6", "PUT", "/traits/CUSTOM_X", "", 204, nil, ""},
		turn{"1.6", "PUT", "/traits/HW_CPU_X86_AVX", "", 400, []string{`The trait is invalid. A valid trait must be no longer than 255 characters, start with the prefix \"CUSTOM_\"`}, ""},
		turn{"1.6", "PUT", traits, `{"traits":["CUSTOM_X","CUSTOM_X","HW_CPU_X86_AVX"],"resource_provider_generation":1}`, 200, []string{`{"traits":["HW_CPU_X86_AVX","CUSTOM_X"],"resource_provider_generation":2}`}, ""},
		turn{"1.6", "PUT", traits, `{"traits":["HW_CPU_X86_AVX","CUSTOM_X"],"resource_provider_generation":2}`, 200, []string{`"resource_provider_generation":2`}, ""},
		turn{"1.6", "PUT", traits, `{"traits":["Y","X"],"resource_provider_generation":2}`, 400, []string{"No such trait X, Y"}, ""},
		turn{"1.23", "PUT", traits, `{"traits":[],"resource_provider_generation":9}`, 409, nil, codeConcurrentUpdate},
		turn{"1.6", "GET", "/traits?name=in:CUSTOM_X,CUSTOM_Y&associated=TRUE", "", 200, []string{`{"traits":["CUSTOM_X"]}`}, ""},
		turn{"1.6", "GET", "/traits?name=startswith:CUSTOM&associated=false", "", 200, []string{`{"traits":[]}`}, ""},
		turn{"1.6", "GET", "/traits?name=in_abc", "", 400, []string{`?name=[in|startswith]:[name1,name2|prefix]. Got: \"in_abc\"`}, ""},
		turn{"1.6", "GET", "/traits?associated=maybe", "", 400, []string{`The query parameter \"associated\" only accepts \"true\" or \"false\"`}, ""},
		turn{"1.6", "DELETE", "/traits/CUSTOM_X", "", 409, []string{"The trait CUSTOM_X is in use by a resource provider."}, ""},
		turn{"1.6", "DELETE", "/traits/HW_CPU_X86_AVX", "", 400, []string{"Cannot delete standard trait"}, ""},
		turn{"1.6", "DELETE", traits, "", 204, nil, ""},
		turn{"1.6", "DELETE", traits, "", 204, nil, ""},
		turn{"1.6", "DELETE", "/traits/CUSTOM_X", "", 204, nil, ""},
		turn{"1.6", "DELETE", "/traits/CUSTOM_X", "", 404, nil, ""},
		turn{"1.6", "GET", rpPath, "", 200, []string{`"generation":3`}, ""},
	)
}

func TestResourceClassLife(t *testing.T) {
	t.Parallel()
	s := newServer(t, Config{})
	addProvider(t, s, ResourceProvider{UUID: rp1, Name: "a", Inventories: map[string]Inventory{"CUSTOM_USED": {Total: 1}}})
	converse(t, s,
		turn{"1.1", "GET", "/resource_classes", "", 404, nil, ""},
		turn{"1.2", "GET", "/resource_classes", "", 200, []string{`{"resource_classes":[{"name":"VCPU",`}, ""},
		turn{"1.2", "POST", "/resource_classes", `{"name":"CUSTOM_A"}`, 201, nil, ""},
		turn{"1.2", "POST", "/resource_classes", `{"name":"CUSTOM_A"}`, 409, []string{"Conflicting resource class already exists: CUSTOM_A"}, ""},
		turn{"1.2", "POST", "/resource_classes", `{"name":"VCPU"}`, 400, []string{"JSON does not validate", "Failed validating 'pattern'"}, ""},
		turn{"1.6", "PUT", "/resource_classes/CUSTOM_A", `{"name":"CUSTOM_B"}`, 200, []string{`"name":"CUSTOM_B"`}, ""},
		turn{"1.6", "PUT", "/resource_classes/CUSTOM_B", `{"name":"CUSTOM_USED"}`, 409, []string{"Resource class already exists: CUSTOM_USED"}, ""},
		turn{"1.6", "PUT", "/resource_classes/VCPU", `{"name":"CUSTOM_C"}`, 400, []string{"Cannot update standard resource class VCPU"}, ""},
		turn{"1.7", "PUT", "/resource_classes/CUSTOM_C", "", 201, nil, ""},
		turn{"1.7", "PUT", "/resource_classes/CUSTOM_C", "", 204, nil, ""},
		turn{"1.7", "PUT", "/resource_classes/CUSTOM_" + strings.Repeat("X", 249), "", 400, []string{"Failed validating 'maxLength'"}, ""},
		turn{"1.2", "DELETE", "/resource_classes/CUSTOM_USED", "", 409, []string{"Error in delete resource class", "Class is in use in inventory."}, ""},
		turn{"1.2", "DELETE", "/resource_classes/VCPU", "", 400, []string{"Cannot delete standard resource class"}, ""},
		turn{"1.2", "DELETE", "/resource_classes/CUSTOM_A", "", 404, nil, ""},
		turn{"1.2", "DELETE", "/resource_classes/CUSTOM_B", "", 204, nil, ""},
	)
}

// oneClaim is an allocation body for 1.28.
func oneClaim(generation, allocations string) string {
	return `{"allocations":` + allocations + `,"project_id":"p","user_id":"u","consumer_generation":` + generation + `}`
}

func TestConsumerGenerations(t *testing.T) {
	t.Parallel()
	const path = "/allocations/" + con
	one := `{"` + rp1 + `":{"resources":{"VCPU":1}}}`
	for _, imitate := range []bool{true, false} {
		s := seeded(t, Config{NoLeftoverConsumers: !imitate})
		leftover := "null"
		if imitate {
			leftover = "0"
		}
		converse(t, s,
			turn{"1.28", "PUT", path, oneClaim("5", one), 409, []string{"consumer generation conflict - expected null but got 5"}, codeConcurrentUpdate},
			turn{"1.28", "PUT", path, oneClaim("null", `{"`+rp3+`":{"resources":{"VCPU":1}}}`), 400, []string{"Allocation for resource provider '" + rp3 + "' that does not exist"}, codeUndefined},
			turn{"1.28", "PUT", path, oneClaim(leftover, `{"`+rp1+`":{"resources":{"VCPU":1}},"`+rp2+`":{"resources":{"FPGA":1}}}`), 204, nil, ""},
			turn{"1.28", "GET", path, "", 200, []string{`"consumer_generation":1`, `"project_id":"p"`}, ""},
			turn{"1.28", "PUT", path, oneClaim("null", one), 409, []string{"consumer generation conflict - expected 1 but got None"}, codeConcurrentUpdate},
			turn{"1.28", "PUT", path, oneClaim("1", one), 204, nil, ""},
			turn{"1.28", "GET", rpPath, "", 200, []string{`"generation":4`}, ""},                       // two of its own, two writes
			turn{"1.28", "GET", "/resource_providers/" + rp2, "", 200, []string{`"generation":3`}, ""}, // left without notice
			turn{"1.28", "PUT", path, oneClaim("2", "{}"), 204, nil, ""},
			turn{"1.28", "GET", rpPath, "", 200, []string{`"generation":5`}, ""},
			turn{"1.28", "GET", path, "", 200, []string{`{"allocations":{}}`}, ""},
			turn{"1.28", "PUT", path, oneClaim("null", one), 204, nil, ""},
			turn{"1.28", "DELETE", path, "", 204, nil, ""},
			turn{"1.28", "DELETE", path, "", 404, []string{"No allocations for consumer '" + con + "'"}, ""},
			turn{"1.28", "GET", rpPath, "", 200, []string{`"generation":6`}, ""},
		)
	}
}

func TestAllocationRefusals(t *testing.T) {
	t.Parallel()
	s := seeded(t, Config{NoLeftoverConsumers: true})
	must(t, s.SetInventory(rp1, map[string]Inventory{"VCPU": {Total: 8, MinUnit: 2, MaxUnit: 4, StepSize: 2}}))
	const path = "/allocations/" + con
	of := func(resources string) string { return oneClaim("null", `{"`+rp1+`":{"resources":`+resources+`}}`) }
	converse(t, s,
		turn{"1.28", "PUT", "/allocations/nope", of(`{"VCPU":2}`), 400, []string{"Malformed consumer_uuid"}, ""},
		turn{"1.28", "PUT", path, of(`{"VCPU":3}`), 409, []string{"would violate inventory constraints."}, codeUndefined},
		turn{"1.28", "PUT", path, of(`{"VCPU":6}`), 409, []string{"would violate inventory constraints."}, codeUndefined},
		turn{"1.28", "PUT", path, of(`{"VCPU":0}`), 400, []string{"0 is less than the minimum of 1"}, ""},
		turn{"1.28", "PUT", path, of(`{"PGPU":1}`), 409, []string{"Unable to allocate inventory: Inventory for 'PGPU' on"}, codeUndefined},
		turn{"1.28", "PUT", path, of(`{"NOPE":1}`), 400, []string{"Unable to allocate inventory for consumer", "No such resource class NOPE"}, codeUndefined},
		turn{"1.28", "PUT", path, of(`{}`), 400, []string{"{} should be non-empty"}, ""},
		turn{"1.28", "PUT", path, of(`{"a b":1}`), 400, []string{"'a b' does not match any of the regexes: '^[A-Z0-9_]+$'"}, ""},
		turn{"1.13", "POST", "/allocations", `{"` + con + `":` + claim12("NOPE", 4) + `,"` + con2 + `":` + strings.Replace(claim12("VCPU", 4), rp1, rp3, 1) + `}`, 400, []string{"Allocation for resource provider '" + rp3 + "' that does not exist."}, ""},
		turn{"1.13", "POST", "/allocations", `{"` + con + `":` + claim12("VCPU", 4) + `,"` + con2 + `":` + claim12("VCPU", 4) + `}`, 204, nil, ""},
		turn{"1.28", "PUT", "/allocations/" + rp3, of(`{"VCPU":2}`), 409, []string{"The requested amount would exceed the capacity"}, codeUndefined},
		// Of claims that exceed an inventory together the last does so, and a fault before it is named.
		turn{"1.13", "POST", "/allocations", `{"` + con + `":` + claim12("VCPU", 4) + `,"` + rp2 + `":` + claim12("PGPU", 1) + `,"` + rp3 + `":` + claim12("VCPU", 4) + `}`, 409, []string{"Inventory for 'PGPU' on resource provider '" + rp1 + "' invalid."}, ""},
		// A text about a provider without inventory names the classes of an emptied consumer, too.
		turn{"1.13", "POST", "/allocations", `{"` + con + `":{"allocations":{},"project_id":"p","user_id":"u"},"` + con2 + `":` + strings.Replace(claim12("PGPU", 1), rp1, rp2, 1) + `}`, 409, []string{"Inventory for 'VCPU, PGPU' on resource provider '" + rp2 + "' invalid."}, ""},
		// The two swap what they have with a third: old allocations go first.
		turn{"1.13", "POST", "/allocations", `{"` + con + `":{"allocations":{},"project_id":"p","user_id":"u"},"` + rp3 + `":` + claim12("VCPU", 4) + `}`, 204, nil, ""},
		turn{"1.12", "GET", "/allocations/" + rp3, "", 200, []string{`"VCPU":4`}, ""},
	)
	must(t, s.SetInventory(rp1, map[string]Inventory{"VCPU": {Total: 4}}))
	converse(t, s, // overcommitted now: it may be kept or shrink
		turn{"1.12", "PUT", "/allocations/" + rp3, claim12("VCPU", 4), 204, nil, ""},
		turn{"1.12", "PUT", "/allocations/" + rp3, claim12("VCPU", 3), 204, nil, ""},
		turn{"1.12", "PUT", "/allocations/" + rp3, claim12("VCPU", 4), 409, []string{"would exceed the capacity"}, ""},
	)
	s.CheckUsage(t, rp1, "VCPU", 7)
}

func claim12(class string, amount int) string {
	return `{"allocations":{"` + rp1 + `":{"resources":{"` + class + `":` + string(rune('0'+amount)) + `}}},"project_id":"p","user_id":"u"}`
}

func TestAllocationBodiesByMicroversion(t *testing.T) {
	t.Parallel()
	s := seeded(t, Config{})
	list := `[{"resource_provider":{"uuid":"` + rp1 + `"},"resources":{"VCPU":1}}]`
	asMap := `{"` + rp1 + `":{"generation":9,"resources":{"VCPU":1}}}`
	who := `"project_id":"p","user_id":"u"`
	path := "/allocations/" + con
	converse(t, s,
		turn{"1.7", "PUT", path, `{"allocations":` + list + `}`, 204, nil, ""},
		turn{"1.12", "GET", path, "", 200, []string{`"project_id":"00000000-0000-0000-0000-000000000000"`}, ""},
		turn{"1.8", "PUT", path, `{"allocations":` + list + `}`, 400, []string{"'project_id' is a required property"}, ""},
		turn{"1.11", "PUT", path, `{"allocations":` + list + `,` + who + `}`, 204, nil, ""},
		turn{"1.11", "GET", path, "", 200, nil, ""},
		turn{"1.12", "PUT", path, `{"allocations":` + list + `,` + who + `}`, 400, []string{"is not of type 'object'"}, ""},
		turn{"1.27", "PUT", path, `{"allocations":{},` + who + `}`, 400, []string{"{} should be non-empty"}, ""},
		turn{"1.33", "PUT", path, `{"allocations":` + asMap + `,` + who + `,"consumer_generation":2,"mappings":{"":["` + rp1 + `"]}}`, 400, []string{"'mappings' was unexpected"}, ""},
		turn{"1.34", "PUT", path, `{"allocations":` + asMap + `,` + who + `,"consumer_generation":2,"mappings":{"":["` + rp1 + `"]}}`, 204, nil, ""},
		turn{"1.37", "PUT", path, `{"allocations":` + asMap + `,` + who + `,"consumer_generation":3,"consumer_type":"INSTANCE"}`, 400, []string{"'consumer_type' was unexpected"}, ""},
		turn{"1.38", "PUT", path, `{"allocations":` + asMap + `,` + who + `,"consumer_generation":3}`, 400, []string{"'consumer_type' is a required property"}, ""},
		turn{"1.38", "GET", path, "", 200, []string{`"consumer_type":"unknown"`}, ""},
		turn{"1.38", "PUT", path, `{"allocations":` + asMap + `,` + who + `,"consumer_generation":3,"consumer_type":"INSTANCE"}`, 204, nil, ""},
		turn{"1.37", "PUT", path, `{"allocations":` + asMap + `,` + who + `,"consumer_generation":4}`, 204, nil, ""},
		turn{"1.38", "GET", path, "", 200, []string{`"consumer_type":"INSTANCE"`, `"consumer_generation":5`}, ""},
		turn{"1.38", "GET", rpPath + "/allocations", "", 200, []string{`"consumer_generation":5`, `"` + con + `"`}, ""},
		turn{"1.27", "GET", rpPath + "/allocations", "", 200, []string{`{"resources":{"VCPU":1}}`}, ""},
	)
}

func TestUsages(t *testing.T) {
	t.Parallel()
	s := seeded(t, Config{})
	for _, c := range []Claim{
		{Consumer: con, Project: "p", User: "u", Type: "INSTANCE", Allocations: []Allocation{{Provider: rp1, Class: "VCPU", Used: 2}, {Provider: rp2, Class: "FPGA", Used: 1}}},
		{Consumer: con2, Project: "p", User: "v", Allocations: []Allocation{{Provider: rp1, Class: "VCPU", Used: 1}}},
	} {
		must(t, s.Claim(c))
	}
	converse(t, s,
		turn{"1.9", "GET", "/usages", "", 400, []string{"'project_id' is a required property"}, ""},
		turn{"1.9", "GET", "/usages?project_id=", "", 400, []string{"Failed validating 'minLength'"}, ""},
		turn{"1.37", "GET", "/usages?project_id=p", "", 200, []string{`{"usages":{"FPGA":1,"VCPU":3}}`}, ""},
		turn{"1.37", "GET", "/usages?project_id=p&user_id=v", "", 200, []string{`{"usages":{"VCPU":1}}`}, ""},
		turn{"1.37", "GET", "/usages?project_id=p&consumer_type=all", "", 400, []string{"'consumer_type' was unexpected"}, ""},
		turn{"1.38", "GET", "/usages?project_id=p", "", 200, []string{`{"usages":{"INSTANCE":{"FPGA":1,"VCPU":2,"consumer_count":1},"unknown":{"VCPU":1,"consumer_count":1}}}`}, ""},
		turn{"1.38", "GET", "/usages?project_id=p&consumer_type=all", "", 200, []string{`{"usages":{"all":{"FPGA":1,"VCPU":3,"consumer_count":2}}}`}, ""},
		turn{"1.38", "GET", "/usages?project_id=p&consumer_type=unknown", "", 200, []string{`{"usages":{"unknown":{"VCPU":1,"consumer_count":1}}}`}, ""},
		turn{"1.38", "GET", "/usages?project_id=q&consumer_type=all", "", 200, []string{`{"usages":{}}`}, ""},
		turn{"1.38", "GET", "/usages?project_id=p&consumer_type=instance", "", 400, []string{"'instance' does not match"}, ""},
		turn{"1.0", "GET", rpPath + "/usages", "", 200, []string{`"usages":{"VCPU":3}`}, ""},
		turn{"1.0", "GET", "/resource_providers/" + rp2 + "/usages", "", 200, []string{`"usages":{"FPGA":1}`}, ""},
	)
}

func TestReshaperMovesAClassToAChild(t *testing.T) {
	t.Parallel()
	s := seeded(t, Config{Policy: PolicyDefault})
	must(t, s.Claim(Claim{Consumer: con, Project: "p", User: "u", Allocations: []Allocation{{Provider: rp1, Class: "VCPU", Used: 2}}}))
	body := func(parentGeneration, allocations string) string {
		return `{"inventories":{"` + rp1 + `":{"resource_provider_generation":` + parentGeneration + `,"inventories":{}},"` +
			rp2 + `":{"resource_provider_generation":2,"inventories":{"VCPU":{"total":8},"FPGA":{"total":2}}}},"allocations":` + allocations + `}`
	}
	moved := `{"` + con + `":` + oneClaim("1", `{"`+rp2+`":{"resources":{"VCPU":2}}}`) + `}`
	converse(t, s,
		turn{"1.29", "POST", "/reshaper", body("3", moved), 404, nil, ""},
		turn{"1.30", "POST", "/reshaper", `{"inventories":{},"allocations":{}}`, 400, []string{"JSON does not validate"}, ""},
		turn{"1.30", "POST", "/reshaper", strings.Replace(body("3", moved), rp1, rp3, 1), 400, nil, codeProviderNotFound},
		turn{"1.30", "POST", "/reshaper", body("4", moved), 409, []string{"actual: 3, given: 4"}, codeConcurrentUpdate},
		turn{"1.30", "POST", "/reshaper", body("3", "{}"), 409, nil, codeInventoryInUse},
		turn{"1.30", "POST", "/reshaper", body("3", strings.Replace(moved, `"VCPU":2`, `"VCPU":9`, 1)), 409, []string{"Unable to allocate inventory"}, codeUndefined},
		turn{"1.30", "POST", "/reshaper", body("3", strings.Replace(moved, `"consumer_generation":1`, `"consumer_generation":7`, 1)), 409, nil, codeConcurrentUpdate},
		turn{"1.30", "POST", "/reshaper", body("3", moved), 204, nil, ""},
		turn{"1.30", "GET", rpPath + "/inventories", "", 200, []string{`"resource_provider_generation":4`, `"inventories":{}`}, ""},
		turn{"1.30", "GET", "/resource_providers/" + rp2, "", 200, []string{`"generation":5`}, ""},
		turn{"1.30", "GET", "/allocations/" + con, "", 200, []string{`"consumer_generation":2`, rp2}, ""},
	)
	s.CheckUsage(t, rp2, "VCPU", 2)
}

func TestProviderListFilters(t *testing.T) {
	t.Parallel()
	s := seeded(t, Config{})
	must(t, s.SetAggregates(rp1, agg))
	tests := []struct {
		version, query string
		want           string // names, or a part of the error
	}{
		{"1.39", "", "cn0 cn0_fpga"},
		{"1.39", "name=", "cn0 cn0_fpga"},
		{"1.39", "name=cn0", "cn0"},
		{"1.39", "uuid=" + rp2, "cn0_fpga"},
		{"1.39", "uuid=" + rp2 + "&name=cn0", ""},
		{"1.39", "resources=VCPU:8", "cn0"},
		{"1.39", "resources=VCPU:9", ""},
		{"1.39", "resources=VCPU:1,FPGA:1", ""},
		{"1.39", "resources=NOPE:1", "Invalid resource class in resources parameter"},
		{"1.39", "resources=VCPU", "Got: VCPU."},
		{"1.39", "resources=", "Got: empty string."},
		{"1.39", "resources=VCPU:0", "Requested resource VCPU requires amount >= 1. Got: 0."},
		{"1.39", "resources=VCPU:one", "Requested resource VCPU expected positive integer amount. Got: one."},
		{"1.3", "resources=VCPU:1", "'resources' was unexpected"},
		{"1.39", "in_tree=" + rp2, "cn0 cn0_fpga"},
		{"1.39", "in_tree=" + rp3, ""},
		{"1.39", "in_tree=" + rp1 + "&name=cn0_fpga", "cn0_fpga"},
		{"1.39", "required=CUSTOM_FPGA_INTEL", "cn0_fpga"},
		{"1.22", "required=!CUSTOM_FPGA_INTEL", "cn0"},
		{"1.21", "required=!CUSTOM_FPGA_INTEL", "value of the form: HW_CPU_X86_VMX,CUSTOM_MAGIC."},
		{"1.39", "required=in:CUSTOM_FPGA_INTEL,COMPUTE_ACCELERATORS", "cn0 cn0_fpga"},
		{"1.39", "required=CUSTOM_FPGA_INTEL&required=COMPUTE_ACCELERATORS", ""},
		{"1.38", "required=CUSTOM_FPGA_INTEL&required=COMPUTE_ACCELERATORS", "cn0"},
		{"1.38", "required=in:CUSTOM_FPGA_INTEL", "only supported since microversion 1.39"},
		{"1.39", "required=in:!CUSTOM_FPGA_INTEL", "does not support forbidden traits"},
		{"1.39", "required=CUSTOM_NOPE", "Invalid trait(s) in \"required\" parameter: No such trait(s): CUSTOM_NOPE."},
		{"1.39", "required=CUSTOM_FPGA_INTEL,", "Got an empty trait in"},
		{"1.39", "member_of=" + agg, "cn0"},
		{"1.32", "member_of=!in:" + agg + "," + con, "cn0_fpga"},
		{"1.31", "member_of=!" + agg, "Forbidden member_of parameters are not supported in the specified microversion"},
		{"1.24", "member_of=" + agg + "&member_of=" + con, ""},
		{"1.23", "member_of=" + agg + "&member_of=" + con, "Multiple member_of parameters are not supported"},
		{"1.39", "member_of=x", "Expected 'member_of' parameter to contain valid UUID(s)."},
		{"1.39", "member_of=!" + agg + "," + con, "using the valid microversion. Got: !" + agg + "," + con},
		{"1.39", "nope=1", "Additional properties are not allowed ('nope' was unexpected)"},
	}
	for _, tt := range tests {
		got := send(t, s, tt.version, "GET", "/resource_providers?"+tt.query, "")
		if got.status != 200 {
			if detail, _ := got.at(t, "errors", "0", "detail").(string); got.status != 400 || tt.want == "" || !strings.Contains(detail, tt.want) {
				t.Errorf("%s %s: got %d %q, want %q", tt.version, tt.query, got.status, detail, tt.want)
			}
			continue
		}
		var names []string
		for _, rp := range array(got.at(t, "resource_providers")) {
			names = append(names, text(fields(rp)["name"]))
		}
		if strings.Join(names, " ") != tt.want {
			t.Errorf("%s %s: got %q, want %q", tt.version, tt.query, names, tt.want)
		}
	}
}

// osc-placement shows the last line of a detail, so it has to say all.
func TestErrorsAreOneLine(t *testing.T) {
	t.Parallel()
	s := seeded(t, Config{})
	const malformed = "The server could not comply with the request since it is either malformed or otherwise incorrect.\n\n "
	for _, tt := range []struct{ method, path, contentType, body, want string }{
		{"PUT", "/resource_providers/" + rp1 + "/inventories/VCPU", "application/json", `{"resource_provider_generation": 1, "total": "abc"}`, malformed +
			"JSON does not validate: 'abc' is not of type 'integer'  Failed validating 'type' in schema['properties']['total']:     " +
			"{'type': 'integer', 'maximum': 2147483647, 'minimum': 1}  On instance['total']:     'abc'  "},
		{"GET", "/resource_providers?member_of=x&a=1", "", "", malformed +
			"Invalid query string parameters: Additional properties are not allowed ('a' was unexpected)  Failed validating 'additionalProperties' in schema:     " +
			"{'type': 'object',      'properties': {'name': {'type': 'string'},                     'uuid': {'type': 'string', 'format': 'uuid'},                     " +
			"'member_of': {'type': 'string'},                     'resources': {'type': 'string'},                     'in_tree': {'type': 'string', 'format': 'uuid'},                     " +
			"'required': {'type': 'string'}},      'additionalProperties': False}  On instance:     {'member_of': 'x', 'a': '1'}  "},
		{"POST", "/allocations", "application/json", `{"a":1,}`, malformed +
			"Malformed JSON: Illegal trailing comma before end of object: line 1 column 7 (char 6)  "},
		{"PATCH", "/traits", "", "", "The method PATCH is not allowed for this resource. \n\n The method specified is not allowed for this resource."},
		{"POST", "/resource_providers", "text/plain", `{}`, "The request media type text/plain is not supported by this server. \n\n The media type text/plain is not supported, use application/json"},
		{"GET", "/resource_providers/<b>x/traits", "", "", "The resource could not be found.\n\n No resource provider with uuid x found: No resource provider with uuid x found  "},
	} {
		got := send(t, s, "1.39", tt.method, tt.path, tt.body, "Content-Type", tt.contentType)
		if text := got.at(t, "errors", "0", "detail"); text != tt.want {
			t.Errorf("%s %s:\n got %q\nwant %q", tt.method, tt.path, text, tt.want)
		}
	}
}

// Callers that want no JSON get the service's page or its plain text.
func TestErrorsForOtherMediaTypes(t *testing.T) {
	t.Parallel()
	s := seeded(t, Config{})
	for accept, want := range map[string]string{
		"text/plain": "405 Method Not Allowed\n\nThe method PATCH is not allowed for this resource. \n\n The method specified is not allowed for this resource.",
		"text/html": "<html>\n <head>\n  <title>405 Method Not Allowed</title>\n </head>\n <body>\n  <h1>405 Method Not Allowed</h1>\n  " +
			"The method PATCH is not allowed for this resource. <br /><br />\nThe method specified is not allowed for this resource.\n </body>\n</html>",
	} {
		if got := send(t, s, "1.39", "PATCH", "/traits", "", "Accept", accept); got.body != want {
			t.Errorf("%s:\n got %q\nwant %q", accept, got.body, want)
		}
	}
}
