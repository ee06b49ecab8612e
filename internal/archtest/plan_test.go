package archtest

import "slices"

const (
	gophercloud = "github.com/gophercloud/gophercloud/v2"
	retryable   = "github.com/hashicorp/go-retryablehttp"
	libvirtxml  = "libvirt.org/go/libvirtxml"
	uuid        = "github.com/google/uuid"
	bbolt       = "go.etcd.io/bbolt"
	btree       = "github.com/tidwall/btree"
	kong        = "github.com/alecthomas/kong"
	pretty      = "github.com/jedib0t/go-pretty/v6"
	yaml        = "go.yaml.in/yaml/v3"
	xsys        = "golang.org/x/sys/unix"
	xtext       = "golang.org/x/text"
)

// Plan returns the rules of this module: the import table of its design.
func Plan() Rules {
	return Rules{
		Module:   "github.com/gocyborg/gocyborg",
		Packages: slices.Concat(novaHalf(), serverHalf(), programs()),
		MaxLines: 120,
		Rows:     []string{"fakecyborg/...", "placementsim", "internal/keystone", "internal/nova", "internal/glance"},
		Halves: [][]string{
			{"requestspec", "matching", "domainxml", "cyborgclient/..."},
			{"sim", "fault", "driver/...", "placementsim", "fakecyborg", "simcloud/..."},
		},
		Nouns:      []string{"ARQ", "AttachHandle", "Attribute", "Binding", "Deployable", "Device", "DeviceProfile", "PCIAddress"},
		Exceptions: exceptions(),
		BadNames:   []string{"util", "utils", "common", "helper", "helpers", "misc", "shared", "types"},
	}
}

// inputOutput is what a pure package does without: it reads and writes nothing
// and holds no clock.
func inputOutput() []string {
	return []string{"os", "os/exec", "io/fs", "net", "net/http", "time", "math/rand", "math/rand/v2"}
}

// novaHalf is the library that plays Nova.
func novaHalf() []Package {
	return []Package{
		{Pattern: "requestspec", Ours: []string{"internal/spelling", "internal/terminal"}, Never: inputOutput()},
		{Pattern: "matching", Ours: []string{"requestspec"}, Never: inputOutput()},
		{Pattern: "domainxml", Others: []string{libvirtxml}, Never: inputOutput()},
		{Pattern: "cyborgclient", Ours: []string{"internal/httpbounds", "internal/session", "internal/terminal"}, Others: []string{gophercloud}},
		{Pattern: "cyborgclient/externalevent", Ours: []string{"internal/session"}, Others: []string{gophercloud}},
		{
			Pattern: "cyborgclient/spawn",
			Ours:    []string{"cyborgclient", "cyborgclient/externalevent", "requestspec", "matching", "domainxml", "cyborgclient/spawn/internal/*", "cyborgclient/spawn/journal", "internal/devicespec", "internal/osloconf", "internal/session", "internal/terminal"},
			Others:  []string{gophercloud, libvirtxml},
		},
		{Pattern: "cyborgclient/spawn/internal/holding", Ours: []string{"cyborgclient", "cyborgclient/spawn/internal/placement"}, Never: inputOutput()},
		{Pattern: "cyborgclient/spawn/internal/choose", Never: inputOutput()},
		{Pattern: "cyborgclient/spawn/internal/ledger", Ours: []string{"cyborgclient", "cyborgclient/spawn/internal/placement", "cyborgclient/spawn/journal"}},
		{Pattern: "cyborgclient/spawn/journal", Ours: []string{"internal/boltfile"}, Others: []string{bbolt}},
		{Pattern: "cyborgclient/spawn/journal/journaltest", Ours: []string{"cyborgclient/spawn/journal"}},
		{Pattern: "cyborgclient/spawn/internal/placement", Ours: []string{"requestspec", "internal/httpbounds", "internal/jsonread", "internal/session", "internal/terminal"}, Others: []string{gophercloud}},
		{Pattern: "internal/session", Ours: []string{"internal/httpbounds", "internal/uuids"}, Others: []string{gophercloud, retryable}},
	}
}

// serverHalf is the simulated cloud. It shares no code with the library, so that one
// misunderstanding cannot hide on both sides.
func serverHalf() []Package {
	return slices.Concat(foundations(), drivers(), placement(), cyborg(), wholeCloud())
}

// foundations are what the services share, and the small ones among them.
func foundations() []Package {
	return []Package{
		{Pattern: "sim", Ours: []string{"internal/strictjson"}},
		{Pattern: "fault", Ours: []string{"internal/spelling", "internal/strictjson", "sim"}},
		{Pattern: "internal/boltfile"}, // also the library's
		{Pattern: "internal/collation", Ours: []string{"sim"}, Others: []string{xtext}, Never: inputOutput()},
		{Pattern: "internal/devicespec", Never: inputOutput()}, // Nova's option; also the library's
		{Pattern: "internal/osloconf", Never: inputOutput()},
		{Pattern: "internal/httpbounds"}, // also the library's
		{Pattern: "internal/ordered"},
		{Pattern: "internal/plural"},
		{Pattern: "internal/scale"},                          // for benchmarks only
		{Pattern: "internal/spelling", Never: inputOutput()}, // also the library's
		{Pattern: "internal/strictjson"},
		{Pattern: "internal/testrun"},      // for tests only
		{Pattern: "internal/differential"}, // for tests only
		{Pattern: "internal/jsonread"},     // also the library's
		{Pattern: "internal/terminal"},     // also the library's
		{Pattern: "internal/uuids"},
		{Pattern: "internal/pythonjson"},
		{Pattern: "internal/webob"},
		{Pattern: "internal/schema"},
		{Pattern: "internal/tables", Ours: []string{"internal/boltfile", "internal/ordered", "sim"}, Others: []string{btree, bbolt}},
		{Pattern: "internal/simhttp", Ours: []string{"fault", "sim", "internal/httpbounds", "internal/tables", "internal/uuids"}},
		{Pattern: "internal/keystone", Ours: []string{"fault", "internal/collation", "internal/schema", "internal/simhttp", "internal/tables", "sim"}, Others: []string{uuid}},
		{Pattern: "internal/nova", Ours: []string{"fault", "internal/httpbounds", "internal/schema", "internal/simhttp", "internal/tables", "internal/uuids", "sim"}},
		{Pattern: "internal/glance", Ours: []string{"fault", "internal/simhttp", "internal/tables", "internal/uuids", "sim"}},
		{Pattern: "internal/statuspage", Ours: []string{"internal/plural", "internal/terminal", "sim", "fault", "fakecyborg", "placementsim", "requestspec"}},
	}
}

// drivers are the hardware drivers.
func drivers() []Package {
	return []Package{
		{Pattern: "driver", Ours: []string{"driver/internal/file", "driver/internal/panicsite", "driver/internal/parallel", "internal/pythonjson", "internal/strictjson"}, Others: []string{uuid}},
		{Pattern: "driver/internal/file"},
		{Pattern: "driver/internal/panicsite"},
		{Pattern: "driver/internal/parallel"},
		{Pattern: "driver/internal/program", Ours: []string{"driver"}},
		{Pattern: "driver/internal/pciid", Ours: []string{"driver"}},
		{Pattern: "driver/sysfs", Ours: []string{"driver", "driver/internal/*", "internal/strictjson"}, Others: []string{xsys}},
		{Pattern: "driver/builtin", Ours: []string{"driver", "driver/*", "driver/internal/*", "internal/strictjson"}},
		{Pattern: "driver/cyborgconf", Ours: []string{"driver/*", "internal/osloconf"}},
		{Pattern: "driver/drivertest", Ours: []string{"driver", "driver/sysfs"}},
		{Pattern: "driver/command", Ours: []string{"driver", "driver/internal/*", "internal/strictjson", "internal/uuids"}},
		{Pattern: "driver/pci", Ours: []string{"driver", "driver/internal/*", "internal/devicespec", "internal/strictjson"}},
		{Pattern: "driver/*", Ours: []string{"driver", "driver/internal/*", "internal/strictjson"}},
	}
}

func placement() []Package {
	return []Package{
		{Pattern: "placementsim/internal/engine", Ours: []string{"internal/collation", "sim"}, Never: []string{"net/http", "encoding/json"}},
		{
			Pattern: "placementsim",
			Ours:    []string{"placementsim/internal/engine", "fault", "sim", "internal/collation", "internal/schema", "internal/simhttp", "internal/tables", "internal/uuids", "internal/webob"},
			Others:  []string{gophercloud, uuid}, // for Server.Provider
		},
	}
}

func cyborg() []Package {
	return []Package{
		{
			Pattern: "fakecyborg/internal/store",
			Ours:    []string{"driver", "internal/collation", "internal/schema", "internal/tables", "internal/uuids", "sim"},
			Others:  []string{uuid},
			Never:   []string{"net/http", "context", "os"},
		},
		{Pattern: "fakecyborg/internal/layout", Ours: []string{"fakecyborg/internal/store", "driver", "sim", "internal/jsonread", "internal/simhttp"}},
		{
			Pattern: "fakecyborg/internal/agent",
			Ours:    []string{"fakecyborg/internal/store", "fakecyborg/internal/layout", "driver", "fault", "sim", "internal/ordered", "internal/simhttp"},
		},
		{
			Pattern: "fakecyborg",
			Ours: []string{
				"fakecyborg/internal/*", "driver", "driver/sysfs", "fault", "sim", "internal/collation", "internal/pythonjson", "internal/schema", "internal/simhttp", "internal/strictjson", "internal/tables", "internal/uuids", "internal/webob",
			},
			Others: []string{uuid},
		},
	}
}

func wholeCloud() []Package {
	return []Package{
		{
			Pattern: "simcloud",
			Ours:    []string{"fakecyborg", "driver/...", "placementsim", "requestspec", "fault", "sim", "internal/*", "simcloud/internal/*"},
			Others:  []string{gophercloud, bbolt, uuid},
		},
		{Pattern: "simcloud/internal/bus", Ours: []string{"driver", "driver/sysfs"}, Others: []string{uuid}},
		{Pattern: "simcloud/internal/leaks", Ours: []string{"driver", "fakecyborg", "placementsim", "sim", "internal/nova", "internal/plural", "internal/uuids", "simcloud/internal/client"}, Never: inputOutput()},
		{Pattern: "simcloud/internal/client", Ours: []string{"placementsim", "internal/simhttp", "internal/uuids"}},
		{
			Pattern: "simcloud/transfer",
			Ours:    []string{"fakecyborg", "driver", "driver/verbatim", "placementsim", "sim", "simcloud", "internal/tables", "internal/uuids"},
			Others:  []string{uuid},
		},
		{Pattern: "simcloud/drill", Ours: []string{"simcloud", "fakecyborg", "fault", "internal/plural", "sim"}},
		{Pattern: "simcloud/guests", Ours: []string{"cyborgclient", "cyborgclient/spawn", "domainxml", "driver", "sim", "simcloud"}},
	}
}

// programs are the commands and the examples.
func programs() []Package {
	return []Package{
		{Pattern: "internal/skips"},
		{Pattern: "internal/ociimage"}, // the image of a release
		{
			Pattern: "cmd/cysim/...",
			Ours: []string{
				"cmd/cysim/internal/*",
				"requestspec", "matching", "domainxml", "cyborgclient/...", "fault", "sim", "placementsim",
				"fakecyborg", "simcloud/...", "driver/...", "internal/*",
			},
			Others: []string{gophercloud, kong, pretty, uuid, yaml},
		},
		{
			Pattern: "examples/...",
			Ours: []string{
				"requestspec", "matching", "domainxml", "cyborgclient/...", "fault", "sim", "placementsim",
				"fakecyborg", "simcloud/...", "driver/...", "examples/...",
			},
			Others: []string{gophercloud, libvirtxml, kong, pretty, yaml, uuid},
		},
	}
}
