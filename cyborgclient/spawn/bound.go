package spawn

import (
	"slices"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/holding"
)

// inOrder returns the expected ARQs in order, with an ARQ without a state for each that was not found, and the other
// ARQs that were found.
func inOrder(found []cyborgclient.ARQ, expected []string) (ordered, others []cyborgclient.ARQ) {
	ordered = make([]cyborgclient.ARQ, len(expected))
	for i, uuid := range expected {
		ordered[i].UUID = uuid
	}
	for _, arq := range found {
		if i := slices.Index(expected, arq.UUID); i >= 0 {
			ordered[i] = arq
		} else {
			others = append(others, arq)
		}
	}
	return ordered, others
}

// problemOf returns why a guest cannot be started with an ARQ, or "" if it can. An empty host or provider matches
// any.
func problemOf(arq cyborgclient.ARQ, host, provider string) string {
	switch {
	case arq.State == "":
		return "not among the ARQs of the instance"
	case arq.State == cyborgclient.StateBindFailed && arq.Hostname != "":
		return "not Bound: the log of Cyborg's agent on host " + arq.Hostname + " has the cause"
	case arq.State != cyborgclient.StateBound:
		return "not Bound"
	case arq.AttachHandleType == "" || len(arq.AttachHandleInfo) == 0:
		return "no attach handle"
	case host != "" && !holding.SameHost(arq.Hostname, host):
		return "bound to host " + arq.Hostname + ", not " + host
	case provider != "" && arq.DeviceRPUUID != provider:
		return "bound to provider " + arq.DeviceRPUUID
	}
	return ""
}

// problemsOf returns, by ARQ, why a guest cannot be started with the expected ARQs. Any other ARQ is a problem, too.
func problemsOf(expected, others []cyborgclient.ARQ, host string, providers map[string]string) map[string]string {
	problems := map[string]string{}
	for _, arq := range expected {
		if problem := problemOf(arq, host, providers[arq.UUID]); problem != "" {
			problems[arq.UUID] = problem
		}
	}
	for _, arq := range others {
		problems[arq.UUID] = "not among those that the instance was given"
		if arq.Hostname != "" && host != "" && !holding.SameHost(arq.Hostname, host) {
			problems[arq.UUID] += ", on host " + arq.Hostname
		}
	}
	return problems
}

// providers returns the resource providers by ARQ.
func (a *Attempt) providers() map[string]string {
	providers := make(map[string]string, len(a.Bindings))
	for _, binding := range a.Bindings {
		providers[binding.ARQ] = binding.DeviceRP
	}
	return providers
}

// boundProviders returns the resource providers of the bindings, each once.
func (a *Attempt) boundProviders() []string {
	var providers []string
	for _, binding := range a.Bindings {
		if !slices.Contains(providers, binding.DeviceRP) {
			providers = append(providers, binding.DeviceRP)
		}
	}
	return providers
}

// checkBound returns a [*NotBoundError] unless every ARQ is Bound with a handle.
func (a *Attempt) checkBound() error {
	if problems := problemsOf(a.ARQs, nil, a.Host, a.providers()); len(problems) > 0 {
		return &NotBoundError{ARQs: a.ARQs, Problems: problems}
	}
	return nil
}

// onHost drops unexpected ARQs on other hosts, such as ARQs of an evacuated instance that Cyborg could not delete. An
// ARQ newer than the ARQs on the host is kept, because the instance was moved there. If no ARQ would remain, all are
// kept, so that the error names their host.
func onHost(arqs []cyborgclient.ARQ, host string, expected []string) []cyborgclient.ARQ {
	newest := holding.Newest(host, arqs)
	here := slices.DeleteFunc(slices.Clone(arqs), func(arq cyborgclient.ARQ) bool {
		return arq.Hostname != "" && host != "" && !holding.SameHost(arq.Hostname, host) && !slices.Contains(expected, arq.UUID) && !arq.CreatedAt.After(newest.Time)
	})
	if len(here) == 0 {
		return arqs
	}
	return here
}
