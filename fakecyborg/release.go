package fakecyborg

// Release is a release of Cyborg.
type Release string

// The releases; docs/cyborg-behaviour.md has the table of their differences.
const (
	// Release20262 is the default release, with microversions 2.0 to 2.3.
	Release20262 Release = "2026.2"
	// ReleaseMaster is the development after 2026.2: errors are JSON objects within the answer, and
	// a group of a device profile without resources is refused.
	ReleaseMaster Release = "master"
	// ReleaseZed is Cyborg 9: microversions 2.0 to 2.2, no service token, no attributes, no
	// enabling and disabling of devices, and no isolation of projects.
	ReleaseZed Release = "zed"
)

// release is what a release of Cyborg does otherwise than another. Everything asks it, and nothing
// compares names. The tag doc is a field's row of the table in docs/cyborg-behaviour.md.
type release struct {
	MaxMinor       int  `doc:"highest microversion 2.N"`
	ChecksVersion  bool `doc:"a version without the name of the service counts, and an unreadable one is answered 406; else both as 2.0"`
	NamesService   bool `doc:"OpenStack-API-Version of an answer names the service"`
	ServiceToken   bool `doc:"bind, unbind, DELETE by instance and of a bound request need X-Service-Token, which needs the role service"`
	Isolates       bool `doc:"a project sees, binds and deletes its own requests only"`
	ReadsOne       bool `doc:"GET of one request is for every role; else for administrators, 403"`
	GuardsRegions  bool `doc:"programming of a deployable is for administrators; else for every role"`
	OwnsAtOnce     bool `doc:"a request has a project since its creation; else since a PATCH at 2.1 or later, which has to name one"`
	ChecksUUID     bool `doc:"GET of a request by another text than a UUID is answered 400; else 404"`
	DeletesAll     bool `doc:"DELETE of a list with an unknown request deletes none; else the others"`
	HandleUUID     bool `doc:"a request shows attach_handle_uuid"`
	WritesHardware bool `doc:"there are attributes, and devices can be enabled and disabled"`
	ErrorObjects   bool `doc:"error_message is a JSON object; else a text that holds one"`
	NeedsResources bool `doc:"with the quirks, a group of a profile without resources is refused; else stored"`
	StandardTraits bool `doc:"with the quirks, a device with a standard trait such as OWNER_CYBORG is reported; else dropped"`
}

// releases lists the known releases, the default first.
func releases() []Release { return []Release{Release20262, ReleaseMaster, ReleaseZed} }

// traits is what a known release does.
func (r Release) traits() release {
	if r == ReleaseZed {
		return release{MaxMinor: 2}
	}
	master := r == ReleaseMaster
	return release{
		MaxMinor: 3, ChecksVersion: true, NamesService: true, ServiceToken: true, Isolates: true, ReadsOne: true, GuardsRegions: true,
		OwnsAtOnce: true, ChecksUUID: true, DeletesAll: true, HandleUUID: true, WritesHardware: true, StandardTraits: true,
		ErrorObjects: master, NeedsResources: master,
	}
}
