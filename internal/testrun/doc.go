// Package testrun decides how many cases the tests of a package try: a sample in go test ./...,
// all with the race detector, as in the stage race of .ci/run, or with the build tag drill.
//
// It is for tests only. The drills of cyborgclient/spawn and the kills of cmd/cysim, whose cases
// take minutes, run all cases only with the tag drill.
package testrun
