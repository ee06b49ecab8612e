// Package layout is the simulated Cyborg's client of Placement and the layouts of its devices there.
//
// It follows cyborg/services/report.py and cyborg/conductor/manager.py of the 2026.2 release, and the representations
// in Nova's and Cyborg's Rocky specifications. The store keeps rows of what was written to Placement.
package layout
