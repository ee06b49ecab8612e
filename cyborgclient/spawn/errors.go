package spawn

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/ledger"
	"github.com/gocyborg/gocyborg/internal/terminal"
)

// Errors to compare with errors.Is.
var (
	// ErrConfig: the configuration is invalid; the text names the option.
	ErrConfig = errors.New("spawn: bad configuration")
	// ErrRequest: the caller's request is invalid; nothing was sent.
	ErrRequest = errors.New("bad spawn request")
	// ErrMoved: the instance is not on the host that the caller named; nothing was done. See [MovedError].
	ErrMoved = errors.New("the instance has moved")
	// ErrHidden: Cyborg may hide ARQs of the instance from the token, and they would stay bound; nothing was done. A
	// token of the instance's project, or with the role admin, sees them; [Flow.ReleaseDevices] with such a token
	// releases the devices.
	ErrHidden = errors.New("the ARQs of the instance are hidden from the token")
	// ErrProfile: the flavor names a device profile that does not exist or cannot be scheduled, or is a flavor of the
	// Rocky specification, which names no profile; see [RockyFlavors].
	ErrProfile = errors.New("unusable device profile")
	// ErrNoCandidates: no host has room for the request; see [NoCandidatesError].
	ErrNoCandidates = errors.New("no allocation candidates")
	// ErrNoAlternate: there is no further host to try; see Config.MaxAttempts.
	ErrNoAlternate = errors.New("no further host to try")
	// ErrClaim: Placement refused the claim on every host that was tried because other instances were faster; the
	// devices have two owners (also an ErrOwnerConflict); the instance already has an allocation and no devices are
	// added to it; or another agent has claimed for, deleted or moved the instance.
	ErrClaim = errors.New("claim refused")
	// ErrNotBound: at least one ARQ is not Bound with an attach handle; see [NotBoundError].
	ErrNotBound = errors.New("not every accelerator is bound")
	// ErrOwnerConflict: see [OwnerConflictError].
	ErrOwnerConflict = errors.New("device with two owners")
	// ErrLeftover: something could not be undone; see [Error.Leftovers]. For operations also: the guest could not be
	// restored to its old domain.
	ErrLeftover = errors.New("not cleaned up")
	// ErrReconcileScope: a reconciliation was not limited to hosts, or a host is unknown.
	ErrReconcileScope = errors.New("bad scope of a reconciliation")
	// ErrOrder: a step of an [Attempt] was called before the step that it requires.
	ErrOrder = errors.New("step called too early")

	// ErrBusy: another operation on the instance is running. Calls from inside a hook or the hypervisor of that
	// operation return it at once; other calls when their context ends.
	ErrBusy error = ledger.ErrBusy
	// ErrJournal: the store of journals failed, or another agent has taken over the instance. No new request was
	// sent.
	ErrJournal error = ledger.ErrStore

	// ErrBlocked: Nova does not allow the operation; see [BlockedError].
	ErrBlocked = errors.New("operation blocked")
	// ErrNoARQs: Cyborg lists no ARQ of an instance that should have some. The guest is not started, as in Nova.
	ErrNoARQs = errors.New("no accelerator requests")
	// ErrProgram: Cyborg could not load a function; the ARQ stays Bound.
	ErrProgram = errors.New("region not programmed")

	// ErrAbort, wrapped by the error of a hook or the hypervisor, ends the spawn without trying another host (Nova's
	// BuildAbortException).
	ErrAbort = errors.New("build aborted")
	// ErrGone is like ErrAbort, for an instance that was deleted during the build (Nova's InstanceNotFound).
	ErrGone = errors.New("instance was deleted")
	// ErrNoGuest is what a [Hypervisor] returns for an unknown guest.
	ErrNoGuest = errors.New("no such guest")
)

// MovedError is the error of an operation on an instance that is not on the host that the caller named, because an
// evacuation or an unshelve, whose result the caller does not know, has moved it. [Operations.Inspect] returns its
// present host. It matches ErrMoved.
type MovedError struct {
	// Host is where the instance is.
	Host string
	// Why describes what the instance has there.
	Why string
}

// Error names the host.
func (e *MovedError) Error() string {
	return fmt.Sprintf("%v: it is on host %s, where it has %s", ErrMoved, e.Host, e.Why)
}

// Unwrap returns ErrMoved.
func (e *MovedError) Unwrap() error { return ErrMoved }

// Error is the error of a spawn, a release or an operation: the failed step, the cause, and what was cleaned up.
type Error struct {
	Instance string
	// Operation is empty for [Flow.Run] and [Flow.Release].
	Operation Operation
	// Step is the step that failed, or 0 outside the steps.
	Step Step
	Err  error
	// Hosts are the hosts that were tried, each once, in the order of their last try. The failure on the last host is
	// Err, or is joined in Err. Errors.Is and errors.As examine only Err.
	Hosts []TriedHost
	// Undone lists what was released or removed on all hosts that were tried, in order: "guest <instance uuid>",
	// "change of guest <instance uuid>", "arq <uuid>", "bindings of instance <uuid>", "allocation <instance uuid>",
	// "part of allocation <instance uuid>".
	Undone []string
	// Leftovers lists what could not be released or removed. If there are any, the error matches ErrLeftover.
	Leftovers []Leftover
	// Trace is the record of the attempt, unwinding included.
	Trace []StepTrace
}

// TriedHost is a host on which an attempt has failed.
type TriedHost struct {
	// Host is the name of the compute node.
	Host string
	// Step is the step that failed there with Err.
	Step Step
	Err  error
}

// Error describes operation, instance, step, cause, the failures on the hosts that were tried, and the leftovers. The
// text for a host other than the last is limited to 400 bytes, and at most eight hosts are named.
func (e *Error) Error() string {
	text := "spawn: "
	if e.Operation != "" {
		text += string(e.Operation) + " of "
	}
	if uuidPattern.MatchString(e.Instance) || e.Operation != "" {
		text += "instance " + e.Instance + ": "
	}
	if e.Step != 0 {
		text += e.Step.String() + ": "
	}
	cause := withoutSubject(e.Err.Error(), e.Instance)
	text += cause
	if tried := e.triedText(cause); tried != "" {
		text += "; hosts tried: " + tried
	}
	if len(e.Leftovers) > 0 {
		text += "; not cleaned up: " + leftoversText(e.Leftovers, e.Instance)
	}
	return terminal.Line(strings.ReplaceAll(text, "\n", "; "))
}

const (
	maxReason     = 400 // bytes of the text of what failed on a host
	maxTriedNamed = 8
)

// triedText describes the failures on the hosts, except what the cause already contains.
func (e *Error) triedText(cause string) string {
	if len(e.Hosts) < 2 {
		return ""
	}
	var tried []detailed
	for _, h := range e.Hosts {
		reason := h.reason(e.Instance)
		isCause := strings.Contains(cause, reason)
		if isCause && namesHost(cause, h.Host) {
			continue
		}
		if isCause {
			reason = ""
		} else if h.Step != 0 {
			reason = h.Step.String() + ": " + reason
		}
		tried = append(tried, detailed{h.Host, shortened(reason)})
	}
	if more := len(tried) - maxTriedNamed; more > 0 {
		return count(more, "other host") + ", " + detailedText(tried[more:])
	}
	return detailedText(tried)
}

// reason returns the text of the failure, without the host and the instance.
func (h TriedHost) reason(instance string) string {
	if h.Err == nil {
		return ""
	}
	return withoutSubject(strings.TrimPrefix(h.Err.Error(), "host "+h.Host+": "), instance)
}

// namesHost reports whether a text contains the name of a host, not as part of a longer name.
func namesHost(text, host string) bool {
	isPart := func(r rune) bool { return r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) }
	for rest := text; ; {
		before, after, found := strings.Cut(rest, host)
		if !found {
			return false
		}
		last, _ := utf8.DecodeLastRuneInString(before)
		first, _ := utf8.DecodeRuneInString(after)
		if !isPart(last) && !isPart(first) {
			return true
		}
		rest = after
	}
}

// shortened truncates a long text at a character boundary.
func shortened(text string) string {
	if len(text) <= maxReason {
		return text
	}
	return strings.ToValidUTF8(text[:maxReason], "") + "..."
}

// detailed is a name with details, which may be empty.
type detailed struct{ name, details string }

// detailedText lists names with their details in parentheses. Equal details of neighbors are written once.
func detailedText(list []detailed) string {
	var text strings.Builder
	for i, d := range list {
		if i > 0 {
			text.WriteString(", ")
		}
		text.WriteString(d.name)
		if last := i == len(list)-1; d.details != "" && (last || list[i+1].details != d.details) {
			text.WriteString(" (" + d.details + ")")
		}
	}
	return text.String()
}

// withoutSubject removes a subject that the surrounding text already names, such as the UUID in
// "accelerator.arq.delete <uuid>: 403 Forbidden".
func withoutSubject(text, subject string) string {
	if subject == "" {
		return text
	}
	text = strings.ReplaceAll(text, ": instance "+subject+": ", ": ")
	return strings.ReplaceAll(text, " "+subject+": ", ": ")
}

// Unwrap returns the cause and, if there are leftovers, ErrLeftover and the errors of the leftovers.
func (e *Error) Unwrap() []error {
	errs := []error{e.Err}
	if len(e.Leftovers) > 0 {
		errs = append(errs, ErrLeftover)
	}
	for _, leftover := range e.Leftovers {
		if leftover.Err != nil {
			errs = append(errs, leftover.Err)
		}
	}
	return errs
}

// NoCandidatesError describes a request without allocation candidates. It matches ErrNoCandidates.
type NoCandidatesError struct {
	// Query is the query string of GET /allocation_candidates, for example for placementsim's Explain.
	Query string
	// Groups describes the resources and traits of each request group.
	Groups string
	// Excluded says why candidates with room were not tried, each reason once. It is empty if there were no such
	// candidates.
	Excluded []Exclusion
}

// Error describes the groups, and names the first providers for each reason of exclusion.
func (e *NoCandidatesError) Error() string {
	if len(e.Excluded) > 0 {
		return ErrNoCandidates.Error() + ": every candidate with room for " + e.Groups + " is excluded: " + exclusionsText(e.Excluded)
	}
	return ErrNoCandidates.Error() + ": no host has room for " + e.Groups
}

// Unwrap returns ErrNoCandidates.
func (e *NoCandidatesError) Unwrap() error { return ErrNoCandidates }

// NotBoundError lists the ARQs of an instance after a bind that did not succeed. It matches ErrNotBound and what
// ended the wait: externalevent.ErrTimeout, together with cyborgclient.ErrUnavailable if Cyborg did not respond at
// that time; externalevent.ErrFailed if an event announced the failure; externalevent.ErrClosed if the registry was
// closed; or the context's error.
type NotBoundError struct {
	// ARQs are the expected ARQs and other ARQs of the instance. State is empty for an ARQ that Cyborg does not list
	// for the instance, or that could not be read.
	ARQs []cyborgclient.ARQ
	// Problems says, by UUID, why the guest cannot be started with an ARQ.
	Problems map[string]string
	// Err is what ended the wait; nil when the wait itself succeeded.
	Err error
}

// Error describes every ARQ with its state and problem.
func (e *NotBoundError) Error() string {
	states := make([]string, len(e.ARQs))
	for i, arq := range e.ARQs {
		states[i] = "ARQ " + arq.UUID
		if arq.State != "" {
			states[i] += " is " + string(arq.State)
		}
		if problem := e.Problems[arq.UUID]; problem != "" {
			states[i] += " (" + problem + ")"
		}
	}
	text := ErrNotBound.Error() + ": " + strings.Join(states, ", ")
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns ErrNotBound and what ended the wait.
func (e *NotBoundError) Unwrap() []error {
	if e.Err == nil {
		return []error{ErrNotBound}
	}
	return []error{ErrNotBound, e.Err}
}

// OwnerConflictError names a device that both Nova and Cyborg may assign: Nova by its PCI configuration, a domain or
// a resource provider with OWNER_NOVA; Cyborg by a resource provider or an ARQ. It matches ErrOwnerConflict and its
// cause. A device that another instance took first is not an owner conflict.
type OwnerConflictError struct {
	// Address is the PCI address of the device, or the name of its resource provider if no address is known.
	Address string
	// Owners are the present owner of the device and the intended one.
	Owners [2]string
	// Err is the error that revealed the conflict, such as a refused claim or bind, or nil if nothing was sent.
	Err error

	provider string // Cyborg's
}

// Error names the device and both owners.
func (e *OwnerConflictError) Error() string {
	text := fmt.Sprintf("%v: %s belongs to %s and to %s", ErrOwnerConflict, e.Address, e.Owners[0], e.Owners[1])
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns ErrOwnerConflict and the cause.
func (e *OwnerConflictError) Unwrap() []error {
	if e.Err == nil {
		return []error{ErrOwnerConflict}
	}
	return []error{ErrOwnerConflict, e.Err}
}
