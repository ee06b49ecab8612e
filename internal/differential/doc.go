// Package differential classifies the differences between a real service and its simulation. Random requests go to both;
// every difference of their answers must belong to a [Class] of a [Table], or the test that found it fails.
//
// The tables list the known differences: [Placement], [Cyborg], [CyborgQuirks] and [Keystone].
// docs/dev/differential.md is generated from them and from the counts of a run.
//
// It is for tests only: those with the build tag differential, here and in placementsim.
package differential
