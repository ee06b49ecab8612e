package spawn

import "github.com/gocyborg/gocyborg/cyborgclient/externalevent"

// expected are the ARQs as the registry expects them. Those of a handover have no
// profile, and an event for any profile will do for them.
func (a *Attempt) expected() []externalevent.Expected {
	arqs := make([]externalevent.Expected, len(a.ARQs))
	for i, arq := range a.ARQs {
		arqs[i] = externalevent.Expected{ARQ: arq.UUID, DeviceProfile: arq.DeviceProfileName}
	}
	return arqs
}
