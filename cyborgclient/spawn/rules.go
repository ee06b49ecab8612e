package spawn

import (
	"fmt"
	"net/http"

	"github.com/gocyborg/gocyborg/requestspec"
)

// Operation is an operation on an instance, by Nova's name.
type Operation string

// The operations.
const (
	OpCreate          Operation = "create"
	OpDelete          Operation = "delete" // also force-delete, and the reclaiming of soft-deleted instances
	OpLocalDelete     Operation = "local delete"
	OpSoftDelete      Operation = "soft delete"
	OpRestore         Operation = "restore"
	OpStop            Operation = "stop"
	OpStart           Operation = "start"
	OpSoftReboot      Operation = "soft reboot"
	OpHardReboot      Operation = "hard reboot"
	OpPause           Operation = "pause"
	OpUnpause         Operation = "unpause"
	OpLock            Operation = "lock"
	OpUnlock          Operation = "unlock"
	OpSnapshot        Operation = "snapshot"
	OpBackup          Operation = "backup"
	OpRescue          Operation = "rescue"
	OpUnrescue        Operation = "unrescue"
	OpRebuild         Operation = "rebuild"
	OpEvacuate        Operation = "evacuate"
	OpShelve          Operation = "shelve"
	OpShelveOffload   Operation = "shelve offload"
	OpUnshelve        Operation = "unshelve"
	OpSuspend         Operation = "suspend"
	OpResize          Operation = "resize"
	OpMigrate         Operation = "cold migrate"
	OpLiveMigrate     Operation = "live migrate"
	OpAttachPort      Operation = "attach interface"
	OpDetachPort      Operation = "detach interface"
	OpHealAllocations Operation = "heal allocations"
	OpHostReboot      Operation = "resume after host reboot"
	OpTakeOver        Operation = "take over of a vGPU"
)

// Nova's texts (nova/exception.py).
const (
	acceleratorsBlocked = "Feature not supported with instances that have accelerators."
	portsBlocked        = "Feature not supported with Ports that have accelerators."
	portsNeedUpgrade    = "Port with cyborg profile is not available until upgrade finished."
)

// BlockedError is the error of an operation that Nova refuses because of the accelerators of the instance. No request
// was sent.
type BlockedError struct {
	Operation Operation
	Instance  string
	// Code is the status of Nova's API, 400, or for heal allocations, a command, its exit status 8.
	Code int
	// Text is Nova's message.
	Text string
}

// Error names operation and instance, and contains Nova's message.
func (e *BlockedError) Error() string {
	return fmt.Sprintf("spawn: %s of instance %s: %v: %s", e.Operation, e.Instance, ErrBlocked, e.Text)
}

// Unwrap returns ErrBlocked.
func (e *BlockedError) Unwrap() error { return ErrBlocked }

// rule says whether Nova allows an operation on instances with a device profile in the flavor, or with ARQs that
// belong to no port (profile), and on instances with an accelerated port (port). The former need a minimum service
// and RPC version of nova-compute.
type rule struct {
	profile, port      bool
	minService, minRPC int
}

// rules follow nova/compute/api.py (block_accelerators, block_port_accelerators) of Nova 2026.1. docs/operations.md
// describes what the operations do with the ARQs.
var rules = map[Operation]rule{
	OpCreate:          {profile: true, port: true},
	OpDelete:          {profile: true, port: true},
	OpLocalDelete:     {profile: true, port: true},
	OpSoftDelete:      {profile: true, port: true},
	OpRestore:         {profile: true, port: true},
	OpStop:            {profile: true, port: true},
	OpStart:           {profile: true, port: true},
	OpSoftReboot:      {profile: true, port: true},
	OpHardReboot:      {profile: true, port: true},
	OpPause:           {profile: true, port: true},
	OpUnpause:         {profile: true, port: true},
	OpLock:            {profile: true, port: true},
	OpUnlock:          {profile: true, port: true},
	OpSnapshot:        {profile: true, port: true},
	OpBackup:          {profile: true, port: true},
	OpRescue:          {profile: true, port: true},
	OpUnrescue:        {profile: true, port: true},
	OpRebuild:         {profile: true, port: true, minService: 53},
	OpEvacuate:        {profile: true, minService: 53},
	OpShelve:          {profile: true, minService: 54, minRPC: 13},
	OpShelveOffload:   {profile: true},
	OpUnshelve:        {profile: true, port: true},
	OpSuspend:         {},
	OpResize:          {},
	OpMigrate:         {},
	OpLiveMigrate:     {},
	OpAttachPort:      {profile: true},
	OpDetachPort:      {profile: true},
	OpHealAllocations: {port: true},
	OpHostReboot:      {profile: true, port: true},
	OpTakeOver:        {profile: true}, // Cyborg refuses to bind a second device
}

// Permit reports whether Nova's rule allows an operation on an instance, without a request to any service. The error
// is a [*BlockedError], or matches ErrRequest for an unknown operation. To attach or detach an interface, pass the
// instance with that port as its only one; for a resize see [PermitResize].
func Permit(op Operation, i Instance) error {
	rule, ok := rules[op]
	if !ok {
		return fmt.Errorf("%w: unknown operation %q", ErrRequest, op)
	}
	profile, port := i.hasDevice(), i.hasPort()
	blocked := &BlockedError{Operation: op, Instance: i.UUID, Code: http.StatusBadRequest}
	switch {
	case op == OpHealAllocations && profile:
		blocked.Code = 8
		blocked.Text = fmt.Sprintf("Healing allocation for instance %s with Cyborg device profile request is not supported.", i.UUID)
	case profile && (!rule.profile || older(i.ServiceVersion, rule.minService) || older(i.RPC, rule.minRPC)):
		blocked.Text = acceleratorsBlocked
	case port && !rule.port:
		blocked.Text = portsBlocked
	case port && op == OpCreate && older(i.ServiceVersion, requestspec.MinComputePort):
		blocked.Text = portsNeedUpgrade
	default:
		return nil
	}
	return blocked
}

// older reports whether a version is less than a minimum. 0 means current.
func older(version, least int) bool { return version > 0 && version < least }

// PermitResize reports whether Nova's rule allows resizing an instance to a flavor: neither may have accelerators.
// The error is a [*BlockedError].
func PermitResize(i Instance, to requestspec.Flavor) error {
	if err := Permit(OpResize, i); err != nil {
		return err
	}
	i.Flavor = to
	return Permit(OpResize, i)
}
