// Package testrun decides how much the tests of a package try: a sample in go test ./..., all in the stages drill and
// race of .ci/run, which are those with the build tag drill and with the race detector.
//
// It is for tests only. The drills of cyborgclient/spawn and the kills of cmd/cysim, whose cases take minutes, are whole
// with the tag drill alone.
package testrun
