// Package agent is the part of the simulated Cyborg that leaves the process or takes time:
// its agents discover, report, create mediated devices and program; its conductor writes to
// Placement and notifies Nova.
//
// Whatever takes time happens between two transactions of the store.
//
// It follows, of the 2026.2 release, cyborg/agent, cyborg/conductor/manager.py,
// cyborg/objects/ext_arq.py and cyborg/common/nova_client.py.
package agent
