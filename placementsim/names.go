package placementsim

import "regexp"

var (
	customName   = regexp.MustCompile(`^CUSTOM_[A-Z0-9_]+$`)
	dashedUUID   = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)
	consumerType = regexp.MustCompile(`^([A-Z0-9_]+|unknown|all.*)$`)
)

// maxName is the longest name of a trait or resource class.
const maxName = 255
