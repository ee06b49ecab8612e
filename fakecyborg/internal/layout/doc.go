// Package layout is the simulated Cyborg's client of Placement and the layouts of its devices
// there.
//
// It follows cyborg/services/report.py and cyborg/conductor/manager.py of the 2026.2 release,
// and the representations of Nova's and Cyborg's Rocky specifications. What layouts
// wrote is kept as rows of the store.
package layout
