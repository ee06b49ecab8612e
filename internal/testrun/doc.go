// Package testrun decides how many cases the tests of a package try: a sample in go test ./...,
// all in the stages drill and race of .ci/run, which use the build tag drill and the race
// detector.
//
// It is for tests only. The drills of cyborgclient/spawn and the kills of cmd/cysim, whose cases
// take minutes, run all cases only with the tag drill.
package testrun
