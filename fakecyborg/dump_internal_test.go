package fakecyborg

import (
	"reflect"
	"strings"
	"testing"
)

// dumpedField marks a field that a dump holds; any other text says why it need
// not.
const dumpedField = "dumped"

// fieldVerdicts says of every field of the state what becomes of it in a dump.
func fieldVerdicts() map[reflect.Type]map[string]string {
	const (
		configured = "configuration, or given in code"
		index      = "an index, built from the rows"
	)
	return map[reflect.Type]map[string]string{
		reflect.TypeFor[Server](): {
			"cfg": configured, "verifier": configured, "placement": configured, "nova": configured, "glance": configured,
			"faults": "dumped by its owner, who made the set", "clock": configured, "observe": configured, "loop": configured,
			"shape": dumpedField, "service": "dumped is the position of its identifiers", "life": "ends with Close", "end": "ends life",
			"work": "what was at work is told by binds, writing and returns_at", "mu": "a lock", "state": dumpedField, "agents": dumpedField,
			"hostNames": "follows from the hosts that were added and fell_back", "reports": dumpedField, "events": dumpedField,
			"awaited": dumpedField, "strangers": "a turn", "halted": "made by Load, for Resume",
		},
		reflect.TypeFor[state](): {
			"seed": configured, "space": "a constant", "counts": dumpedField, "quirks": configured, "mode": dumpedField,
			"profiles": dumpedField, "arqs": dumpedField, "byInstance": index, "devices": dumpedField, "byHost": index,
			"deployables": dumpedField, "byProvider": index, "sharing": index, "byName": index, "attributes": dumpedField, "notes": "only while a request is at work under the lock",
			"handles": dumpedField, "binds": dumpedField,
		},
		reflect.TypeFor[record]():     {"id": dumpedField, "uuid": dumpedField, "created": dumpedField, "updated": dumpedField},
		reflect.TypeFor[profileRow](): {"record": dumpedField, "name": dumpedField, "description": dumpedField, "groups": dumpedField, "arqs": "counts the requests"},
		reflect.TypeFor[groupItem]():  {"key": dumpedField, "value": dumpedField},
		reflect.TypeFor[arqRow](): {
			"record": dumpedField, "profile": dumpedField, "group": dumpedField, "state": dumpedField, "host": dumpedField, "provider": dumpedField,
			"instance": dumpedField, "project": dumpedField, "handle": dumpedField, "image": dumpedField, "failure": dumpedField,
			"programs": "follows from the program of its bind", "attempt": "tells jobs of one life apart", "deleted": "only of rows outside of the table",
		},
		reflect.TypeFor[image](): {"by": dumpedField, "value": dumpedField},
		reflect.TypeFor[deviceRow](): {
			"record": dumpedField, "host": dumpedField, "source": dumpedField, "key": "of the control path", "spec": dumpedField,
			"status": dumpedField, "parts": index, "nested": dumpedField,
		},
		reflect.TypeFor[deployableRow](): {
			"record": dumpedField, "device": dumpedField, "name": dumpedField, "driverName": dumpedField, "total": dumpedField, "memory": dumpedField,
			"provider": dumpedField, "bitstream": dumpedField, "loaded": dumpedField, "writing": dumpedField, "unsure": dumpedField, "fixed": dumpedField,
			"offered": dumpedField, "attributes": index, "handles": index,
		},
		reflect.TypeFor[loaded]():       {"image": dumpedField, "trait": dumpedField, "reported": dumpedField, "looked": dumpedField},
		reflect.TypeFor[glanceImage]():  {"id": dumpedField, "properties": dumpedField},
		reflect.TypeFor[attributeRow](): {"record": dumpedField, "deployable": dumpedField, "key": dumpedField, "value": dumpedField, "byAPI": dumpedField},
		reflect.TypeFor[handleRow](): {
			"record": dumpedField, "deployable": dumpedField, "kind": dumpedField, "info": dumpedField, "taken": dumpedField,
			"arq": "named by the request", "busy": "nobody is at work on it after a crash", "gone": dumpedField,
		},
		reflect.TypeFor[bindRun](): {"jobs": dumpedField, "silent": dumpedField},
		reflect.TypeFor[bindJob](): {
			"arq": dumpedField, "uuid": dumpedField, "server": dumpedField, "attempt": "that of the request", "handle": "that of the request",
			"image": dumpedField, "mdev": "follows from the type of the handle", "agent": "nobody is at work on it after a crash",
			"profile": dumpedField, "ended": dumpedField,
		},
		reflect.TypeFor[agent]():       {"host": configured, "turn": "a lock", "fellBack": dumpedField, "signs": dumpedField},
		reflect.TypeFor[agentState]():  {"signs": dumpedField, "fellBack": dumpedField},
		reflect.TypeFor[lifeSigns]():   {"down": dumpedField, "started": dumpedField, "last": dumpedField, "returns": dumpedField},
		reflect.TypeFor[flatShape]():   {"client": configured, "mu": "a lock", "hosts": dumpedField},
		reflect.TypeFor[flatHost]():    {"parts": dumpedField, "classes": dumpedField, "traits": dumpedField, "expected": "of a report in progress", "adopted": dumpedField},
		reflect.TypeFor[nestedShape](): {"client": configured, "mu": "a lock", "regions": dumpedField, "traits": dumpedField, "memory": dumpedField},
		reflect.TypeFor[providerWant](): {
			"uuid": "of flat hosts, and nobody asks for it of a region", "name": dumpedField, "parent": "nobody asks for it", "class": dumpedField,
			"total": dumpedField, "reserved": dumpedField, "traits": dumpedField, "memory": dumpedField,
			"shared": "nobody asks for it", "device": dumpedField, "root": "nobody asks for it",
		},
		reflect.TypeFor[inventory]():    {"Total": dumpedField, "MaxUnit": dumpedField, "Reserved": dumpedField},
		reflect.TypeFor[DriverReport](): {"Host": dumpedField, "Driver": dumpedField, "At": dumpedField, "Devices": dumpedField, "LeftOut": dumpedField, "Problems": dumpedField, "Warnings": dumpedField, "Err": dumpedField},
	}
}

// A field that is added to the state and forgotten in the dump is lost when a
// simulator is started again.
func TestEveryFieldOfTheStateIsInADumpOrNeedNotBe(t *testing.T) {
	t.Parallel()
	verdicts := fieldVerdicts()
	shapes := []reflect.Type{reflect.TypeFor[flatShape](), reflect.TypeFor[nestedShape]()}
	next, done := append(shapes, reflect.TypeFor[Server]()), make(map[reflect.Type]bool)
	for len(next) > 0 {
		this := next[0]
		next = next[1:]
		if done[this] {
			continue
		}
		done[this] = true
		fields, known := verdicts[this]
		if !known {
			t.Errorf("%s is part of the state; say what a dump holds of it", this)
		}
		for i := range this.NumField() {
			field := this.Field(i)
			switch fields[field.Name] {
			case "":
				t.Errorf("%s.%s: is it in a dump, or why need it not be?", this, field.Name)
			case dumpedField:
				next = append(next, structsOf(field.Type)...)
			}
			delete(fields, field.Name)
		}
		for name := range fields {
			t.Errorf("%s has no field %s", this, name)
		}
	}
	for this := range verdicts {
		if !done[this] {
			t.Errorf("%s is not reached", this)
		}
	}
}

// structsOf are the structs of this package that values of a type are made of.
func structsOf(this reflect.Type) []reflect.Type {
	switch this.Kind() {
	case reflect.Pointer, reflect.Slice:
		return structsOf(this.Elem())
	case reflect.Map:
		return append(structsOf(this.Key()), structsOf(this.Elem())...)
	case reflect.Struct:
		if this.PkgPath() != reflect.TypeFor[Server]().PkgPath() {
			return nil
		}
		if strings.HasPrefix(this.Name(), "table[") {
			rows, _ := this.FieldByName("rows")
			return structsOf(rows.Type)
		}
		return []reflect.Type{this}
	}
	return nil
}

// What a driver reports of a device is in a dump as the driver gives it, so that
// a field added there is not lost.
func TestADeviceOfADumpHasEveryFieldOfADevice(t *testing.T) {
	t.Parallel()
	shadowed := map[string]bool{"Deployables": true} // rows of their own
	dump := reflect.TypeFor[dumpDevice]()
	device, ok := dump.FieldByName("Device")
	if !ok || !device.Anonymous {
		t.Fatal("a device is not part of its row")
	}
	for i := range device.Type.NumField() {
		field := device.Type.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		for j := range dump.NumField() {
			other, _, _ := strings.Cut(dump.Field(j).Tag.Get("json"), ",")
			if other == name && !shadowed[field.Name] {
				t.Errorf("field %s of a device is hidden by %s", field.Name, dump.Field(j).Name)
			}
		}
	}
}
