package fakecyborg

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/fakecyborg/internal/agent"
	"github.com/gocyborg/gocyborg/fakecyborg/internal/layout"
	"github.com/gocyborg/gocyborg/internal/simhttp"
)

// Release is a release of Cyborg: a series such as "2025.1", which means its newest point release, or a point
// release such as "14.0.0". [Releases] lists them.
type Release string

// The releases with their own name; docs/dev/cyborg-api.md has the table of what all releases do.
const (
	// Release20262 is the default release, 17.0.0, with microversions 2.0 to 2.3.
	Release20262 Release = "2026.2"
	// ReleaseMaster is the development of 2027.1: errors are JSON objects within the answer, a group of a
	// device profile without resources is refused, and the new defaults of the policies apply.
	ReleaseMaster Release = "master"
	// ReleaseZed is Cyborg 9: microversions 2.0 to 2.2, no service token, no attributes, no enabling and
	// disabling of devices, and no isolation of projects.
	ReleaseZed Release = "zed"
)

// The columns of the table: releases whose API behaves in the same way.
const (
	colA = iota // 9.0
	colB        // 10.0
	colC        // 10.1
	colD        // 11.0
	colE        // 12.0
	colF        // 13.0, 14.0, 15.0 and 16.0.0
	colG        // 14.1, 15.0.1 and 16.0.1, which have the mends of CVE-2026-40213 and CVE-2026-40214
	colH        // 17.0
	colI        // the development of 2027.1
)

// The columns of what agents and drivers do, by the number of the series: their changes were not backported.
const (
	series9 = iota
	series10
	series11
	series12
	series13
	series14
	series15
	series16
	series17
	series18
)

// pointRelease is a point release with its columns. The other name of the newest of a series is the series.
type pointRelease struct {
	version, series string
	column, agent   int
}

// pointReleases lists the known point releases, oldest first.
func pointReleases() []pointRelease {
	return []pointRelease{
		{"9.0.0", "zed", colA, series9},
		{"10.0.0", "2023.1", colB, series10},
		{"10.1.0", "2023.1", colC, series10},
		{"11.0.0", "2023.2", colD, series11},
		{"12.0.0", "2024.1", colE, series12},
		{"13.0.0", "2024.2", colF, series13},
		{"14.0.0", "2025.1", colF, series14},
		{"14.1.0", "2025.1", colG, series14},
		{"15.0.0", "2025.2", colF, series15},
		{"15.0.1", "2025.2", colG, series15},
		{"16.0.0", "2026.1", colF, series16},
		{"16.0.1", "2026.1", colG, series16},
		{"17.0.0", "2026.2", colH, series17},
		{"2027.1", "master", colI, series18},
	}
}

// row is a row of a table, with the values of some columns. A column without a value repeats the column before.
type row[T comparable] [series18 + 1]T

// at is the value of a column.
func (r row[T]) at(column int) (value T) {
	for ; column >= 0 && value == *new(T); column-- {
		value = r[column]
	}
	return value
}

// The values of rows.
type (
	answer     string // whether there is something
	headerForm string // of OpenStack-API-Version
	outcome    string
	party      string // who does something
)

const (
	no  answer = "no"
	yes answer = "yes"

	prefixed   headerForm = "`accelerator 2.N`"
	bare       headerForm = "`2.N`"
	eitherForm headerForm = "both"

	noRoute         outcome = "-"
	deleteFails     outcome = "500"
	deleteWorks     outcome = "204"
	knownDeleted    outcome = "the known ones are deleted, 404"
	noneDeleted     outcome = "none is deleted, 404"
	scopeAccepted   outcome = "accepted"
	scopeOfProfiles outcome = "403 on device profiles"
	scopeRefused    outcome = "403"
	groupStored     outcome = "201"
	groupRefused    outcome = "400"
	errorText       outcome = "string"
	errorObject     outcome = "object"
	neverApply      outcome = "-"
	offByDefault    outcome = "off"
	onByDefault     outcome = "on"

	byPatch    party = "null until a PATCH names a project"
	byToken    party = "the caller's; after a PATCH its caller's, or the project that an administrator names"
	mandatory  party = "mandatory, any token"
	adminsOnly party = "optional, administrators"
	conductor  party = "conductor"
	apiProcess party = "API process"
)

// release is one column of the table. The tag row is the number of a row, doc its topic. The policies are
// in the list of routes. Everything asks a release by these names, and nothing compares releases.
type release struct {
	MaxMinor        int                   `row:"1" doc:"maximum microversion 2.N"`
	RequestHeader   headerForm            `row:"2" doc:"form of the request's OpenStack-API-Version that counts; before 17.0.0 the other form is 2.0"`
	AnswerHeader    headerForm            `row:"3" doc:"form of the answer's OpenStack-API-Version"`
	Attributes      answer                `row:"4" doc:"/v2/attributes"`
	AttributeDelete outcome               `row:"5" doc:"DELETE of an attribute"`
	DeviceStatus    answer                `row:"6" doc:"devices can be enabled and disabled, and show their status from 2.3"`
	HandleUUID      answer                `row:"7" doc:"requests show attach_handle_uuid; drivers divide GPUs into vGPUs"`
	ChecksUUIDs     answer                `row:"8" doc:"identifiers of requests and instances are checked to be UUIDs, else 400"`
	ServiceToken    answer                `row:"9" doc:"bind, unbind, DELETE by instance and of a bound request need X-Service-Token, which needs the role service"`
	ARQProject      party                 `row:"10" doc:"project_id of a request"`
	PatchProject    party                 `row:"11" doc:"/project_id in a PATCH at 2.1 and later"`
	Isolates        answer                `row:"12" doc:"a project sees, binds and deletes its own requests only"`
	UnknownARQ      outcome               `row:"14" doc:"DELETE ?arqs= with an unknown request"`
	DeleteRunsIn    party                 `row:"15" doc:"process that deletes requests (no answer shows it)"`
	SystemScope     outcome               `row:"21" doc:"token of the system or of a domain"`
	Administrator   answer                `row:"22" doc:"the role administrator is an administrator's"`
	ErrorMessage    outcome               `row:"23" doc:"error_message"`
	NoResources     outcome               `row:"24" doc:"POST of a device profile with a group without resources next to others"`
	StandardTraits  layout.StandardTraits `row:"25" doc:"report of a device with a standard trait such as OWNER_CYBORG"`
	ProxyHeaders    answer                `row:"26" doc:"links follow X-Forwarded-Proto and X-Forwarded-Host with EnableProxyHeadersParsing"`

	RootName     agent.RootName   `doc:"name by which an agent finds the provider of its host"`
	GetErrors    layout.GetErrors `doc:"status 500 and above of Placement to a GET"`
	NVIDIATraits nvidiaTraits     `doc:"traits of NVIDIA GPUs"`
	PCIDriver    pciDriver        `doc:"pci_driver"`
	NewDefaults  outcome          `doc:"new defaults of the policies, unless EnforceNewDefaults chooses"`
	policies     int              // the column of the policies of the routes
}

// release is the release with the new defaults of policies, or without them; nil means what the release does.
func (p pointRelease) release(newDefaults *bool) release {
	column := p.column
	r := release{
		MaxMinor:        row[int]{colA: 2, colD: 3}.at(column),
		RequestHeader:   row[headerForm]{colA: prefixed, colC: bare, colD: prefixed, colE: bare, colH: eitherForm}.at(column),
		AnswerHeader:    row[headerForm]{colA: bare, colH: prefixed}.at(column),
		Attributes:      row[answer]{colA: no, colB: yes}.at(column),
		AttributeDelete: row[outcome]{colA: noRoute, colB: deleteFails, colE: deleteWorks}.at(column),
		DeviceStatus:    row[answer]{colA: no, colD: yes}.at(column),
		HandleUUID:      row[answer]{colA: no, colC: yes}.at(column),
		ChecksUUIDs:     row[answer]{colA: no, colB: yes}.at(column),
		ServiceToken:    row[answer]{colA: no, colG: yes}.at(column),
		ARQProject:      row[party]{colA: byPatch, colG: byToken}.at(column),
		PatchProject:    row[party]{colA: mandatory, colG: adminsOnly}.at(column),
		Isolates:        row[answer]{colA: no, colG: yes}.at(column),
		UnknownARQ:      row[outcome]{colA: knownDeleted, colG: noneDeleted}.at(column),
		DeleteRunsIn:    row[party]{colA: conductor, colG: apiProcess}.at(column),
		SystemScope:     row[outcome]{colA: scopeAccepted, colF: scopeOfProfiles, colG: scopeRefused}.at(column),
		Administrator:   row[answer]{colA: yes, colH: no}.at(column),
		ErrorMessage:    row[outcome]{colA: errorText, colI: errorObject}.at(column),
		NoResources:     row[outcome]{colA: groupStored, colI: groupRefused}.at(column),
		StandardTraits:  row[layout.StandardTraits]{colA: layout.StandardTraitsCreated, colD: layout.StandardTraitsRead}.at(column),
		ProxyHeaders:    row[answer]{colA: no, colH: yes}.at(column),

		RootName:     row[agent.RootName]{series9: agent.RootByHost, series16: agent.RootByName}.at(p.agent),
		GetErrors:    row[layout.GetErrors]{series9: layout.GetErrorsRaised, series11: layout.GetErrorsUnnoticed}.at(p.agent),
		NVIDIATraits: row[nvidiaTraits]{colA: nvidiaProduct, colC: nvidiaOwner}.at(column),
		PCIDriver:    row[pciDriver]{series9: pciMissing, series14: pciBroken, series16: pciUnowned, series17: pciOwned}.at(p.agent),
		NewDefaults:  row[outcome]{colA: neverApply, colH: offByDefault, colI: onByDefault}.at(column),
	}
	if r.NewDefaults != neverApply && newDefaults != nil {
		column = colH
		if *newDefaults {
			column = colI
		}
	}
	r.policies = column
	return r
}

// mended returns the release without the defects that Config.UpstreamQuirks restores.
func (r release) mended() release {
	r.RootName, r.GetErrors = agent.RootByName, layout.GetErrorsRaised
	if r.PCIDriver == pciBroken {
		r.PCIDriver = pciUnowned
	}
	return r
}

// role is the role that a policy rule requires.
type role string

const (
	anyRole             role = "every token"
	admin               role = "admin"
	adminOrSystemReader role = "admin, or reader of the system"
	readerOrAdmin       role = "reader or admin"
	memberOrAdmin       role = "member or admin"
	managerOrAdmin      role = "manager or admin"
	memberOrService     role = "member or service"
)

// admits reports whether the caller has the role. The roles that others imply are in the token.
func (r role) admits(id simhttp.Identity, isAdmin bool) bool {
	switch r {
	case anyRole:
		return true
	case adminOrSystemReader:
		return isAdmin || id.SystemScope && id.HasRole("reader")
	case readerOrAdmin:
		return isAdmin || id.HasRole("reader")
	case memberOrAdmin:
		return isAdmin || id.HasRole("member")
	case managerOrAdmin:
		return isAdmin || id.HasRole("manager")
	case memberOrService:
		return id.HasRole("member", "service")
	}
	return isAdmin
}

// Releases lists the known releases, oldest first: each point release, the newest of a series by the name of the series.
func Releases() (list []Release) {
	points := pointReleases()
	for i, p := range points {
		name := p.version
		if i+1 == len(points) || points[i+1].series != p.series {
			name = p.series
		}
		list = append(list, Release(name))
	}
	return list
}

// Names lists the names of the same point release: its version, and its series if it is the
// newest of it. An unknown release has no names.
func (r Release) Names() []string {
	p, known := r.point()
	switch {
	case !known:
		return nil
	case string(r.canonical()) == p.series:
		return []string{p.series, p.version}
	}
	return []string{p.version}
}

// point finds the point release that a name means.
func (r Release) point() (p pointRelease, known bool) {
	for _, p := range slices.Backward(pointReleases()) {
		if r := string(r); r == p.version || r == p.series {
			return p, true
		}
	}
	return p, false
}

// release is what a known release does, see pointRelease.release.
func (r Release) release(newDefaults *bool) release {
	p, _ := r.point()
	return p.release(newDefaults)
}

// canonical is the name of a release in the list of [Releases].
func (r Release) canonical() Release {
	p, known := r.point()
	if !known {
		return r
	}
	return Releases()[slices.IndexFunc(pointReleases(), func(other pointRelease) bool { return other == p })]
}

// check returns an error for an unknown release. The error suggests the name with the same prefix.
func (r Release) check() error {
	if _, known := r.point(); known || r == "" {
		return nil
	}
	var names []string
	for _, known := range Releases() {
		names = append(names, known.Names()...)
	}
	nearest := slices.MaxFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(r.commonPrefix(a), r.commonPrefix(b)), cmp.Compare(len(b), len(a)), cmp.Compare(a, b))
	})
	hint := ""
	if r.commonPrefix(nearest) > 0 {
		hint = fmt.Sprintf(", did you mean %s?", nearest)
	}
	return fmt.Errorf("%w: release %q%s (known: %s)", ErrConfig, r, hint, strings.Join(names, ", "))
}

// commonPrefix is with how many letters of a name the release begins.
func (r Release) commonPrefix(name string) (n int) {
	for n < min(len(r), len(name)) && strings.EqualFold(string(r[n]), name[n:n+1]) {
		n++
	}
	return n
}
