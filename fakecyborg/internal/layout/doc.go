// Package layout is the simulated Cyborg's client of Placement and the layouts in which
// devices stand there.
//
// It follows cyborg/services/report.py and cyborg/conductor/manager.py of the 2026.2 release,
// and the representations of Nova's and Cyborg's Rocky specifications. Layouts keep nothing
// of their own: what they have to remember of what they wrote are rows of the store.
package layout
