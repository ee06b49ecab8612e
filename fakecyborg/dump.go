package fakecyborg

import (
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/sim"
)

// ErrDump is matched by the errors of [Server.Load].
var ErrDump = errors.New("fakecyborg: bad dump")

// stateDump is the state of a server as JSON. Every fact is in it once; what
// follows from others, and what the configuration says, is not. Rows stand in
// the order of their ids and name each other by uuid.
type stateDump struct {
	SchemaVersion int `json:"schema_version"`
	// PlacementMode is that of the configuration, on which the rows depend; empty
	// means ModeTree.
	PlacementMode string           `json:"placement_mode"`
	IDs           dumpIDs          `json:"ids"`
	Profiles      []dumpProfile    `json:"device_profiles"`
	Devices       []dumpDevice     `json:"devices"`
	Deployables   []dumpDeployable `json:"deployables"`
	Attributes    []dumpAttribute  `json:"attributes"`
	Handles       []dumpHandle     `json:"attach_handles"`
	ARQs          []dumpARQ        `json:"accelerator_requests"`
	Binds         []dumpBind       `json:"binds"`
	Agents        []dumpAgent      `json:"agents"`
	Reports       []dumpReport     `json:"driver_reports"`
	Events        []sim.Event      `json:"events"`
	// Placement is what was written to Placement and is not in a deployable; nil
	// in ModeTree.
	Placement *dumpPlacement `json:"placement,omitempty"`
}

// dumpIDs are positions in the sequences of identifiers.
type dumpIDs struct {
	// Request is how many request ids were given.
	Request uint64 `json:"request"`
	// Last are the highest ids ever given, by table; ids are not used again.
	Last dumpLast `json:"last"`
	// Named is how many uuids were made of a running number, by kind of row.
	Named map[string]int `json:"named"`
}

type dumpLast struct {
	Profiles    int `json:"device_profiles"`
	Devices     int `json:"devices"`
	Deployables int `json:"deployables"`
	Attributes  int `json:"attributes"`
	Handles     int `json:"attach_handles"`
	ARQs        int `json:"accelerator_requests"`
}

// dumpRecord is what every row has.
type dumpRecord struct {
	ID      int       `json:"id"` // from 1
	UUID    string    `json:"uuid"`
	Created time.Time `json:"created_at"`
	Updated time.Time `json:"updated_at,omitzero"`
}

type dumpProfile struct {
	dumpRecord
	Name        string  `json:"name"`
	Description *string `json:"description,omitempty"`
	Groups      []group `json:"groups"` // objects of texts, whose order counts
}

// dumpDevice has the fields of a device as drivers report it.
type dumpDevice struct {
	dumpRecord
	Hostname string `json:"hostname"`
	Driver   string `json:"driver"` // the name of the one that reported it
	Status   string `json:"status"`
	// Nested tells that it has a provider above those of its deployables.
	Nested bool `json:"nested,omitempty"`
	driver.Device
	// Parts hides the field deployable_list: deployables are rows.
	Parts *struct{} `json:"deployable_list,omitempty"`
}

type dumpDeployable struct {
	dumpRecord
	Device   string `json:"device"`
	Name     string `json:"name"`
	Provider string `json:"rp_uuid"`
	Total    int    `json:"num_accelerators"`
	Driver   string `json:"driver_name"`
	// Programmable is false for a region that is never to be programmed, else nil.
	Programmable *bool          `json:"programmable,omitempty"`
	Memory       map[string]int `json:"resources,omitempty"`
	// Offered tells that Placement knows it; only then its handles are given out.
	Offered   bool        `json:"offered"`
	Bitstream string      `json:"bitstream_id,omitempty"`
	Loaded    *dumpLoaded `json:"loaded,omitempty"`
	// Unsure tells that an image could not be written, and what is there is not known.
	Unsure bool `json:"unsure,omitempty"`
	// Writing is the image that is being written, see Resume.
	Writing string `json:"writing,omitempty"`
}

// dumpLoaded is what was written to a region last.
type dumpLoaded struct {
	Image      string            `json:"image_id"`
	Properties map[string]string `json:"properties,omitempty"`
	Trait      string            `json:"trait,omitempty"`
	// Reported are the traits of functions that the driver told then, and Looked
	// tells that it has told others since.
	Reported []string `json:"reported_traits,omitempty"`
	Looked   bool     `json:"looked,omitempty"`
}

type dumpAttribute struct {
	dumpRecord
	Deployable string `json:"deployable"`
	Key        string `json:"key"`
	Value      string `json:"value"`
	// ByUser tells that it was created through the API.
	ByUser bool `json:"by_user,omitempty"`
}

type dumpHandle struct {
	dumpRecord
	Deployable string      `json:"deployable"`
	Type       string      `json:"attach_type"`
	Info       driver.Info `json:"attach_info"`
	// InUse is set for the handle that a request names, and for a mediated device
	// whose request is gone and which is still to be removed.
	InUse bool `json:"in_use,omitempty"`
	// Gone tells that it is no longer reported, and stays until it is given back.
	Gone bool `json:"gone,omitempty"`
}

type dumpARQ struct {
	dumpRecord
	State    State  `json:"state"`
	Profile  string `json:"device_profile"`
	Group    int    `json:"device_profile_group_id"`
	Hostname string `json:"hostname,omitempty"`
	Provider string `json:"device_rp_uuid,omitempty"`
	Instance string `json:"instance_uuid,omitempty"`
	Project  string `json:"project_id,omitempty"`
	Handle   string `json:"attach_handle_uuid,omitempty"`
	// Image is what the image_uuid of the creation stands for: one of bitstream_id,
	// function_id, bitstream_name and function_name with its value.
	Image   map[string]string `json:"image,omitempty"`
	Failure string            `json:"failure,omitempty"`
}

// dumpBind is a PATCH whose binds go on, or of which Nova was not told yet.
type dumpBind struct {
	Silent   bool          `json:"silent,omitempty"` // Nova is not to be told
	Requests []dumpBinding `json:"accelerator_requests"`
}

type dumpBinding struct {
	ARQ      string `json:"uuid"`
	Instance string `json:"instance_uuid"`
	Profile  string `json:"device_profile_name"`
	// State is BindStarted for a bind that goes on, and else how it ended: Bound or
	// BindFailed.
	State State `json:"state"`
	// Program is what is to be written first, in the form of dumpARQ.Image.
	Program map[string]string `json:"program,omitempty"`
}

// dumpAgent is the health of the agent of a host.
type dumpAgent struct {
	Host string `json:"host"`
	// FellBack tells that the host is known by its fallback.
	FellBack bool      `json:"fell_back,omitempty"`
	Down     bool      `json:"down,omitempty"`
	Started  time.Time `json:"started_at"`
	LastBeat time.Time `json:"last_beat_at,omitzero"` // of one that is down
	Returns  time.Time `json:"returns_at,omitzero"`   // of one whose host reboots
}

// dumpReport is what a driver found last. Errors are texts.
type dumpReport struct {
	Host     string           `json:"host"`
	Driver   string           `json:"driver"`
	At       time.Time        `json:"at"`
	Devices  int              `json:"devices"`
	LeftOut  []driver.LeftOut `json:"left_out,omitempty"`
	Problems []dumpProblem    `json:"problems,omitempty"`
	Warnings []driver.Warning `json:"warnings,omitempty"`
	Error    string           `json:"error,omitempty"`
}

type dumpProblem struct {
	Address string `json:"address,omitempty"`
	File    string `json:"file,omitempty"`
	Error   string `json:"error"`
}

// Dump returns everything that the server knows and its configuration does not
// say, as one JSON document with the field schema_version: the tables, the binds
// that go on, the health of the agents, what drivers found, the events, and the
// positions in the sequences of identifiers. The same state gives the same bytes,
// and a server that has loaded a dump gives the same dump.
//
// A dump shows the state as somebody finds it who comes after a crash: nobody is
// at work on a handle, and what an agent was doing for a request that is gone is
// undone, or left for the next report to undo.
func (s *Server) Dump() ([]byte, error) {
	return json.MarshalIndent(s.dump(), "", "  ")
}

func (s *Server) dump() stateDump {
	s.mu.RLock()
	defer s.mu.RUnlock()
	st := s.state
	d := stateDump{
		SchemaVersion: simhttp.DumpSchema, PlacementMode: st.mode, IDs: st.dumpIDs(),
		Profiles: dumpRows(st.profiles, dumpOfProfile), Devices: dumpRows(st.devices, dumpOfDevice),
		Deployables: dumpRows(st.deployables, dumpOfDeployable), Attributes: dumpRows(st.attributes, dumpOfAttribute),
		Handles: dumpRows(st.handles, dumpOfHandle), ARQs: st.dumpARQs(), Binds: st.dumpBinds(),
		Agents: s.dumpAgents(), Reports: s.dumpReports(), Events: append([]sim.Event{}, s.newestEvents()...),
		Placement: s.dumpPlacement(),
	}
	d.IDs.Request = s.service.IDs.Position()
	return d
}

// newestEvents are those that Events tells. It is called under the lock.
func (s *Server) newestEvents() []sim.Event {
	return slices.Clone(s.events[max(0, len(s.events)-maxEvents):])
}
