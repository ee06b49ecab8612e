package archtest

// rooms says which files of the package spawn have what comes after a spawn; the others are the flow. They are not two packages,
// because an evacuation and an unshelving are spawns with another claim and another undoing: about a hundred unexported names would
// be exported.
func rooms() Rooms {
	return Rooms{
		Package: "cyborgclient/spawn",
		After: []string{
			"accelerators.go", "look.go", "move.go", "operations.go", "program.go", "reconcile.go", "release.go", "releasedevices.go", "takeover.go",
		},
	}
}
