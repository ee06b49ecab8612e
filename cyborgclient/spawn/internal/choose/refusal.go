package choose

// Reason is why a claim was refused.
type Reason uint8

// The reasons, with the candidates that are not tried afterwards.
const (
	Busy    Reason = iota // other clients change the inventories of the host: the host, until the next response
	Short                 // an inventory is too small: candidates that need as much of it, until the next response
	Gone                  // a provider does not exist: all of its candidates
	Owned                 // Nova also has the device of a provider, so nothing was sent: all of its candidates
	Unnamed               // Placement does not name what is missing: the host
)

// Refusal is a refused claim. Provider and Class identify the inventory, if the reason has one.
type Refusal struct {
	Reason          Reason
	Provider, Class string
}
