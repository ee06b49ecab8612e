package choose

// Reason is why a claim was refused.
type Reason uint8

// The reasons, and what else is not tried.
const (
	Busy    Reason = iota // other clients change the inventories of the host: the host, until the next answer
	Short                 // an inventory: candidates that need as much of it, until the next answer
	Gone                  // a provider does not exist: all of its candidates
	Owned                 // Nova has the device of a provider, too, so that nothing was sent: all of its candidates
	Unnamed               // Placement does not name what is missing: the host
)

// Refusal is a refused claim. Provider and Class name what was refused, if the reason names it.
type Refusal struct {
	Reason          Reason
	Provider, Class string
}
