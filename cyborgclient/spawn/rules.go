package spawn

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/gocyborg/gocyborg/requestspec"
)

// Operation is something that is done with an instance, by Nova's name.
type Operation string

// The operations.
const (
	OpCreate          Operation = "create"
	OpDelete          Operation = "delete" // also force-delete, and reclaiming of what was soft-deleted
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

// ErrBlocked is matched by every [*BlockedError].
var ErrBlocked = errors.New("operation blocked")

// BlockedError is an operation that Nova refuses because of the accelerators of
// the instance. Nothing was asked and nothing changed.
type BlockedError struct {
	Operation Operation
	Instance  string
	// Code is the status of Nova's API, 400; of heal allocations, which is a
	// command, its exit status 8.
	Code int
	// Text is Nova's message.
	Text string
}

// Error names operation and instance, and has Nova's message.
func (e *BlockedError) Error() string {
	return fmt.Sprintf("spawn: %s of instance %s: %v: %s", e.Operation, e.Instance, ErrBlocked, e.Text)
}

// Unwrap gives ErrBlocked.
func (e *BlockedError) Unwrap() error { return ErrBlocked }

// Rule is what Nova does about an operation on an instance with accelerators,
// and what this package does where it differs.
type Rule struct {
	Operation Operation
	// Profile and Port tell whether the operation is open to instances with a
	// device profile in the flavor and with an accelerated port.
	Profile, Port bool
	// MinService and MinRPC are the versions of nova-compute from which it is open
	// to those with a device profile; zero: any.
	MinService, MinRPC int
	// Effect is what becomes of the ARQs in Nova.
	Effect string
	// Ours is what this package does otherwise; empty: the same.
	Ours string
}

// Rules is the table of all operations, in the order of Nova's documentation. It
// is a copy.
func Rules() []Rule {
	rules := make([]Rule, len(ruleTable))
	copy(rules, ruleTable[:])
	return rules
}

// ruleTable follows nova/compute/api.py (block_accelerators,
// block_port_accelerators) and nova/compute/manager.py of Nova 2026.1.
var ruleTable = [...]Rule{
	{OpCreate, true, true, 0, 0, "created, bound, waited for", "every ARQ must be Bound with a handle"},
	{OpDelete, true, true, 0, 0, "deleted after the guest: by instance, those of ports by UUID; failures are logged", "failures are reported, with what is left"},
	{OpLocalDelete, true, true, 0, 0, "as delete, by the API service", "as delete"},
	{OpSoftDelete, true, true, 0, 0, "kept", ""},
	{OpRestore, true, true, 0, 0, "kept; see start", "see start"},
	{OpStop, true, true, 0, 0, "kept", ""},
	{OpStart, true, true, 0, 0, "kept; listed for the new domain, none is an error", "waited for and verified; those of ports stay interfaces"},
	{OpSoftReboot, true, true, 0, 0, "kept; listed first; the domain stays; falls back to hard", "waited for and verified first"},
	{OpHardReboot, true, true, 0, 0, "kept; the domain is made anew from all ARQs, those of ports twice", "waited for and verified; those of ports stay interfaces"},
	{OpPause, true, true, 0, 0, "none", ""},
	{OpUnpause, true, true, 0, 0, "none", ""},
	{OpLock, true, true, 0, 0, "none", ""},
	{OpUnlock, true, true, 0, 0, "none", ""},
	{OpSnapshot, true, true, 0, 0, "none", ""},
	{OpBackup, true, true, 0, 0, "none", ""},
	{OpRescue, true, true, 0, 0, "kept; the rescue domain is without their devices", ""},
	{OpUnrescue, true, true, 0, 0, "kept; the saved domain is restored", "waited for, verified, and completed where devices are missing"},
	{OpRebuild, true, true, 53, 0, "kept and used again, without waiting; none is an error", "waited for and verified"},
	{OpEvacuate, true, false, 53, 0, "deleted first, then created and bound for the new host", "the new host is claimed before the old ARQs go"},
	{OpShelve, true, false, 54, 13, "kept", ""},
	{OpShelveOffload, true, false, 0, 0, "deleted by instance after the guest; a failure ends the offload", "a failure is reported, the rest goes on"},
	{OpUnshelve, true, true, 0, 0, "offloaded: created and bound anew; left bound after a failure", "deleted after a failure, so that the next unshelve works"},
	{OpSuspend, false, false, 0, 0, "", ""},
	{OpResize, false, false, 0, 0, "", ""},
	{OpMigrate, false, false, 0, 0, "", ""},
	{OpLiveMigrate, false, false, 0, 0, "", ""},
	{OpAttachPort, true, false, 0, 0, "none", ""},
	{OpDetachPort, true, false, 0, 0, "none", ""},
	{OpHealAllocations, false, true, 0, 0, "", ""},
	{OpHostReboot, true, true, 0, 0, "not asked for: the domain is made anew without their devices", "waited for and verified; the domain has their devices"},
	{OpTakeOver, true, true, 0, 0, "none: the specification's way, a resize, is blocked", "created and bound beside Nova's vGPU, which is replaced"},
}

// Permit tells whether Nova's rule allows an operation on an instance, without a
// request to any service. The error is a [*BlockedError]. To attach or detach an
// interface, pass the instance with that port as its only one; for a resize see
// [PermitResize]. The error of an operation that is not in [Rules] matches
// ErrRequest.
func Permit(op Operation, i Instance) error {
	for _, rule := range ruleTable {
		if rule.Operation == op {
			return rule.permit(i)
		}
	}
	return fmt.Errorf("%w: unknown operation %q", ErrRequest, op)
}

func (r Rule) permit(i Instance) error {
	d, p := i.hasProfile(), i.hasPort()
	blocked := func(text string) error {
		return &BlockedError{Operation: r.Operation, Instance: i.UUID, Code: http.StatusBadRequest, Text: text}
	}
	switch {
	case r.Operation == OpHealAllocations && d:
		return &BlockedError{Operation: r.Operation, Instance: i.UUID, Code: 8, Text: fmt.Sprintf(
			"Healing allocation for instance %s with Cyborg device profile request is not supported.", i.UUID)}
	case d && (!r.Profile || older(i.ServiceVersion, r.MinService) || older(i.RPC, r.MinRPC)):
		return blocked(acceleratorsBlocked)
	case p && !r.Port:
		return blocked(portsBlocked)
	case p && r.Operation == OpCreate && older(i.ServiceVersion, requestspec.MinComputePort):
		return blocked(portsNeedUpgrade)
	}
	return nil
}

// older compares a known version; zero is current.
func older(version, least int) bool { return version > 0 && version < least }

// PermitResize tells whether an instance may be resized to a flavor: by Nova's rule
// neither when it has accelerators nor when it would get some. The error is a
// [*BlockedError].
func PermitResize(i Instance, to requestspec.Flavor) error {
	if err := Permit(OpResize, i); err != nil {
		return err
	}
	i.Flavor = to
	return Permit(OpResize, i)
}
